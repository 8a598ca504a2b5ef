"""Simpler numbers: 0 or 1 wherever the case still fails (delta debugging), then short mantissas."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core import dtypes
from ...core.model import Case
from ...core.recipe import Literal
from .failure_predicate import Search
from .tensor_edits import bits_of, literals_in, put, reals_of, tensors_of, with_bits, with_tensors

Doubles = npt.NDArray[np.float64]
Change = Callable[[Doubles], Doubles]
_MAX_SINGLE_NUMBERS = 24  # numbers shortened one by one
_MAX_PARTS = 256  # of one tensor
_BIT_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)


def set_zeros_and_ones(search: Search) -> None:
    """Set as many numbers as possible to 0, then as many others as possible to 1."""
    for goal in (0.0, 1.0):
        search.report(f"elements to {goal:g}")
        if _remaining_positions(search.case, goal) and not search.accept(
            assigned(search.case, _remaining_positions(search.case, goal), goal)
        ):
            for i in sorted(
                _remaining_positions(search.case, goal),
                key=lambda i: -_remaining_positions(search.case, goal)[i].size,
            ):
                _set_by_delta_debugging(search, i, goal)


def _remaining_positions(case: Case, goal: float) -> dict[int, npt.NDArray[np.intp]]:
    """By tensor, the positions of numbers that could still become ``goal``."""
    remaining = {}
    for i, tensor in literals_in(case):
        numbers = reals_of(bits_of(tensor), tensor.dtype)
        zero = (numbers == 0.0) & ~np.signbit(numbers)
        finished = zero if goal == 0.0 else zero | (numbers == goal)
        if not finished.all():
            remaining[i] = np.flatnonzero(~finished)
    return remaining


def _set_by_delta_debugging(search: Search, i: int, goal: float) -> None:
    """Delta debugging over the numbers of one tensor: all, halves, quarters, …, single ones."""
    positions = _remaining_positions(search.case, goal).get(i, np.empty(0, dtype=np.intp))
    length = positions.size
    while length >= 1 and positions.size <= length * _MAX_PARTS:
        start = 0
        while start < positions.size:
            if search.accept(assigned(search.case, {i: positions[start : start + length]}, goal)):
                positions = np.delete(positions, slice(start, start + length))
            else:
                start += length
        length = min(length, positions.size) // 2


def assigned(
    case: Case, places: dict[int, npt.NDArray[np.intp]], numbers: float | dict[int, Doubles]
) -> Case:
    """The case with ``numbers`` at ``places`` of its literal tensors' storages."""
    tensors = tensors_of(case)
    for i, indices in places.items():
        tensor = tensors[i]
        assert isinstance(tensor, Literal)
        new_values = numbers[i] if isinstance(numbers, dict) else np.full(indices.size, numbers)
        tensors[i] = with_bits(tensor, put(bits_of(tensor), tensor.dtype, indices, new_values))
    return with_tensors(case, tensors)


def shorten_mantissas(search: Search) -> None:
    """Integers, powers of two, few bits: for all numbers at once, per tensor, and one by one."""
    search.report("shorter numbers")
    for change in _changes():
        _apply_change(search, change)
    for i in list(_remaining_positions(search.case, 1.0)):
        for change in _changes():
            _apply_change(search, change, i)
    positions = [
        (i, int(position))
        for i, indices in _remaining_positions(search.case, 1.0).items()
        for position in indices
    ]
    for i, position in positions[:_MAX_SINGLE_NUMBERS]:
        _simplify_number(search, i, position)


def _changes() -> Iterator[Change]:
    """From the simplest result to the most complex."""
    yield lambda v: np.sign(v)
    yield lambda v: np.copysign(np.maximum(np.rint(np.abs(v)), 1.0), v)
    yield np.abs
    for bits in _BIT_COUNTS:
        yield functools.partial(_rounded_to, bits)


def _rounded_to(bits: int, numbers: Doubles) -> Doubles:
    mantissa, exponent = np.frexp(numbers)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits))


def _apply_change(search: Search, change: Change, only: int | None = None) -> bool:
    """Apply a change to every finite number that it makes simpler."""
    places: dict[int, Any] = {}
    numbers: dict[int, Doubles] = {}
    for i, indices in _remaining_positions(search.case, 1.0).items():
        if only is not None and i != only:
            continue
        tensor = tensors_of(search.case)[i]
        assert isinstance(tensor, Literal)
        current = reals_of(bits_of(tensor), tensor.dtype)[indices]
        with np.errstate(all="ignore"):
            changed = np.where(np.isfinite(current), change(current), current)
        simpler = np.array(
            [cost(a) < cost(b) for a, b in zip(changed, current, strict=True)], dtype=bool
        )
        if simpler.any():
            places[i], numbers[i] = indices[simpler], changed[simpler]
    return bool(places) and search.accept(assigned(search.case, places, numbers))


def cost(value: float) -> tuple[float, bool, float]:
    """The complexity of a number: significant bits and distance from 1, then the sign. 0 is the
    simplest, then 1."""
    if value == 0.0 or not math.isfinite(value):
        return (-1.0 if value == 0.0 else 0.0), bool(np.signbit(value)), 0.0
    mantissa, exponent = math.frexp(abs(value))
    bits = 53
    significand = int(mantissa * 2.0**53)
    while significand and significand % 2 == 0:
        significand, bits = significand // 2, bits - 1
    return (
        bits + (0.0 if 0 < exponent < 11 else 1.0 + abs(exponent) / 64.0),
        value < 0.0,
        abs(exponent),
    )


def _simplify_number(search: Search, i: int, position: int) -> None:
    tensor = tensors_of(search.case)[i]
    assert isinstance(tensor, Literal)
    value = float(reals_of(bits_of(tensor), tensor.dtype)[position])
    if not math.isfinite(value):
        return
    for alternative in _alternatives(value, tensor.dtype):
        if search.accept(assigned(search.case, {i: np.array([position])}, alternative)):
            return


def _alternatives(value: float, dtype: str) -> list[float]:
    """Simpler numbers of the same order as ``value``, the simplest first."""
    size = abs(value)
    candidates = [-1.0, 2.0, -2.0, 3.0, 10.0, 100.0, size]
    if size < 1e15:
        candidates += [math.copysign(f(size), value) for f in (math.floor, math.ceil)]
    candidates += [math.copysign(2.0 ** (math.frexp(size)[1] - step), value) for step in (0, 1)]
    candidates += [
        float(_rounded_to(bits, np.array([v]))[0]) for bits in _BIT_COUNTS for v in (value, size)
    ]
    if not dtypes.floats(dtype):
        candidates += [value // 2]
    simpler = [v for v in dict.fromkeys(candidates) if math.isfinite(v) and cost(v) < cost(value)]
    return sorted(simpler, key=cost)
