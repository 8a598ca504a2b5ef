"""Simpler numbers: 0 or 1 wherever the failure lets them be (delta debugging), then short mantissas
for what is left."""

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
_SINGLES = 24  # numbers that are made shorter one by one
_PARTS = 256  # of one tensor: more are not tried apart
_BITS = (1, 2, 3, 4, 6, 8, 12, 16)


def set_zeros_and_ones(search: Search) -> None:
    """Every number that may be 0 becomes 0, then every other one that may be 1."""
    for goal in (0.0, 1.0):
        search.report(f"elements to {goal:g}")
        if _left(search.case, goal) and not search.accept(
            assigned(search.case, _left(search.case, goal), goal)
        ):
            for i in sorted(
                _left(search.case, goal), key=lambda i: -_left(search.case, goal)[i].size
            ):
                _divided(search, i, goal)


def _left(case: Case, goal: float) -> dict[int, npt.NDArray[np.intp]]:
    """By tensor, the places of numbers that may still become ``goal``."""
    found = {}
    for i, tensor in literals_in(case):
        numbers = reals_of(bits_of(tensor), tensor.dtype)
        blank = (numbers == 0.0) & ~np.signbit(numbers)
        done = blank if goal == 0.0 else blank | (numbers == goal)
        if not done.all():
            found[i] = np.flatnonzero(~done)
    return found


def _divided(search: Search, i: int, goal: float) -> None:
    """Delta debugging over the numbers of one tensor: all of them, halves, quarters, …, single
    ones."""
    places = _left(search.case, goal).get(i, np.empty(0, dtype=np.intp))
    part = places.size
    while part >= 1 and places.size <= part * _PARTS:
        start = 0
        while start < places.size:
            if search.accept(assigned(search.case, {i: places[start : start + part]}, goal)):
                places = np.delete(places, slice(start, start + part))
            else:
                start += part
        part = min(part, places.size) // 2


def assigned(
    case: Case, places: dict[int, npt.NDArray[np.intp]], numbers: float | dict[int, Doubles]
) -> Case:
    """The case with ``numbers`` at ``places`` of its literal tensors' storages."""
    tensors = tensors_of(case)
    for i, where in places.items():
        tensor = tensors[i]
        assert isinstance(tensor, Literal)
        wanted = numbers[i] if isinstance(numbers, dict) else np.full(where.size, numbers)
        tensors[i] = with_bits(tensor, put(bits_of(tensor), tensor.dtype, where, wanted))
    return with_tensors(case, tensors)


def shorten_mantissas(search: Search) -> None:
    """Whole numbers, powers of two, few bits: all numbers at once, then those of each tensor, then
    single ones."""
    search.report("shorter numbers")
    for change in _changes():
        _changed(search, change)
    for i in list(_left(search.case, 1.0)):
        for change in _changes():
            _changed(search, change, i)
    places = [(i, int(place)) for i, where in _left(search.case, 1.0).items() for place in where]
    for i, place in places[:_SINGLES]:
        _one_number(search, i, place)


def _changes() -> Iterator[Change]:
    """From the one that leaves least to read to the one that leaves most."""
    yield lambda v: np.sign(v)
    yield lambda v: np.copysign(np.maximum(np.rint(np.abs(v)), 1.0), v)
    yield np.abs
    for bits in _BITS:
        yield functools.partial(_rounded_to, bits)


def _rounded_to(bits: int, numbers: Doubles) -> Doubles:
    mantissa, exponent = np.frexp(numbers)
    return np.asarray(np.ldexp(np.rint(np.ldexp(mantissa, bits)), exponent - bits))


def _changed(search: Search, change: Change, only: int | None = None) -> bool:
    """Apply a change to every finite number that it makes simpler."""
    places: dict[int, Any] = {}
    numbers: dict[int, Doubles] = {}
    for i, where in _left(search.case, 1.0).items():
        if only is not None and i != only:
            continue
        tensor = tensors_of(search.case)[i]
        assert isinstance(tensor, Literal)
        now = reals_of(bits_of(tensor), tensor.dtype)[where]
        with np.errstate(all="ignore"):
            then = np.where(np.isfinite(now), change(now), now)
        better = np.array([cost(a) < cost(b) for a, b in zip(then, now, strict=True)], dtype=bool)
        if better.any():
            places[i], numbers[i] = where[better], then[better]
    return bool(places) and search.accept(assigned(search.case, places, numbers))


def cost(value: float) -> tuple[float, bool, float]:
    """How hard a number is to read: significant bits and distance from 1, then a sign. 0 is the
    easiest, then 1."""
    if value == 0.0 or not math.isfinite(value):
        return (-1.0 if value == 0.0 else 0.0), bool(np.signbit(value)), 0.0
    mantissa, exponent = math.frexp(abs(value))
    bits = 53
    whole = int(mantissa * 2.0**53)
    while whole and whole % 2 == 0:
        whole, bits = whole // 2, bits - 1
    return (
        bits + (0.0 if 0 < exponent < 11 else 1.0 + abs(exponent) / 64.0),
        value < 0.0,
        abs(exponent),
    )


def _one_number(search: Search, i: int, place: int) -> None:
    tensor = tensors_of(search.case)[i]
    assert isinstance(tensor, Literal)
    value = float(reals_of(bits_of(tensor), tensor.dtype)[place])
    if not math.isfinite(value):
        return
    for other in _alternatives(value, tensor.dtype):
        if search.accept(assigned(search.case, {i: np.array([place])}, other)):
            return


def _alternatives(value: float, dtype: str) -> list[float]:
    """Easier numbers near (or of the order of) ``value``, the easiest first."""
    size = abs(value)
    tried = [-1.0, 2.0, -2.0, 3.0, 10.0, 100.0, size]
    if size < 1e15:
        tried += [math.copysign(f(size), value) for f in (math.floor, math.ceil)]
    tried += [math.copysign(2.0 ** (math.frexp(size)[1] - step), value) for step in (0, 1)]
    tried += [float(_rounded_to(bits, np.array([v]))[0]) for bits in _BITS for v in (value, size)]
    if not dtypes.floats(dtype):
        tried += [value // 2]
    fit = [v for v in dict.fromkeys(tried) if math.isfinite(v) and cost(v) < cost(value)]
    return sorted(fit, key=cost)
