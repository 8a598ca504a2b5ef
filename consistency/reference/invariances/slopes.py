"""Whether a derivative is the slope of what it is a derivative of: difference quotients in float64,
for torch's formulas of second derivatives and of forward mode, which every device shares.

A second derivative is compared with the slope of the first one, and one of forward mode with that
of the operator. The quotients are central ones for three distances, extrapolated (Richardson); one
counts only where it has converged, where both sides have the same slope, where the rounding of the
function is small beside it, and where the derivative itself is steady over that distance. What is
found wrong is wrong by a share of its size, not by a rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...backends.base import differentiated, limited
from ...core.model import Output
from ...core.trees import map_leaves, tensors_in
from ...generate.materialize import Arguments, Materials
from ...operators.declare import Operator
from ...operators.derivatives import first_result, with_gradient
from .companions import Companion
from .relations import SLOPE

_DISTANCES = tuple(2.0**-power for power in (9, 11, 13))
_ORDINARY = (2.0**-10, 2.0**10)  # of numbers that are moved; 0 is, too
_WRONG = 2.0**-8  # relative to the larger of slope and derivative
_AGREES = _WRONG / 2.0  # the same
_UNSURE = 2.0**-12  # of what extrapolation and rounding leave open, relative to the same
_ROUNDINGS = 2.0**-48  # of a float64 function, relative to its numbers
_STEADY = 2.0**-2  # relative change of a derivative over the smallest distance
_SMALL = 2.0**-20  # × what derivatives are taken along: below are differences of larger terms


@dataclass(frozen=True, kw_only=True)
class Slope(Companion):
    """One element of a result, number ``index``, and the slope there, which it is not.

    ``of_traced_formula``: the result is what the operator itself computes, so that its exact value
    is that of the same formula.
    """

    index: int
    place: int
    slope: float
    of_traced_formula: bool

    def completed(
        self,
        outputs: tuple[Output, ...],
        others: tuple[Output, ...],
        original: Materials,
        dtype: str | None,
    ) -> tuple[Output, ...] | None:
        """``outputs`` with the slope in place of the derivative."""
        tensor = outputs[self.index].tensor if self.index < len(outputs) else None
        if tensor is None or self.place >= tensor.numel():
            return None
        changed = tensor.detach().clone(memory_format=torch.contiguous_format)
        changed.view(-1)[self.place] = self.slope
        corrected = replace(outputs[self.index], tensor=changed)
        return (*outputs[: self.index], corrected, *outputs[self.index + 1 :])


def slopes(
    operator: Operator, materials: Materials, direction: str, outputs: tuple[Output, ...]
) -> Iterator[Slope]:
    """The first element that is not the slope there, of the second derivatives (``direction``
    backward) or of the derivatives that ``outputs``, the case's own in float64, hold."""
    if operator.derivative_of is None:
        return
    arguments = materials.build("float64")
    found = _second(operator, arguments, materials, outputs) if direction == "backward" else None
    if direction == "forward" and isinstance(arguments.args[-1], list):  # of tangents
        found = _first(operator, arguments, outputs)
    if found is not None:
        index, place, slope, words = found
        yield Slope(
            SLOPE, "as torch's formula", words, materials, _whole, _whole,
            index=index, place=place, slope=slope, of_traced_formula=direction == "forward",
        )  # fmt: skip


Found = tuple[int, int, float, str]


