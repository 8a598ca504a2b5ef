"""Tensors created from numbers. The dtype is always given: the default would be float32 for every
case's dtype."""

from __future__ import annotations

import math
from typing import Any

import torch

from ..core.dtypes import UNSIGNED
from ..core.recipe import Arg, DType
from . import documented
from .declare import (
    EVERY,
    EXACT,
    NUMERIC,
    STRUCTURE,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    accumulated,
    call,
    family,
    one,
)
from .hooks import Tensors, hook
from .sampling import scalar, written_scalar

CONSTANT = frozenset({"constant"})
LARGE = {"int32": 1 << 25, "int64": 1 << 54}  # neighbors here are one number as floats
FAR = {"int32": 1 << 30, "int64": 1 << 40}  # in float32, but not in float64


def any_shape(d: Drawing) -> list[int]:
    """Now and then with sizes of zero."""
    return list(d.shape(0, 4, least=0 if d.integer(0, 7) == 7 else 1, most=16))


def made(*, value: bool = False) -> Sample:
    """From a shape alone, or a shape and a value."""

    def sample(d: Drawing) -> Call:
        return call(any_shape(d), *[written_scalar(d)] * value, dtype=DType(d.dtype))

    return sample


def like(*, value: bool = False) -> Sample:
    """In the shape, dtype and memory format of a tensor."""

    def sample(d: Drawing) -> Call:
        tensor = d.tensor(d.shape(0, 4))
        return call(tensor, *[written_scalar(d)] * value)

    return sample


def new(*, value: bool = False) -> Sample:
    """Of another shape, in the dtype of a tensor."""

    def sample(d: Drawing) -> Call:
        return call(d.tensor(d.shape(0, 2)), any_shape(d), *[written_scalar(d)] * value)

    return sample


def arange(d: Drawing) -> Call:
    """Up to 1000 steps; steps of floats are multiples of 1/64. The end is a step away from the
    last number, or half a step; large integers begin where floats do not tell them apart.
    Shrinks towards nothing from 0 on."""
    start, step = scalar(d), d.number(1 / 64, 2) if d.floating else d.integer(1, 4)
    sign, count = d.choice(1, -1), d.integer(0, 1000) if d.dtype != "float16" else d.integer(0, 100)
    if d.dtype in LARGE and d.choice(False, False, True):
        start = d.choice(-1, 1) * LARGE[d.dtype] + start
    if d.choice(False, False, True):  # in steps of 1
        return call(start, start + count, dtype=DType(d.dtype))
    end = start + sign * step * count
    if count and (d.floating or abs(start) < 5) and d.choice(False, False, True):
        end = end - sign * step / 2
    return call(start, end, sign * step, dtype=DType(d.dtype))


def ends(d: Drawing, low: float, high: float) -> tuple[Arg, Arg]:
    """Two numbers, each now and then as a 0-d tensor."""
    tensors = d.choice((False, False), (False, False), (True, False), (False, True), (True, True))
    first, last = (
        d.tensor((), Domain(low, high), layout=False) if tensor else scalar(d, low, high)
        for tensor in tensors
    )
    return first, last


def count_of(d: Drawing) -> int:
    """How many points, now and then two, one or none. Shrinks towards 1."""
    return d.choice(d.size(1, 257), d.size(1, 257), 2, 1, 0)  # type: ignore[no-any-return]


