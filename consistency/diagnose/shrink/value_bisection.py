"""Thresholds of a failure: bisects the value of a number over the bit patterns of its dtype, and
tries sizes one larger and one smaller."""

from __future__ import annotations

import functools
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

_MAX_NUMBERS = 3  # numbers, and sizes
_SAMPLE_SHARES = (0.0133, 0.1171, 0.3719, 0.6113, 0.9137)  # long mantissas


@dataclass(frozen=True)
class TestedNumber:
    """One number of a case: its name, dtype and value, and ``put``, which makes the case with
    another value."""

    name: str
    dtype: str
    value: float
    put: Callable[[float], Case]


def thresholds(search: Search) -> Iterator[str]:
    """Yield sentences about thresholds. Raises OutOfTimeError."""
    for number in _candidate_numbers(search.case):
        search.report(f"threshold{' of ' + number.name if number.name else ''}")
        for end in _search_ends(number):
            text = _bisect(search, number, end)
            if text:
                yield text
    yield from _size_thresholds(search)


def _candidate_numbers(case: Case) -> list[TestedNumber]:
    """Nonzero tensor elements (without ±1 if there are many), and floating-point arguments."""
    candidates: list[TestedNumber] = []
    for i, tensor in literals_in(case):
        if tensor.dtype not in dtypes.FORMATS:
            continue
        numbers = reals_of(bits_of(tensor), tensor.dtype)
        indices = np.flatnonzero(np.isfinite(numbers) & (numbers != 0.0))[: _MAX_NUMBERS + 1]
        candidates += [
            _element(case, i, tensor, int(index), float(numbers[index]), numbers.size)
            for index in indices
        ]
    if len(candidates) > _MAX_NUMBERS:
        candidates = [number for number in candidates if abs(number.value) != 1.0]
    if len(candidates) > _MAX_NUMBERS:  # among so many, no single number decides
        candidates = []
    for path, value in values_of(case):
        if isinstance(value, float) and math.isfinite(value) and value != 0.0:
            name = f"argument {path[1]}" if path[0] == "args" else str(path[1])
            candidates.append(
                TestedNumber(name, "float64", value, lambda v, path=path: with_value(case, path, v))  # type: ignore[misc]
            )
    return candidates


def _element(
    case: Case, i: int, tensor: Literal, index: int, value: float, size: int
) -> TestedNumber:
    is_only_number = sum(t.data != b"" for _, t in literals_in(case)) == 1 and size == 1
    where = f"number {index} of " if size > 1 else ""
    name = "" if is_only_number else f"{where}{_tensor_name(case, i)}"
    return TestedNumber(
        name, tensor.dtype, value, lambda v: assigned(case, {i: np.array([index])}, v)
    )


def _tensor_name(case: Case, i: int) -> str:
    if i >= len(case.tensors):
        return "the cotangent"
    return f"tensor {i}"


def _search_ends(number: TestedNumber) -> Iterator[float]:
    """Values on either side where the failure may have ended: 0, and the largest power of two
    (±1 for small numbers)."""
    yield 0.0
    form = dtypes.FORMATS[number.dtype]
    if abs(number.value) < 1.0:
        yield math.copysign(1.0, number.value)
    else:
        yield math.copysign(2.0**form.max_exponent, number.value)


def _bisect(search: Search, number: TestedNumber, end: float) -> str:
    """``passes at 88.0, fails at 88.0000076``; empty if everything up to ``end`` fails, or if
    the passing side was not tested."""
    failing, passing = _ordinal(number.value, number.dtype), _ordinal(end, number.dtype)
    if search.predicate.fails(number.put(end)):
        return ""
    while abs(failing - passing) > 1:
        midpoint = (failing + passing) // 2
        if search.predicate.fails(number.put(_value(midpoint, number.dtype))):
            failing = midpoint
        else:
            passing = midpoint
    passing_value, failing_value = _value(passing, number.dtype), _value(failing, number.dtype)
    verdict = search.predicate.verdict_of(number.put(passing_value)).verdict
    format = dtypes.form_of(search.case.dtype) or dtypes.FORMATS[number.dtype]
    trivial = abs(failing_value) <= format.smallest_normal * 2.0**format.precision and abs(
        end
    ) < abs(number.value)
    if (
        trivial
        or verdict.fails
        or not verdict.tested
        or not _is_single_threshold(search, number, failing_value, end)
    ):
        return ""
    value_text = functools.partial(number_text, dtype=number.dtype)
    text = f"passes at {value_text(passing_value)}, fails at {value_text(failing_value)}"
    return f"{number.name}: {text}" if number.name else text


