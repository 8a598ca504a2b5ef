"""Python's numbers, and whole numbers, beside tensors: torch converts them to the tensors' format,
which rounds them.

The reference computes with the number as it was given. Where the function steps between the two,
the results have nothing in common: 0.1 is less than the float32 number nearest to it, so that
``hardshrink(x, 0.1)`` of that number is itself, and 0 where the bound was converted first. Both are
right: the conversion is documented (torch's `type promotion
<https://docs.pytorch.org/docs/stable/tensor_attributes.html>`_), and many kernels of half precision
compute with more. Therefore a failing result is compared again, in each element with the nearer of
the two.

Of an option only a step is admitted, and its own change (``x - 0.1``): where the results differ
because the function is steep (the scale of attention), a rounded option is an error. Beside that, a
number is an input like others: S has no part of it, so that what its own condition makes of two
units roundoff is admitted here (x / 0.3 is rounded, x / 0.25 is not).
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from .. import operators
from ..core import dtypes
from ..core.model import Case, Outcome, Output
from ..core.recipe import TensorRecipe
from ..generate.materialize import Materials
from ..judge.working_format import first_rounding
from ..operators.declare import HALF, Operator
from ..reference import Reference
from .moved_numbers import count_numbers, moved_numbers, scaled_number
from .output_differences import flat, replaced, shapes, widened

_STEP = 4.0  # of a slope, half of the way makes half of the difference: at least 1/4, at most 3/4
_SLOPE = 2.0  # a result's change ÷ the number's, or its inverse, where it is the number's own
_CONDITION = 2.0  # units roundoff of a number: what is computed of it is rounded as well
_MOST_NUMBERS = 4
_FLOAT32 = dtypes.FORMATS["float32"]
# Families whose numbers are operands: what their rounding does to the result is admitted wholly.
_OF_OPERANDS = frozenset({"binary", "ternary"})


@dataclass(frozen=True)
class _Admissible:
    """Outputs with numbers rounded, and with numbers half as far away; by how much they moved."""

    outputs: tuple[Output, ...]
    halfway: tuple[Output, ...]
    distance: float


class RoundedNumbers:
    """What else is admissible in a case because its numbers are converted; computed when it is
    first asked for, in float64, with two runs of the operator for each format."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference

    def nearest(self, outcome: Outcome) -> Reference | None:
        """The reference with the admissible values that are nearest to those of ``outcome``; None
        where there are no others."""
        reference = self.reference
        twice = first_rounding(reference)
        if not outcome.ok or not (twice or self.admissible or self.room):
            return None
        own = copy.copy(reference)
        try:
            actual = reference.observed(outcome.outputs)
        except (RuntimeError, IndexError, ValueError, TypeError):  # outputs of another kind
            return None
        if not _comparable(actual, own.outputs):
            return None
        for one in self.admissible:
            steps = self._steps(one)
            own.outputs = tuple(
                replaced(output, other, _closer(actual[index], output, other, steps[index]))
                for index, (output, other) in enumerate(zip(own.outputs, one.outputs, strict=True))
            )
        own.outputs = tuple(
            _towards(output, other, self.room[index] if self.room else None, self._first_rounding)
            for index, (output, other) in enumerate(zip(own.outputs, actual, strict=True))
        )
        own.tails, own.flattened = (None,) * len(own.outputs), {}
        return own

    @property
    def _first_rounding(self) -> float:
        """What half precision, computed in float32, rounds first: a product of two of its numbers
        has a place there, that with another number has none. What a destination of fewer digits
        rounds once more."""
        half = len(_formats(self.reference.materials.case)) > 1
        own = _FLOAT32.unit_roundoff if half else 0.0
        return max(own, first_rounding(self.reference))

    @functools.cached_property
    def _converted(self) -> tuple[str, ...]:
        """The dtypes of tensors that are converted before anything is computed: whole numbers
        beside fractions or of which a function makes fractions (the sine of 2³⁰ + 1), and what
        reductions are given with a destination of fewer digits."""
        reference = self.reference
        if reference.integers_too and "elementwise" in reference.operator.traits:
            return (*reference.promoted_integers, reference.materials.case.dtype)
        if not first_rounding(reference):
            return reference.promoted_integers
        destination, *operands = (t.dtype for t in reference.materials.case.tensors)
        finer = {dtype for dtype in operands if dtype in dtypes.FORMATS} - {destination}
        return (*reference.promoted_integers, *finer)

    @functools.cached_property
    def room(self) -> list[torch.Tensor | None]:
        """How far each result moves where each number is off by two units roundoff of the format
        that is computed in, as x / 0.3 or a rank are: the sum of the changes, from one run for each
        number with a small step. Empty where there is no number."""
        reference, materials = self.reference, self.reference.materials
        form = dtypes.form_of(materials.case.dtype)
        if form is None or "random" in reference.operator.traits:
            return []
        u = min(form.unit_roundoff, _FLOAT32.unit_roundoff)
        step = max(8.0 * u, 2.0**-40)
        rooms: list[torch.Tensor | None] = [None] * len(reference.outputs)
        found = False
        for place in range(min(count_numbers(materials), _MOST_NUMBERS)):
            moved = self._evaluate(scaled_number(materials, place, 1.0 + step))
            if shapes(moved) != shapes(reference.outputs):
                continue
            found = True
            for index, (here, there) in enumerate(zip(reference.outputs, moved, strict=True)):
                if (
                    here.tensor is None
                    or there.tensor is None
                    or not here.tensor.is_floating_point()
                ):
                    continue
                change = (there.tensor - here.tensor).detach().abs() * (_CONDITION * u / step)
                change = torch.nan_to_num(change, nan=0.0, posinf=0.0)
                before = rooms[index]
                rooms[index] = change if before is None else before + change
        return rooms if found else []

    @functools.cached_property
    def admissible(self) -> list[_Admissible]:
        """The other results, one for each format that changes a number."""
        return list(self._compute())

    def _compute(self) -> Iterator[_Admissible]:
        reference = self.reference
        if "random" in reference.operator.traits:
            return
        whole_too = _takes_operands(reference.operator)
        for dtype in _formats(reference.materials.case):
            moved = [
                moved_numbers(
                    reference.materials,
                    dtype,
                    share,
                    whole=whole_too,
                    tensors=self._converted,
                )
                for share in (1.0, 0.5)
            ]
            distance = moved[0][1]
            if not distance:
                continue
            whole, half = (self._evaluate(materials) for materials, _ in moved)
            if shapes(whole) == shapes(half) == shapes(reference.outputs):
                yield _Admissible(whole, half, distance)

    def _evaluate(self, materials: Materials) -> tuple[Output, ...]:
        """The outputs, observed as those of the case itself; empty if they cannot be computed."""
        reference = self.reference
        moved = Reference(reference.operator, materials, reference.direction).outcome
        return reference.observed(moved.outputs) if moved.ok else ()

    def _steps(self, one: _Admissible) -> list[np.ndarray]:
        """Of each output, the elements whose other value is admissible."""
        of_operands = bool(self._converted) or _takes_operands(self.reference.operator)
        found = []
        for here, half, there in zip(self.reference.outputs, one.halfway, one.outputs, strict=True):
            if here.tensor is None or half.tensor is None or there.tensor is None:
                found.append(np.empty(0, dtype=bool))
                continue
            a, h, b = (flat(widened(o)) for o in (here, half, there))
            with np.errstate(all="ignore"):
                a, h, b = (x.astype(complex if x.dtype.kind == "c" else float) for x in (a, h, b))
                whole, part = np.abs(b - a), np.abs(h - a)
                slope = (part * _STEP >= whole) & (part * _STEP <= (_STEP - 1.0) * whole)
                own = (whole * _SLOPE >= one.distance) & (whole <= _SLOPE * one.distance)
            found.append(~slope | own | of_operands)
        return found