def linspace(d: Drawing) -> Call:
    """Up to 257 points between near or far ends, in either direction. Those of integers lie at
    quarters, of which no rounding makes another integer; their ends may be fractions, which are cut
    first. Large ones lie whole steps apart. Shrinks towards one point between 0 and 0."""
    if not d.floating:
        low, high = (0, 120) if d.dtype in UNSIGNED else (-60, 60)
        if d.dtype in FAR and d.choice(False, False, False, True):
            start = d.choice(-1, 1) * FAR[d.dtype] + d.integer(low, high)
            steps = d.integer(1, 64)
            end = start + d.choice(-1, 1) * steps * d.integer(1, 5)
            return call(start, end, steps + 1, dtype=DType(d.dtype))
        steps, quarters = 4 * d.integer(0, 12), d.integer(1, 5)
        start = d.integer(low, high - steps * quarters // 4)
        both = (start, start + steps * quarters // 4)
        first, last = both if d.flag() or d.dtype in UNSIGNED else both[::-1]
        ends_given: list[float] = [first, last]
        if d.choice(False, False, True):
            ends_given = [math.copysign(abs(end) + d.integer(1, 15) / 16, end) for end in both]
        return call(*ends_given, steps + 1, dtype=DType(d.dtype))
    reach = d.choice(8, 8, 8, 60000)
    if d.choice(False, False, True):  # multiples of no power of two
        first, last = (reach * d.integer(-10, 10) / 10 for _ in range(2))
        return call(first, last, count_of(d), dtype=DType(d.dtype))
    return call(*ends(d, -reach, reach), count_of(d), dtype=DType(d.dtype))


def logspace(d: Drawing) -> Call:
    """Powers of a base above or below 1, or of 1; of integers whole powers of 2. Shrinks towards
    one power of 10."""
    if not d.floating:
        first = d.integer(0, 5)
        last = d.integer(first, 6)
        both = (first, last) if d.flag() else (last, first)
        return call(*both, last - first + 1, base=2.0, dtype=DType(d.dtype))
    base = d.choice(10.0, 2.0, 0.5, 1.0, 3.5)
    return call(*ends(d, -3, 3), count_of(d), base=base, dtype=DType(d.dtype))


def eye(d: Drawing) -> Call:
    columns = (d.size(1, 33),) if d.flag() else ()
    return call(d.size(1, 33), *columns, dtype=DType(d.dtype))


def triangle(d: Drawing) -> Call:
    return call(d.integer(0, 17), d.integer(0, 17), d.integer(-5, 5), dtype=DType(d.dtype))


def single(d: Drawing) -> Call:
    return call(written_scalar(d), dtype=DType(d.dtype))


def strided(d: Drawing) -> Call:
    sizes = [d.integer(0, 8) for _ in range(d.integer(0, 3))]
    return call(sizes, [d.integer(0, 9) for _ in sizes], dtype=DType(d.dtype))


@hook
def of_ends(outputs: Tensors, start: Any = 0, end: Any = 0, *_: Any, **__: Any) -> torch.Tensor:
    """start + i·step: both ends are rounded. A single one is the end."""
    return torch.full_like(outputs[0], abs(float(start)) + abs(float(end)))


@hook
def of_powers(outputs: Tensors, start: Any, end: Any, *_: Any, **__: Any) -> torch.Tensor:
    """base^x with x rounded."""
    return outputs[0].abs() * (1.0 + 2.4 * (abs(start) + abs(end)))  # type: ignore[no-any-return]


op = family("creation", error=EXACT, dtypes=EVERY, traits=CONSTANT, differentiable=False)


def of_tensor(name: str, sample: Sample, error: ErrorModel = EXACT, **more: Any) -> Operator:
    """A method of Tensor."""
    return op(name, sample, error, function=getattr(torch.Tensor, name), **more)


STEPS = accumulated(of_ends, one)
OPERATORS = [
    op("zeros", made(), complex=True),
    op("ones", made(), complex=True),
    op("full", made(value=True), complex=True),
    op("empty", made(), STRUCTURE, complex=True),
    op("empty_strided", strided, STRUCTURE, complex=True),
    op("zeros_like", like(), complex=True),
    op("ones_like", like(), complex=True),
    op("full_like", like(value=True), complex=True),
    op("empty_like", like(), STRUCTURE, complex=True),
    of_tensor("new_zeros", new(), complex=True),
    of_tensor("new_ones", new(), complex=True),
    of_tensor("new_full", new(value=True), complex=True),
    of_tensor("new_empty", new(), STRUCTURE, complex=True),
    op("scalar_tensor", single, complex=True),
    op("eye", eye, complex=True),
    op("tril_indices", triangle, dtypes=("int32", "int64")),
    op("triu_indices", triangle, dtypes=("int32", "int64")),
    op("arange", arange, STEPS, NUMERIC, reference=documented.arange),
    op("linspace", linspace, STEPS, NUMERIC),
    op("logspace", logspace, accumulated(of_powers, one), NUMERIC),
]