def _is_single_threshold(
    search: Search, number: TestedNumber, threshold: float, end: float
) -> bool:
    """Whether samples beyond ``threshold`` pass and samples before it fail; otherwise failures
    are scattered."""
    outward = 1.0 if abs(end) > abs(threshold) else -0.5
    beyond = [threshold * (1.0 + outward * share) for share in _SAMPLE_SHARES]
    before = [threshold + (number.value - threshold) * share for share in _SAMPLE_SHARES]
    return not any(map(search.predicate.fails, map(number.put, beyond))) and all(
        map(search.predicate.fails, map(number.put, before))
    )


def _ordinal(value: float, dtype: str) -> int:
    """The signed position of a number among all values of its dtype, ordered by magnitude."""
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
}  # that distinguish neighboring values


def number_text(value: float, dtype: str) -> str:
    """A number with enough digits to distinguish it from its neighbors: ``88.0``,
    ``88.0000076``."""
    short = f"{value:.{_DIGITS[dtype]}g}"
    short = repr(value) if dtype == "float64" else short
    return short if any(c in short for c in ".en") else f"{short}.0"


def _size_thresholds(search: Search) -> Iterator[str]:
    count = 0
    for n in sizes_of(search.case):
        for group in _smallest_groups(search, n):
            search.report(f"threshold of size {n}")
            if not _passes(search, group, list(range(n - 1))) and not _passes(
                search, group, list(range(1, n))
            ):
                continue
            size_text, suffix = _size_text(search.case, group)
            above = (
                f", {size_text(n + 1)} passes" if _passes(search, group, [*range(n), n - 1]) else ""
            )
            yield f"{size_text(n - 1)} passes, {size_text(n)} fails{above}{suffix}"
            count += 1
            break
        if count == _MAX_NUMBERS:
            return


def _smallest_groups(search: Search, n: int) -> list[Group]:
    return sorted(groups_of(search.case, n), key=len)


def _passes(search: Search, group: Group, kept: list[int]) -> bool:
    """Whether the case passes with these indices; an index may be repeated."""
    for candidate in reduce_shape(search.case, group, kept):
        if search.predicate.fails(candidate):
            return False
        verdict = search.predicate.verdict_of(candidate).verdict
        if verdict.tested and not verdict.fails:
            return True
    return False


_PRODUCTS = ("matmul", "mm", "bmm", "mv", "dot", "addmm", "baddbmm", "nn.functional.linear")


def _size_text(case: Case, group: Group) -> tuple[Callable[[int], str], str]:
    """How to name a size: ``K = 385`` for the inner dimension of a matrix product, the whole
    shape of a single tensor, else the dimensions."""
    shapes = [list(tensor.shape) for tensor in tensors_of(case) if isinstance(tensor, Literal)]
    (first, dim), other_tensors = group[0], {t for t, _ in group[1:]}
    if case.operator in _PRODUCTS and other_tensors and dim == len(shapes[first]) - 1:
        return (lambda size: f"K = {size}"), ""
    if len(shapes) == 1:
        return (
            lambda size: "×".join(
                str(size if (0, d) in group else n) for d, n in enumerate(shapes[0])
            )
        ), ""
    dimensions = ", ".join(f"dimension {d} of tensor {t}" for t, d in group)
    return (lambda size: f"size {size}"), f" ({dimensions})"