def _takes_operands(operator: Operator) -> bool:
    """Whether a number is an operand: as that of the plain operator, in place and of lists."""
    name, family = operator.ruled_by
    plain = operators.registry().get(name.removeprefix("_foreach_").rstrip("_"))
    return (plain.family if plain is not None else family) in _OF_OPERANDS


def _comparable(outputs: tuple[Output, ...], others: tuple[Output, ...]) -> bool:
    """Whether numbers of one can be put in the other's place: the same shapes, both real or both
    complex, none sparse."""
    if shapes(outputs) != shapes(others):
        return False
    pairs = [(a.tensor, b.tensor) for a, b in zip(outputs, others, strict=True)]
    return all(
        a is None
        or b is None
        or (a.is_complex() == b.is_complex() and a.layout == b.layout == torch.strided)
        for a, b in pairs
    )


def _formats(case: Case) -> tuple[str, ...]:
    """Where numbers beside the case's tensors may be rounded: in the format of one that has
    dimensions, if it is half precision, and in that of the case."""
    beside = [t.dtype for t in case.tensors if isinstance(t, TensorRecipe) and t.base]
    half = [dtype for dtype in beside if dtype in HALF]
    return tuple(dict.fromkeys([*half, *_formats_of(case.dtype)]))


def _formats_of(dtype: str) -> tuple[str, ...]:
    """Half precision computes in float32, or not. A fraction beside whole numbers gives the default
    dtype."""
    real = dtypes.PARTS.get(dtype, dtype)
    if not dtypes.floats(dtype):
        return ("float32",)
    if real == "float64":
        return ()
    return (real,) if real == "float32" else (real, "float32")


def _towards(
    output: Output, actual: Output, room: torch.Tensor | None, first_rounding: float
) -> Output:
    """The output, nearer to ``actual`` by the room that there is."""
    if output.tensor is None or actual.tensor is None or not output.tensor.is_floating_point():
        return output
    here, there = output.tensor.detach(), actual.tensor.detach().to(output.tensor.dtype)
    space = first_rounding * here.abs() + (0.0 if room is None else room)
    moved = torch.maximum(torch.minimum(there, here + space), here - space)
    return replace(output, tensor=torch.where(moved.isfinite() & here.isfinite(), moved, here))


def _closer(actual: Output, here: Output, there: Output, admissible: np.ndarray) -> list[int]:
    """The elements that are nearer to the other admissible value."""
    if actual.tensor is None or here.tensor is None or there.tensor is None:
        return []
    x, a, b = (flat(widened(output)) for output in (actual, here, there))
    with np.errstate(all="ignore"):
        x, a, b = (v.astype(complex if v.dtype.kind == "c" else float) for v in (x, a, b))
        closer = (np.abs(x - b) < np.abs(x - a)) | ((x == b) & (x != a))
        closer |= np.isnan(x) & np.isnan(b) & ~np.isnan(a)  # of two infinities
        closer |= np.isnan(a) & ~(np.isnan(x) | np.isnan(b))  # (-2)^100.001, which is (-2)^100
        if x.dtype.kind == "f":  # a zero has a sign, too
            closer |= (x == b) & (np.signbit(x) == np.signbit(b)) & (np.signbit(x) != np.signbit(a))
    return np.flatnonzero(closer & admissible).tolist()
