"""Perturbations of inputs and of roundings, and how far they move a result.

Everything that is measured by computing again with slightly different numbers uses this module:

- sensitivities, from which the magnitude S of an operator is made (``magnitudes``);
- σ of the roundings of a composed function's own steps (``own_steps``);
- condition estimates and random rounding of a failing case (Monte Carlo arithmetic: Parker, Pierce
  and Eggert, "Monte Carlo arithmetic: how to gamble with floating point and win", 2000);
- replicas of a training run in float64 with every number perturbed by ½ ulp.

Random numbers come from generators with fixed seeds or from the bitstream; torch's global random
state is neither read nor changed.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from ..backends.base import collect
from ..core import dtypes
from ..core.dispatch_mode import PlainDispatchMode
from ..core.dtypes import Format
from ..core.model import Output
from ..core.trees import map_leaves
from ..generate import bitstream
from ..generate.materialize import Adjust
from ..operators.catalog.signature import signature

if TYPE_CHECKING:
    from .error_magnitudes import ErrorMagnitudes

# Relative size of the perturbations that measure sensitivity: large compared with float64's
# rounding, small enough for a linear response.
RELATIVE_STEP = 2.0**-28
_SMALLER = 8.0  # by what the step is divided to tell a jump from a slope
# × max|ref|: larger effects of one rounding may be jumps; × a jump: what is admitted beside it
_SUSPICIOUS, _JUMP = 0.125, 4.0
SAMPLES = 30
_EARLY = 4  # samples after which a larger excess than _HOPELESS ends the measurement
_HOPELESS = 20.0  # in units of 3σ
_EXPONENT = 0x7FF0000000000000
_BINADES = 16  # binades whose shared rounding errors are drawn separately

Doubles = npt.NDArray[np.float64]
Sample = Callable[[torch.Generator], Sequence[Output]]


def seeded_generator() -> torch.Generator:
    """The generator of every measurement: always seed 0, so that a case gives the same figures."""
    return torch.Generator().manual_seed(0)


def binade(numbers: torch.Tensor) -> torch.Tensor:
    """The power of two at or below the absolute value of each float64 number; 0 for subnormals."""
    return torch.bitwise_and(numbers.view(torch.int64), _EXPONENT).view(torch.float64)


def ulp(numbers: torch.Tensor, form: Format) -> torch.Tensor:
    """The spacing of a format at float64 numbers, never below that of its smallest normal."""
    power = binade(numbers.contiguous())
    return power.clamp_(min=form.smallest_normal).mul_(2.0 ** (1 - form.precision))


def aperiodic_signs(count: int, pattern: int = 0, shift: float = 0.0) -> torch.Tensor:
    """A fixed, aperiodic sequence of ±1 (from the fractional parts of multiples of √2, √3, √5)."""
    root = math.sqrt((2.0, 3.0, 5.0)[pattern])
    return (
        torch.frac(torch.arange(1, count + 1, dtype=torch.float64) * (root + shift)) - 0.5
    ).sign()


def rounding_noise(generator: torch.Generator, value: torch.Tensor) -> torch.Tensor:
    """Uniform numbers between −½ and ½: in half of the draws one per element, else one per binade.

    Subtracting one number from numbers on a coarse grid, such as a mean in bfloat16, gives the same
    rounding error in a whole binade; multiplying by few numbers gives one with the product's sign.
    """
    kind = int(torch.randint(0, 4, (), generator=generator))
    if kind < 2:
        noise = torch.rand(value.shape, generator=generator, dtype=torch.float32)
        return noise.to(torch.float64).sub_(0.5)
    noise = noise_by_binade(generator, binade_numbers(value))
    return noise if kind == 2 else noise.mul_(value.sign())


def binade_numbers(value: torch.Tensor) -> torch.Tensor:
    """Which of ``_BINADES`` neighboring binades each float64 number is in."""
    exponents = torch.bitwise_right_shift(value.contiguous().view(torch.int64), 52)
    return torch.bitwise_and(exponents, _BINADES - 1)


def noise_by_binade(generator: torch.Generator, binades: torch.Tensor) -> torch.Tensor:
    """Uniform numbers between −½ and ½, the same for all numbers of a binade."""
    by_binade = torch.rand(_BINADES, generator=generator, dtype=torch.float64).sub_(0.5)
    return by_binade[binades]


def largest(tensor: torch.Tensor) -> float:
    """The largest finite element; 0 where there is none."""
    if not tensor.numel():
        return 0.0
    return float(torch.nan_to_num(tensor, nan=0.0, posinf=0.0, neginf=0.0).max())


def responses(
    reference: ErrorMagnitudes, adjust: Callable[..., torch.Tensor]
) -> list[torch.Tensor | None]:
    """|change of each output| per unit of relative change of the inputs, as float64; None where it
    cannot be measured. ``adjust`` takes another ``step``, too. A jump has no derivative: a rounding
    of the tested format moves the result across it, and no farther."""
    found = _changes(reference, adjust)
    form = dtypes.form_of(reference.materials.case.dtype)
    u = form.unit_roundoff if form is not None else 0.0
    most = [
        _SUSPICIOUS * largest(o.tensor.abs()) * RELATIVE_STEP / u
        if c is not None and o.tensor is not None and u > RELATIVE_STEP
        else math.inf
        for o, c in zip(reference.outputs, found, strict=False)
    ]
    if all(c is None or largest(c) <= limit for c, limit in zip(found, most, strict=True)):
        return [None if c is None else c / RELATIVE_STEP for c in found]
    smaller = _changes(reference, functools.partial(adjust, step=RELATIVE_STEP / _SMALLER))
    return [
        None if c is None else _without_jumps(c, other, limit, u)
        for c, other, limit in zip(found, smaller, most, strict=False)
    ]


def _changes(reference: ErrorMagnitudes, adjust: Adjust) -> list[torch.Tensor | None]:
    pairs = zip(reference.outputs, reference.evaluate(adjust), strict=False)
    changes = ((before.tensor, after.tensor) for before, after in pairs)
    return [
        (b - a).abs()
        if a is not None
        and b is not None
        and (a.is_floating_point() or a.is_complex())
        and a.shape == b.shape
        else None
        for a, b in changes
    ]


def _without_jumps(
    change: torch.Tensor, smaller: torch.Tensor | None, limit: float, u: float
) -> torch.Tensor:
    """The response, where a step eight times smaller does not change the result eight times
    less."""
    response = change / RELATIVE_STEP
    if smaller is None:
        return response
    follows = (smaller < 4.0 / _SMALLER * change) & (smaller > change / (4.0 * _SMALLER))
    jumps = ~follows & (change > limit)
    return torch.where(jumps, torch.minimum(response, _JUMP / u * change), response)


def scale_one(
    chosen: int, base: torch.Tensor, position: int, step: float = RELATIVE_STEP
) -> torch.Tensor:
    """Only the chosen input, relatively smaller by the step."""
    return base * (1.0 - step) if position == chosen else base


def scale_by_signs(base: torch.Tensor, position: int) -> torch.Tensor:
    """Every number of every input, relatively larger or smaller by the step."""
    signs = aperiodic_signs(base.numel(), shift=0.1 * position)
    return base * (1.0 + RELATIVE_STEP * signs.reshape(base.shape))


def shift_by_norm(
    pattern: int, base: torch.Tensor, position: int, step: float = RELATIVE_STEP
) -> torch.Tensor:
    """base + δ·max|base|·(±1), both parts of a complex one, with aperiodic signs."""
    step = step * largest(base.abs())
    signs = aperiodic_signs(base.numel(), pattern, 0.1 * position)
    if base.is_complex():
        imaginary = aperiodic_signs(base.numel(), pattern, 0.1 * position + 0.05)
        signs = torch.complex(signs, imaginary)
    return base + step * signs


def change_signs(pattern: int, chosen: int, base: torch.Tensor, position: int) -> torch.Tensor:
    """Only the chosen input: all positive (pattern 0), or with aperiodic signs."""
    if position != chosen:
        return base
    return base.abs() if pattern == 0 else aperiodic_signs(base.numel(), pattern) * base.abs()


def error_in_sigmas(
    sample: Sample, index: int, error: Doubles, failing: npt.NDArray[Any], samples: int = SAMPLES
) -> float:
    """The largest error of the failing elements in units of 3σ, σ over samples of output ``index``;
    infinity if σ is 0 or there is no output.

    Stops early if a few samples already show an error far above 1.
    """
    generator = seeded_generator()
    values: list[Doubles] = []
    for _ in range(samples):
        outputs = sample(generator)
        tensor = outputs[index].tensor if index < len(outputs) else None
        if tensor is None:
            return float("inf")
        tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
        values.append(tensor.detach().to(torch.float64).reshape(-1).numpy()[failing])
        if len(values) == _EARLY and (excess := _excess(values, error[failing])) > _HOPELESS:
            return excess
    return _excess(values, error[failing])


def _excess(values: list[Doubles], error: Doubles) -> float:
    with np.errstate(all="ignore"):
        sigma = np.std(np.stack(values), axis=0, ddof=1)
        excess = error / (3.0 * sigma)
    excess = excess[error > 0.0]
    worst = float(np.max(excess)) if excess.size else 0.0
    return worst if worst == worst else float("inf")


def _accumulation_format(reference: ErrorMagnitudes) -> Format:
    """The tested format, or float32 where sums of a shorter one are accumulated in float32: half an
    ulp of bfloat16 would excuse a bfloat16 accumulator."""
    form = dtypes.form_of(reference.materials.case.dtype) or dtypes.FORMATS["float32"]
    wide = reference.model.wide_accumulation and reference.direction == "forward"
    return dtypes.FORMATS["float32"] if wide and form.precision < 24 else form


def with_perturbed_inputs(
    reference: ErrorMagnitudes, generator: torch.Generator
) -> tuple[Output, ...]:
    """The reference on inputs that are each perturbed by half an ulp, up or down."""
    form = _accumulation_format(reference)
    return reference.evaluate(functools.partial(_half_an_ulp, form, generator))


def _half_an_ulp(
    form: Format, generator: torch.Generator, base: torch.Tensor, position: int
) -> torch.Tensor:
    if base.is_complex():
        parts = _half_an_ulp(form, generator, torch.view_as_real(base), position)
        return torch.view_as_complex(parts)
    if base.dtype != torch.float64 or not base.numel():
        return base
    signs = torch.randint(0, 2, base.shape, generator=generator) * 2.0 - 1.0
    perturbed = base + 0.5 * ulp(base, form) * signs
    return torch.where(torch.isfinite(base) & (base != 0.0), perturbed, base)


def with_random_rounding(
    reference: ErrorMagnitudes, generator: torch.Generator
) -> tuple[Output, ...]:
    """The reference over its decomposition into torch's core operators, every step's result rounded
    at random."""
    backward = reference.direction == "backward"
    arguments = reference.materials.build(
        "float64", gradients=backward and reference.operator.leaves
    )
    function = reference.operator.reference or reference.operator
    with RandomRounding(_accumulation_format(reference).unit_roundoff, generator):
        outputs = collect(
            lambda args, kwargs: function(*args, **kwargs), reference.operator, arguments, backward
        )
    return reference.observed(outputs)


class RandomRounding(PlainDispatchMode):
    """Multiplies what every core operator returns by 1 + ξ·u, with ξ uniform in [−1, 1]."""

    def __init__(self, roundoff: float, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.roundoff, self.generator = roundoff, generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        table = _decompositions()
        if func in table:
            with self:
                result = table[func](*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if signature(func).aliases:
            # A view or an in-place write: no new numbers, or numbers that are already rounded.
            return result
        return map_leaves(self._round, result)

    def _round(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype not in (
            torch.float64,
            torch.complex128,
        ):
            return value
        with torch._C._DisableTorchDispatch():
            noise = torch.rand(value.shape, generator=self.generator, dtype=torch.float64)
            return value * (1.0 + self.roundoff * (noise * 2.0 - 1.0))


@functools.cache
def _decompositions() -> Mapping[Any, Any]:
    from torch._decomp import core_aten_decompositions

    return core_aten_decompositions()


class ReplicaPerturbation:
    """Perturbs numbers in place by ``scale`` × ±½ ulp, the signs from the bitstream: replica number
    ``replica`` of a model gets the same ones every time, and every tensor gets others."""

    _LENGTH = 1 << 18  # number of signs, drawn once and reused
    _STRIDE = 104_729  # a prime, so that each tensor starts at another sign

    def __init__(self, replica: int, scale: float = 1.0) -> None:
        self._scale = scale
        bits, _ = bitstream.window(self._LENGTH, self._LENGTH * (replica + 1))
        odd = torch.from_numpy((bits >> 40).astype("int64") & 1)
        self._signs = odd.to(torch.float64).mul_(2.0).sub_(1.0)
        self._start = 0

    def apply(self, tensor: torch.Tensor, precision: int, extra: float = 0.0) -> None:
        """Perturb every number of a float64 tensor by half an ulp of a format with ``precision``
        significand bits, plus ``extra``."""
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor)
        if tensor.dtype != torch.float64 or precision >= 53 or not tensor.numel():
            return
        step = binade(tensor)
        step.nan_to_num_(nan=0.0, posinf=0.0).mul_(self._scale * 2.0**-precision)
        if extra:
            step.add_(self._scale * extra)
        # ``step`` is dense, but its dimensions may be in any order.
        flat = step.view(-1) if step.is_contiguous() else step.as_strided((step.numel(),), (1,))
        self._start = (self._start + self._STRIDE) % self._LENGTH
        self._multiply_by_signs(flat)
        tensor.add_(step)

    def _multiply_by_signs(self, flat: torch.Tensor) -> None:
        start = self._start
        for begin in range(0, flat.numel(), self._LENGTH):
            block = flat[begin : begin + self._LENGTH]
            first = min(block.numel(), self._LENGTH - start)
            block[:first].mul_(self._signs[start : start + first])
            if first < block.numel():
                block[first:].mul_(self._signs[: block.numel() - first])
            start = (start + self._STRIDE) % self._LENGTH