def _second(
    operator: Operator, arguments: Arguments, materials: Materials, outputs: tuple[Output, ...]
) -> Found | None:
    """Of each argument the element that the case chooses, and one more."""
    tracked = materials.build("float64", gradients=operator.leaves)
    cotangents = _cotangents(operator(*tracked.args, **tracked.kwargs), tracked)
    if not cotangents:
        return None
    along = max(map(_largest, tensors_in(arguments.args[-1])), default=0.0) * max(
        map(_largest, cotangents.values())
    )
    number = int(materials.case.digest[24:32], 16)
    for index, (position, output) in enumerate(zip(tracked.leaves, outputs, strict=True)):
        tensor, size = arguments.tensors[position], arguments.tensors[position].numel()
        if output.tensor is None or output.tensor.numel() != size:
            continue
        for place in {number % size, size - 1 - number % size} if size else ():
            at = float(tensor.reshape(-1)[place])
            if at != 0.0 and not _ORDINARY[0] <= abs(at) <= _ORDINARY[1]:
                continue
            line = _Line(operator, arguments, tensor, place, cotangents)
            scale = max(abs(at), 1.0)
            there = output.tensor.reshape(-1)[place]
            if bool(_agrees(there, line.first, scale, total=True).all()):
                continue
            quotient = _quotient(line.first, scale, total=True)
            if quotient is None:
                continue
            if bool(_contradicts(there, *quotient, along)) and bool(
                _is_steady(line.second, scale, there, quotient[0])
            ):
                return index, place, float(quotient[0]), "as the slope of the first derivative"
    return None


def _cotangents(result: Any, arguments: Arguments) -> dict[int, torch.Tensor]:
    """The case's cotangents, by the number of the return value."""
    return {
        number: cotangent.detach()
        for number, root in enumerate(limited(result))
        for _, cotangent in differentiated([root], arguments)
    }


@dataclass(frozen=True)
class _Line:
    """The derivatives of an operator while one element of one of its tensors moves."""

    operator: Operator
    arguments: Arguments
    tensor: torch.Tensor
    place: int
    cotangents: dict[int, torch.Tensor]

    def first(self, by: float) -> torch.Tensor:
        """The terms whose sum has the second derivative as its slope: terms that do not move
        cancel here, not in the sum."""
        with torch.no_grad():
            results = [*limited(self._called(self._moved(by)))]
        return torch.cat([(results[i] * c).reshape(-1) for i, c in self.cotangents.items()])

    def second(self, by: float) -> torch.Tensor:
        """The second derivative, by torch's formula."""
        values = self._moved(by).requires_grad_()
        with torch.enable_grad():
            results = [*limited(self._called(values))]
            roots = [(results[i] * c).sum() for i, c in self.cotangents.items()]
            root = torch.stack(roots).sum()
            if not root.requires_grad:  # a formula that leaves this tensor out
                return torch.zeros(())
            (gradient,) = torch.autograd.grad(root, [values], allow_unused=True)
        return torch.zeros(()) if gradient is None else gradient.reshape(-1)[self.place]

    def _moved(self, by: float) -> torch.Tensor:
        values = self.tensor.detach().clone(memory_format=torch.contiguous_format)
        values.view(-1)[self.place] += by
        return values

    def _called(self, values: torch.Tensor) -> Any:
        args, kwargs = map_leaves(
            lambda leaf: values if leaf is self.tensor else leaf,
            (list(self.arguments.args), self.arguments.kwargs),
        )
        return self.operator(*args, **kwargs)


def _first(operator: Operator, arguments: Arguments, outputs: tuple[Output, ...]) -> Found | None:
    """Of a derivative along tangents, all elements: the largest that is wrong."""
    *own, tangents = arguments.args
    original, derivative = operator.derivative_of, outputs[0].tensor
    assert original is not None
    largest = max(map(_largest, tangents), default=0.0)
    places = [*with_gradient(original, own)]
    if derivative is None or not largest or not all(_is_ordinary(own[i]) for i in places):
        return None

    def moved(by: float) -> list[Any]:
        args = list(own)
        for place, tangent in zip(places, tangents, strict=True):
            args[place] = own[place] + by / largest * tangent
        return args

    def function(by: float) -> torch.Tensor:
        with torch.no_grad():
            result = first_result(original(*moved(by), **arguments.kwargs))
        return result.reshape(-1) * largest

    def slope_of_formula(by: float) -> torch.Tensor:
        with torch.no_grad():
            result: torch.Tensor = operator(*moved(by), tangents, **arguments.kwargs)
        return result.reshape(-1)

    there = derivative.reshape(-1)
    if bool(_agrees(there, function, 1.0, total=False).all()):
        return None
    quotient = _quotient(function, 1.0, total=False)
    if quotient is None:
        return None
    wrong = _contradicts(there, *quotient, largest)
    if not bool(wrong.any()):
        return None
    wrong &= _is_steady(slope_of_formula, 1.0, there, quotient[0])
    if not bool(wrong.any()):
        return None
    place = int(
        torch.where(wrong, torch.nan_to_num(there).abs() + quotient[0].abs(), -1.0).argmax()
    )
    return 0, place, float(quotient[0][place]), "as the slope of the operator"


