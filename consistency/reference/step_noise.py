"""The simulated rounding errors of the steps of a replayed function.

How large they are, the exact replay tells: they are 2⁻²⁰ of real ones, so that what they do to the
numbers of later steps does not change the size of errors there. A result of few numbers has the
random numbers of many replays drawn at once; that of a large result would take as much memory as
all replays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..core import dtypes
from ..core.trees import flatten, map_leaves
from .magnitudes import unsigned
from .perturbation import (
    binade_numbers,
    largest,
    noise_by_binade,
    rounding_noise,
    seeded_generator,
    ulp,
)
from .rounding_variance import healthy_variance
from .step_replay import Arguments, RecordedStep

SHIFT = 2.0**-20  # size of the simulated rounding errors relative to real ones
# Upper limit of a kernel's own error in float32, in u·max|result|; shorter formats are rounded once
KERNEL_ERROR = 4.0
_SUMS = frozenset((
    "sum", "mean", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "addmv",
    "cumsum", "linear", "matmul",
))  # fmt: skip
# Sums of products along several dimensions, whose terms are counted by the step on ones
_COUNTED = frozenset(("convolution", "convolution_backward", "_trilinear"))
_SUM_VARIANCE_FACTOR = 4.0  # × the variance of a sum in random order: torch 2.13 CPU 2.1 (mm)
_AT_ONCE = 1 << 15  # random numbers of a result


class StepNoise:
    """Random rounding errors of the results of all steps, of each as many as there are replays.

    Both methods are what :meth:`.RecordedSteps.replay` calls with the result of a rounding step.
    """

    def __init__(self, replays: int) -> None:
        self.generator = seeded_generator()
        self._replays = replays
        self._errors: dict[tuple[int, int], Iterator[torch.Tensor]] = {}

    def measured(
        self, step: RecordedStep, number: int, value: torch.Tensor, arguments: Arguments
    ) -> torch.Tensor:
        """The exact result, unchanged; its rounding errors are kept for the replays."""
        if value.numel() * self._replays <= _AT_ONCE:
            spread = _spread(step, number, value, arguments)
            self._errors[id(step), number] = _errors(self.generator, value, spread, self._replays)
        return value

    def added(
        self, step: RecordedStep, number: int, value: torch.Tensor, arguments: Arguments
    ) -> torch.Tensor:
        """The result of a replay with the next rounding error."""
        errors = self._errors.get((id(step), number))
        if errors is not None:
            return value + next(errors)
        spread = _spread(step, number, value, arguments)
        return value + rounding_noise(self.generator, value).mul_(spread).mul_(SHIFT)


def _errors(
    generator: torch.Generator, value: torch.Tensor, spread: torch.Tensor, replays: int
) -> Iterator[torch.Tensor]:
    """As :func:`.rounding_noise`, times the spread, for all replays: of every other one a binade
    has one error, of a quarter the signs of the numbers besides. In which replays is random."""
    noise = torch.rand((replays, *value.shape), generator=generator, dtype=torch.float32)
    noise = noise.to(torch.float64).sub_(0.5)
    order = torch.randperm(replays, generator=generator).tolist()
    binades, signs = binade_numbers(value), value.sign()
    for row, place in zip(noise, order, strict=True):
        if place % 2:
            row.copy_(noise_by_binade(generator, binades))
        if place % 4 == 3:
            row.mul_(signs)
    return iter(noise.mul_(spread * SHIFT))


def _spread(
    step: RecordedStep, number: int, value: torch.Tensor, arguments: Arguments
) -> torch.Tensor:
    """The width of the interval within which a step rounds: an ulp, and for sums also the error of
    adding many terms."""
    recorded = step.results[number]
    assert recorded is not None
    spread = ulp(value, dtypes.FORMATS[dtypes.name_of(recorded.dtype)])
    if step.name in _SUMS or step.name in _COUNTED:
        p, q = _sum_variance(step, number, value, arguments)
        size = _on(unsigned, step, number, arguments)
        spread = (
            spread.square() + 12.0 * _SUM_VARIANCE_FACTOR * (p * value.square() + q * size.square())
        ).sqrt_()
    elif step.off[number] and recorded.dtype == torch.float32:
        max_error = (
            KERNEL_ERROR
            * dtypes.FORMATS["float32"].unit_roundoff
            * float(torch.nan_to_num(value).abs().max())
        )
        spread = (spread.square() + 12.0 * min(step.off[number], max_error) ** 2).sqrt_()
    return spread


def _sum_variance(
    step: RecordedStep, number: int, value: torch.Tensor, arguments: Arguments
) -> tuple[float, float]:
    """(p, q) of σ² = p·sum² + q·S² for a sum in float32, in which torch also accumulates shorter
    formats."""
    tensors = [t for t in flatten(arguments) if isinstance(t, torch.Tensor)]
    if step.name in _COUNTED:
        terms = largest(_on(_ones, step, number, arguments))
    elif step.name in ("sum", "mean", "cumsum"):
        terms = tensors[0].numel() / max(value.numel() if step.name != "cumsum" else 1, 1)
    else:
        terms = max(t.shape[-1] for t in tensors if t.ndim) if tensors else 1
    u = dtypes.FORMATS["float32"].unit_roundoff
    return healthy_variance(max(float(terms), 1.0), u, 0.0)


def _ones(value: Any) -> Any:
    return torch.ones_like(value) if isinstance(value, torch.Tensor) else value


def _on(
    change: Callable[[Any], Any], step: RecordedStep, number: int, arguments: Arguments
) -> torch.Tensor:
    """The step on changed operands: on absolute values, the magnitude of the terms that it sums; on
    ones, their number."""
    args, kwargs = map_leaves(change, arguments)
    result = step.call(*args, **kwargs)
    found: torch.Tensor = result[number] if isinstance(result, tuple) else result
    return found
