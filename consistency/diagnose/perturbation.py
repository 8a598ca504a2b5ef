"""How much an answer may move by no fault of the backend: other inputs within half an ulp, other
roundings on the way.

Both are measured by running the float64 reference again with something random, and give a standard
deviation for every element (Monte Carlo arithmetic: Parker, Pierce and Eggert, "Monte Carlo
arithmetic: how to gamble with floating point and win", 2000). Nothing here depends on a random
state of torch's that anybody else uses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from ..backends.base import collect
from ..core import dtypes
from ..core.dtypes import Format
from ..core.model import Output
from ..judge.metrics import Doubles
from ..reference import Reference

SAMPLES = 30
_EARLY = 4  # samples after which a hopeless case is given up
_HOPELESS = 20.0  # 3σ

Sample = Callable[[torch.Generator], Sequence[Output]]


def in_sigmas(
    sample: Sample, index: int, error: Doubles, guilty: np.ndarray[Any, Any], samples: int = SAMPLES
) -> float:
    """The largest of the guilty elements' errors in 3σ of what ``sample`` gives; infinity where σ
    is 0, or nothing came.

    Gives up, with what it has, after a few samples that leave no hope of 1.
    """
    random = torch.Generator().manual_seed(0)
    found: list[Doubles] = []
    for _ in range(samples):
        outputs = sample(random)
        tensor = outputs[index].tensor if index < len(outputs) else None
        if tensor is None:
            return float("inf")
        tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
        found.append(tensor.detach().to(torch.float64).reshape(-1).numpy()[guilty])
        if len(found) == _EARLY and (excess := _excess(found, error[guilty])) > _HOPELESS:
            return excess
    return _excess(found, error[guilty])


def _excess(found: list[Doubles], error: Doubles) -> float:
    with np.errstate(all="ignore"):
        sigma = np.std(np.stack(found), axis=0, ddof=1)
        excess = error / (3.0 * sigma)
    excess = excess[error > 0.0]
    largest = float(np.max(excess)) if excess.size else 0.0
    return largest if largest == largest else float("inf")


def perturbed(reference: Reference, random: torch.Generator) -> tuple[Output, ...]:
    """The reference on inputs that are each moved by half an ulp, up or down: of the tested dtype,
    or of float32 where sums of a shorter one are accumulated in float32. (Half an ulp of bfloat16
    would excuse a bfloat16 accumulator.)
    """
    form = dtypes.form_of(reference.materials.case.dtype) or dtypes.FORMATS["float32"]
    if (
        form.precision < 24
        and reference.model.wide_accumulation
        and reference.direction == "forward"
    ):
        form = dtypes.FORMATS["float32"]
    return reference.evaluate(functools.partial(_half_an_ulp, form, random))


def _half_an_ulp(
    form: Format, random: torch.Generator, base: torch.Tensor, position: int
) -> torch.Tensor:
    if base.is_complex():
        return torch.view_as_complex(_half_an_ulp(form, random, torch.view_as_real(base), position))
    if base.dtype != torch.float64 or not base.numel():
        return base
    flat = np.ascontiguousarray(base.reshape(-1).numpy())
    ulp = torch.from_numpy(dtypes.spacing(flat, form, np.empty_like(flat))).reshape(base.shape)
    signs = torch.randint(0, 2, base.shape, generator=random) * 2.0 - 1.0
    return torch.where(torch.isfinite(base) & (base != 0.0), base + 0.5 * ulp * signs, base)


def randomly_rounded(reference: Reference, random: torch.Generator) -> tuple[Output, ...]:
    """The reference over its decomposition into torch's core operators, every step's result rounded
    at random."""
    backward = reference.direction == "backward"
    arguments = reference.materials.build(
        "float64", gradients=backward and reference.operator.leaves
    )
    function = reference.operator.reference or reference.operator
    form = dtypes.form_of(reference.materials.case.dtype) or dtypes.FORMATS["float32"]
    wide = form.precision < 24 and reference.model.wide_accumulation and not backward
    roundoff = 2.0**-24 if wide else form.unit_roundoff
    with _Rounding(roundoff, random):
        outputs = collect(
            lambda args, kwargs: function(*args, **kwargs), reference.operator, arguments, backward
        )
    return reference.observed(outputs)


class _Rounding(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Multiplies what every core operator returns by 1 + ξ·u, with ξ uniform in [−1, 1]."""

    def __init__(self, roundoff: float, random: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.roundoff, self.random = roundoff, random

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        table = _decompositions()
        if func in table:
            with self:
                result = table[func](*args, **kwargs)
            if result is not NotImplemented:
                return result
        result = func(*args, **kwargs)
        if any(returned.alias_info is not None for returned in func._schema.returns):
            # a view, or written in place: no new numbers, or ones that were rounded already
            return result
        return tree_map(self._round, result)

    def _round(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype not in (
            torch.float64,
            torch.complex128,
        ):
            return value
        with torch._C._DisableTorchDispatch():
            noise = torch.rand(value.shape, generator=self.random, dtype=torch.float64) * 2.0 - 1.0
            return value * (1.0 + self.roundoff * noise)


@functools.cache
def _decompositions() -> Mapping[Any, Any]:
    from torch._decomp import core_aten_decompositions

    return core_aten_decompositions()
