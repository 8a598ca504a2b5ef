"""One tensor of a case with other numbers: of one sign, equal, far apart, all the same, a row of
NaN, around a number that the call names; two of which one divides the other."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from ...core import dtypes
from ...core.model import Case
from ...core.recipe import TensorRecipe
from ..variations import with_tensor

# Numbers that others may stand for: they have no structure, and reach around 0.
PLAIN = frozenset({"uniform", "normal", "integers", "sparse", "cancelling", "wide"})
NEGATIVE, POSITIVE = ("uniform", -2.0, -1.0), ("uniform", 1.0, 2.0)
FAR_APART = ("normal", 0.0, 128.0)
WITH_ZEROS = ("tokens", 0.5, 2.0, "0", "-0", "1")  # where formulas of gradients divide
# Exponents of numbers of either sign whose squares vanish, and whose squares overflow.
VANISHING, OVERFLOWING = (-0.98, -0.6), (0.6, 0.95)  # as shares of the largest exponent
LONGEST_ROW = 512
# Of tensors that hold the same value everywhere.
CONSTANTS = ("1", "0", "-0", "nan", "inf", "-inf")
MOST_TENSORS = 3
MOST_NAMED = 3  # numbers of a call that elements lie around
# Quotients of 1 and beside it. The rounded reciprocal of 61 is too small, so that a product with it
# is below 1 in float32 and in float16.
DIVIDEND, DIVISOR = ("integers", 60, 62), ("integers", 61, 61)
WIDER = {"float16": "float32", "bfloat16": "float32"}
# Whole numbers beside powers of two, up to those that no shorter format tells apart.
WIDTHS = {"int64": 40, "int32": 31, "int16": 16, "int8": 8}


def of(case: Case) -> Iterator[Case]:
    """Each tensor in turn with other numbers, the others' as they are; the second one like the
    first. An index keeps its own."""
    yield from _equal(case)
    yield from _divisible(case)
    yield from _of_wider_numbers(case)
    named = named_numbers(case)
    for number, tensor in enumerate(case.tensors[:MOST_TENSORS]):
        if not isinstance(tensor, TensorRecipe) or tensor.values[0] not in PLAIN:
            continue
        if tensor.dtype == case.dtype and tensor.dtype in WIDTHS:
            powers = ("powers", WIDTHS[tensor.dtype])
            yield with_tensor(case, number, replace(tensor, special=(), values=powers))
            yield from (with_tensor(case, number, other) for other in extremes(tensor))
        if dtypes.form_of(tensor.dtype) is None:
            continue
        for exponents in (VANISHING, OVERFLOWING):
            extreme = replace(tensor, special=(), values=magnitude(tensor.dtype, exponents))
            yield with_tensor(case, number, extreme)
        if tensor.dtype in dtypes.PARTS:
            continue
        plain = replace(tensor, special=())
        for values in _classes(tensor):
            yield with_tensor(case, number, replace(plain, values=values))
        if named:
            yield with_tensor(case, number, replace(plain, values=around(named)))
        yield from (with_tensor(case, number, other) for other in _with_nan(plain))
        yield from (with_tensor(case, number, other) for other in constants(plain))


def constants(tensor: TensorRecipe) -> Iterator[TensorRecipe]:
    """The tensor with one value everywhere, and in its first row: what counts ties, skips zeros or
    begins with an infinity is wrong there first."""
    row = tensor.base[-1] if len(tensor.base) > 1 else 0
    for name in CONSTANTS:
        yield replace(tensor, special=(), values=("constant", name))
        if row:
            yield replace(tensor, special=(), values=("leading", -1.0, 1.0, row, name))


def extremes(tensor: TensorRecipe) -> Iterator[TensorRecipe]:
    """The tensor of whole numbers with the least one everywhere, and with the largest one: what an
    extremum begins with."""
    limits = torch.iinfo(getattr(torch, tensor.dtype))
    for limit in (limits.min, limits.max):
        yield replace(tensor, special=(), values=("integers", limit, limit))


def magnitude(dtype: str, shares: tuple[float, float]) -> tuple[Any, ...]:
    """The value class of numbers whose exponents lie between shares of the format's largest."""
    form = dtypes.form_of(dtype)
    assert form is not None
    low, high = (int(share * form.max_exponent) for share in shares)
    return ("wide", low, high, 1)


def named_numbers(case: Case) -> tuple[float, ...]:
    """The numbers of the call that elements may be compared with: bounds, thresholds, margins;
    fractions where there are such, and 0, the default of many."""
    values = (*case.args, *case.kwargs.values())
    plain = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
    fractions = [v for v in plain if isinstance(v, float)] or plain
    found = sorted({float(v) for v in fractions if abs(v) < LONGEST_ROW})[:MOST_NAMED]
    return tuple(sorted({0.0, *found})) if found else ()


def around(points: tuple[float, ...]) -> tuple[Any, ...]:
    """The value class of numbers beside these, at distances from one ulp on."""
    margin = max(1.0, points[-1] - points[0])
    return ("near", points[0] - margin, points[-1] + margin, *points)


def _divisible(case: Case) -> Iterator[Case]:
    """The first two tensors of whole numbers of which one often divides the other."""
    first, second = (*case.tensors[:2], None, None)[:2]
    if not isinstance(first, TensorRecipe) or not isinstance(second, TensorRecipe):
        return
    plain = (t.dtype == case.dtype and t.values[0] in PLAIN for t in (first, second))
    form = dtypes.form_of(case.dtype)
    if form is None or form.precision < 11 or not all(plain):
        return
    divided = with_tensor(case, 0, replace(first, values=DIVIDEND, special=()))
    yield with_tensor(divided, 1, replace(second, values=DIVISOR, special=()))


def _of_wider_numbers(case: Case) -> Iterator[Case]:
    """Each tensor behind the first as one number of a wider format, which promotes nothing."""
    wider = WIDER.get(case.dtype)
    for number, tensor in enumerate(case.tensors[1:MOST_TENSORS], 1):
        if not wider or not isinstance(tensor, TensorRecipe) or tensor.values[0] not in PLAIN:
            continue
        if tensor.dtype == case.dtype:
            single = replace(tensor, dtype=wider, base=(), view=(), special=(), leaf=False)
            yield with_tensor(case, number, single)


def _equal(case: Case) -> Iterator[Case]:
    """The first two tensors with the same numbers, as they are and as single elements."""
    first, second = (*case.tensors[:2], None, None)[:2]
    if not isinstance(first, TensorRecipe) or not isinstance(second, TensorRecipe):
        return
    if first.dtype != second.dtype or first.view or first.values[0] not in PLAIN:
        return
    yield with_tensor(case, 1, first)
    single = replace(first, base=(), special=())
    yield with_tensor(with_tensor(case, 0, single), 1, single)


def _classes(tensor: TensorRecipe) -> Iterator[tuple[Any, ...]]:
    low = tensor.values[1] if tensor.values[0] == "uniform" else -math.inf
    yield from (POSITIVE, WITH_ZEROS)
    if low < 0.0:
        yield from (NEGATIVE, FAR_APART)


def _with_nan(tensor: TensorRecipe) -> Iterator[TensorRecipe]:
    """NaN in the whole first row; at the beginning, in the middle, at the end."""
    count = math.prod(tensor.base)
    row = tensor.base[-1] if tensor.base else 1
    if not count:
        return
    if len(tensor.base) > 1 and row <= LONGEST_ROW:
        yield replace(tensor, special=tuple((n, "nan") for n in range(row)))
    for position in sorted({0, count // 2, count - 1}):
        yield replace(tensor, special=((position, "nan"),))
