"""Where failing begins: of a decisive number by bisection over the bit patterns of its dtype, of a
size by one more or less."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ...core import bits, dtypes
from ...core.model import Case
from ...core.recipe import Literal
from .arguments import values_of, with_value
from .elements import assigned
from .failure_predicate import Search
from .shape_reduction import Group, groups_of, reduce_shape, sizes_of
from .tensor_edits import bits_of, literals_in, reals_of, tensors_of

_MOST = 3  # numbers, and sizes, that are looked at
_SHARES = (0.0133, 0.1171, 0.3719, 0.6113, 0.9137)  # with long mantissas


@dataclass(frozen=True)
class TestedNumber:
    """One number of a case: what it is called, its dtype, its value, and the case with another one
    in its place."""

    name: str
    dtype: str
    value: float
    put: Callable[[float], Case]


def thresholds(search: Search) -> Iterator[str]:
    """Sentences, as they are found. Raises OutOfTimeError."""
    for number in _decisive(search.case):
        search.report(f"threshold{' of ' + number.name if number.name else ''}")
        for wall in _walls(number):
            words = _between(search, number, wall)
            if words:
                yield words
    yield from _of_sizes(search)


def _decisive(case: Case) -> list[TestedNumber]:
    """The numbers that are not 0, hardest to read first, and floating arguments."""
    found: list[TestedNumber] = []
    for i, tensor in literals_in(case):
        if tensor.dtype not in dtypes.FORMATS:
            continue
        numbers = reals_of(bits_of(tensor), tensor.dtype)
        places = np.flatnonzero(np.isfinite(numbers) & (numbers != 0.0))[: _MOST + 1]
        found += [
            _element(case, i, tensor, int(place), float(numbers[place]), numbers.size)
            for place in places
        ]
    if len(found) > _MOST:
        found = [number for number in found if abs(number.value) != 1.0]
    if len(found) > _MOST:  # none of so many is the decisive one
        found = []
    for path, value in values_of(case):
        if isinstance(value, float) and math.isfinite(value) and value != 0.0:
            name = f"argument {path[1]}" if path[0] == "args" else str(path[1])
            found.append(
                TestedNumber(name, "float64", value, lambda v, path=path: with_value(case, path, v))  # type: ignore[misc]
            )
    return found


def _element(
    case: Case, i: int, tensor: Literal, place: int, value: float, size: int
) -> TestedNumber:
    alone = sum(t.data != b"" for _, t in literals_in(case)) == 1 and size == 1
    where = f"number {place} of " if size > 1 else ""
    name = "" if alone else f"{where}{_called(case, i)}"
    return TestedNumber(
        name, tensor.dtype, value, lambda v: assigned(case, {i: np.array([place])}, v)
    )


def _called(case: Case, i: int) -> str:
    """``argument 0``, ``weight``, or the cotangent."""
    if i >= len(case.tensors):
        return "the cotangent"
    return f"tensor {i}"


def _walls(number: TestedNumber) -> Iterator[float]:
    """Numbers on either side at which failing may have ended: 0, and the largest (or, of small
    numbers, 1)."""
    yield 0.0
    form = dtypes.FORMATS[number.dtype]
    if abs(number.value) < 1.0:
        yield math.copysign(1.0, number.value)
    else:
        yield math.copysign(2.0**form.max_exponent, number.value)


def _between(search: Search, number: TestedNumber, wall: float) -> str:
    """``passes at 88.0, fails at 88.0000076``; empty where everything up to ``wall`` fails, or what
    does not fail is no pass."""
    fails, stops = _code(number.value, number.dtype), _code(wall, number.dtype)
    if search.predicate.fails(number.put(wall)):
        return ""
    while abs(fails - stops) > 1:
        middle = (fails + stops) // 2
        if search.predicate.fails(number.put(_value(middle, number.dtype))):
            fails = middle
        else:
            stops = middle
    at, beyond = _value(stops, number.dtype), _value(fails, number.dtype)
    verdict = search.predicate.verdict_of(number.put(at)).verdict
    form = dtypes.form_of(search.case.dtype) or dtypes.FORMATS[number.dtype]
    trivial = abs(beyond) <= form.smallest_normal * 2.0**form.precision and abs(wall) < abs(
        number.value
    )
    if trivial or verdict.fails or not verdict.tested or not _goes_on(search, number, beyond, wall):
        return ""
    words = (
        f"passes at {number_text(at, number.dtype)}, fails at {number_text(beyond, number.dtype)}"
    )
    return f"{number.name}: {words}" if number.name else words


def _goes_on(search: Search, number: TestedNumber, edge: float, wall: float) -> bool:
    """Whether failing does end at ``edge``, rather than at this number and that: a few beyond it
    pass, a few before it fail."""
    outward = 1.0 if abs(wall) > abs(edge) else -0.5
    beyond = [edge * (1.0 + outward * share) for share in _SHARES]
    before = [edge + (number.value - edge) * share for share in _SHARES]
    return not any(map(search.predicate.fails, map(number.put, beyond))) and all(
        map(search.predicate.fails, map(number.put, before))
    )


def _code(value: float, dtype: str) -> int:
    """The place of a number among all of its dtype, in ascending order of magnitude, negative ones
    below 0."""
    if dtype == "bfloat16":
        code = int(np.array([abs(value)], dtype=np.float32).view(np.uint32)[0] >> 16)
    else:
        code = int(bits.signed_patterns(np.array([abs(value)], dtype=dtype))[0])
    return -code if value < 0.0 else code


def _value(code: int, dtype: str) -> float:
    if dtype == "bfloat16":
        size = float(np.array([abs(code) << 16], dtype=np.uint32).view(np.float32)[0])
    else:
        form = np.dtype(dtype)
        size = float(np.array([abs(code)], dtype=f"i{form.itemsize}").view(form)[0])
    return -size if code < 0 else size


_DIGITS = {
    "float64": 17,
    "float32": 9,
    "float16": 5,
    "bfloat16": 4,
}  # that tell every two numbers apart


def number_text(value: float, dtype: str) -> str:
    """A number with as many digits as tell it from its neighbors: ``88.0``, ``88.0000076``."""
    short = f"{value:.{_DIGITS[dtype]}g}"
    short = repr(value) if dtype == "float64" else short
    return short if any(c in short for c in ".en") else f"{short}.0"


# Sizes.


def _of_sizes(search: Search) -> Iterator[str]:
    count = 0
    for n in sizes_of(search.case):
        for group in _smallest_groups(search, n):
            search.report(f"threshold of size {n}")
            if not _passes(search, group, list(range(n - 1))) and not _passes(
                search, group, list(range(1, n))
            ):
                continue
            sized, where = _sized(search.case, group)
            above = f", {sized(n + 1)} passes" if _passes(search, group, [*range(n), n - 1]) else ""
            yield f"{sized(n - 1)} passes, {sized(n)} fails{above}{where}"
            count += 1
            break
        if count == _MOST:
            return


def _smallest_groups(search: Search, n: int) -> list[Group]:
    return sorted(groups_of(search.case, n), key=len)


def _passes(search: Search, group: Group, kept: list[int]) -> bool:
    """Whether the case passes with these indices; an index that stands twice is repeated."""
    for candidate in reduce_shape(search.case, group, kept):
        if search.predicate.fails(candidate):
            return False
        verdict = search.predicate.verdict_of(candidate).verdict
        if verdict.tested and not verdict.fails:
            return True
    return False


_PRODUCTS = ("matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "nn.functional.linear")


def _sized(case: Case, group: Group) -> tuple[Callable[[int], str], str]:
    """How a size is called: ``K = 385`` where a matrix product sums, by the shape of a single
    tensor, else by its dimensions."""
    shapes = [list(tensor.shape) for tensor in tensors_of(case) if isinstance(tensor, Literal)]
    (first, dim), others = group[0], {t for t, _ in group[1:]}
    if case.operator in _PRODUCTS and others and dim == len(shapes[first]) - 1:
        return (lambda size: f"K = {size}"), ""
    if len(shapes) == 1:
        return (
            lambda size: "×".join(
                str(size if (0, d) in group else n) for d, n in enumerate(shapes[0])
            )
        ), ""
    places = ", ".join(f"dimension {d} of tensor {t}" for t, d in group)
    return (lambda size: f"size {size}"), f" ({places})"