def _agrees(
    there: torch.Tensor, moved: Callable[[float], torch.Tensor], scale: float, *, total: bool
) -> torch.Tensor:
    """Where a derivative is the quotient over the smallest distance: two calls tell that of nearly
    all, and the others need not be made. ``moved`` and ``scale`` as in :func:`_quotient`."""
    step = scale * _DISTANCES[-1]
    try:
        change = moved(step) - moved(-step)
    except (RuntimeError, ValueError):
        return torch.zeros((), dtype=torch.bool)
    slope = (change.sum() if total else change) / (2.0 * step)
    return (there - slope).abs() <= _AGREES * torch.maximum(there.abs(), slope.abs())


def _quotient(
    moved: Callable[[float], torch.Tensor], scale: float, *, total: bool
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """The slope of ``moved`` at 0, per element or summed, and how far it may be off: infinity where
    both sides differ. ``scale`` is that of its argument. None where it raises."""
    reduced: Callable[[torch.Tensor], torch.Tensor] = torch.sum if total else torch.clone
    central, bends = [], []
    try:
        here = moved(0.0)
        for distance in _DISTANCES:
            step = scale * distance
            above, below = moved(step), moved(-step)
            central.append(reduced(above - below) / (2.0 * step))
            bends.append((reduced(above - here) - reduced(here - below)).abs() / step)
    except (RuntimeError, ValueError):
        return None
    rough, fine = ((16.0 * central[i + 1] - central[i]) / 15.0 for i in (0, 1))
    rounding = reduced(above.abs() + below.abs()) * (_ROUNDINGS / step)
    smooth = bends[-1] <= bends[0] / 2.0 + 4.0 * rounding
    unsure = torch.where(smooth, (fine - rough).abs() + rounding, math.inf)
    return fine, unsure


def _contradicts(
    there: torch.Tensor, slope: torch.Tensor, unsure: torch.Tensor, along: float
) -> torch.Tensor:
    """Where a derivative is not the slope, or NaN where there is one. ``along`` is the size of what
    the derivative was taken along."""
    scale = torch.maximum(there.abs(), slope.abs())
    wrong = ((there - slope).abs() > _WRONG * scale) & (unsure <= _UNSURE * scale)
    wrong &= (scale > _SMALL * along) & scale.isfinite()
    missing = there.isnan() & (unsure <= _UNSURE * slope.abs().clamp(min=along))
    return wrong | missing


def _is_steady(
    derivative: Callable[[float], torch.Tensor],
    scale: float,
    there: torch.Tensor,
    slope: torch.Tensor,
) -> torch.Tensor:
    """Where torch's formula a smallest distance away is near the slope or near itself here: where
    it is neither, the function has details that the quotients step over."""
    step = scale * _DISTANCES[-1]
    sides = (derivative(step), derivative(-step))

    def near(value: torch.Tensor) -> torch.Tensor:
        far = [(s - value).abs() > _STEADY * torch.maximum(s.abs(), value.abs()) for s in sides]
        return ~(far[0] | far[1])

    return near(there) | near(slope)


def _is_ordinary(tensor: torch.Tensor) -> bool:
    """Whether a step moves every number."""
    return bool((tensor.abs() <= _ORDINARY[1]).all())


def _largest(tensor: torch.Tensor) -> float:
    finite = torch.nan_to_num(tensor.abs(), nan=0.0, posinf=0.0)
    return float(finite.max()) if finite.numel() else 0.0


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor
