"""Operators that write into their first argument. What is returned and the whole storage behind it are compared.

The destination is often a view: a slice of a slice, a transposed block, every other column. No two of its elements share memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ..recipe import Arg, Index, TensorRecipe
from .declare import (
    EVERY,
    EXACT,
    FLOATS,
    NUMERIC,
    POSITIVE,
    REAL,
    SUMMED,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    accumulated,
    call,
    one,
    products,
)  # fmt: skip
from .indexing import key, longest_side, mask, replaced
from .observing import Args, Kwargs, Tensors
from .sampling import permuted_positions, scalar, within

INPLACE = frozenset({"inplace"})
ELEMENTWISE = frozenset({"inplace", "elementwise"})
TERM = Domain(wide=(-8, 7))
DIVISOR = Domain(2.0**-4, 16.0, wide=(-4, 3))
FACTOR = Domain(wide=(-10, 10))
TO_FOUR = Domain(-4.0, 4.0)
ROUND = ErrorModel("rounded")
EXPONENT = Domain(-80.0, 80.0, points=(0.0, 88.72, -87.33))
Shape = tuple[int, ...]


def target(d: Drawing, shape: Shape, domain: Domain = REAL) -> TensorRecipe:
    return d.tensor(shape, domain, overlap=False)


def alone(domain: Domain = REAL, *arguments: float) -> Sample:
    """Only the destination, and ``arguments`` as they are."""

    def sample(d: Drawing) -> Call:
        return call(target(d, d.shape(0, 4), domain), *arguments)

    return sample


def combined(left: Domain = REAL, right: Domain | None = None) -> Sample:
    """A destination and a tensor that broadcasts into it, or a number."""

    def sample(d: Drawing) -> Call:
        shape, other = d.shape(0, 4), right or left
        second: Arg = within(d, other) if d.choice(False, False, True) else d.tensor(d.broadcastable(shape), other)
        return call(target(d, shape, left), second)

    return sample


def with_product(divisor: Domain) -> Sample:
    def sample(d: Drawing) -> Call:
        shape = d.shape(0, 4)
        value = {"value": scalar(d)} if d.flag() else {}
        return call(
            target(d, shape, TERM), d.tensor(d.broadcastable(shape), TERM), d.tensor(d.broadcastable(shape), divisor), **value
        )

    return sample


def clamp(d: Drawing) -> Call:
    return call(target(d, d.shape(0, 4)), scalar(d, -4, 0), scalar(d, 0, 4))


def copied(d: Drawing) -> Call:
    """From a tensor of the same dtype, or one that is converted on the way."""
    shape = d.shape(0, 4)
    dtype = d.choice(None, None, "float32", "int64") if d.floating else None
    values = ("integers", -9, 9) if dtype == "int64" else None
    return call(target(d, shape), d.tensor(d.broadcastable(shape), dtype=dtype, values=values))


def filled(d: Drawing) -> Call:
    return call(target(d, d.shape(0, 4)), scalar(d) if d.choice(True, True, False) else d.tensor(()))


def masked(d: Drawing) -> Call:
    shape = d.shape(0, 4)
    return call(target(d, shape), mask(d, d.broadcastable(shape)), scalar(d) if d.flag() else d.tensor(()))


def along(d: Drawing) -> tuple[Shape, int]:
    shape = d.shape(1, 4, elements=1024)
    return shape, d.integer(0, len(shape) - 1)


def scattered(d: Drawing) -> Call:
    shape, dim = along(d)
    index = replaced(shape, dim, d.integer(1, shape[dim]))
    return call(target(d, shape), dim, permuted_positions(d, index, dim, shape[dim]), d.tensor(index) if d.flag() else scalar(d))


def scatter_summed(d: Drawing) -> Call:
    shape, dim = along(d)
    index = replaced(shape, dim, d.size(1, 33))
    return call(target(d, shape, SUMMED), dim, d.index(index, shape[dim]), d.tensor(index, SUMMED))


def index_added(d: Drawing) -> Call:
    shape, dim = along(d)
    count = d.size(1, 33)
    alpha = {"alpha": scalar(d)} if d.flag() else {}
    return call(
        target(d, shape, SUMMED), dim, d.index((count,), shape[dim]), d.tensor(replaced(shape, dim, count), SUMMED), **alpha
    )


def index_copied(d: Drawing) -> Call:
    shape, dim = along(d)
    count = d.integer(1, shape[dim])
    return call(target(d, shape), dim, d.index((count,), shape[dim], distinct=True), d.tensor(replaced(shape, dim, count)))


def index_filled(d: Drawing) -> Call:
    shape, dim = along(d)
    return call(target(d, shape), dim, d.index((d.size(1, 9),), shape[dim]), scalar(d))


def index_put(d: Drawing) -> Call:
    shape, _ = along(d)
    count = d.size(1, 33)
    positions = tuple(d.index((count,), size, negative=True) for size in shape[: d.integer(1, len(shape))])
    return call(target(d, shape, SUMMED), positions, d.tensor((count, *shape[len(positions) :]), SUMMED), accumulate=True)


def set_item(d: Drawing) -> Call:
    """``x[key] = value`` with slices, numbers, None and an ellipsis as the key, and a number or a tensor as the value."""
    shape = d.shape(1, 4, elements=1024)
    where = key(d, shape, positions=False)
    written = torch.empty(shape, device="meta")[
        tuple(slice(k.start, k.stop, k.step) if isinstance(k, Index) else k for k in where)
    ].shape
    return call(target(d, shape), where, scalar(d) if d.flag() else d.tensor(d.broadcastable(tuple(written))))


def assign(x: torch.Tensor, where: Any, value: Any) -> torch.Tensor:
    x[where] = value
    return x


def shifted(d: Drawing) -> Call:
    """add_ and sub_; alpha is a power of two, so that nothing is rounded (or overflows) before the sum."""
    shape = d.shape(0, 4)
    alpha = d.choice(None, None, 2, -1)
    domain = REAL if alpha is None else TERM
    second: Arg = scalar(d) if d.choice(False, False, True) else d.tensor(d.broadcastable(shape), domain)
    return call(target(d, shape, domain), second, **({} if alpha is None else {"alpha": alpha}))


def divided(d: Drawing) -> Call:
    shape = d.shape(0, 4)
    second: Arg = d.choice(2.0, 3.0, -0.5) if d.choice(False, False, True) else d.tensor(d.broadcastable(shape), DIVISOR)
    return call(target(d, shape), second)


def power(d: Drawing) -> Call:
    shape = d.shape(0, 4)
    return call(target(d, shape, POSITIVE), d.choice(2, 3, 0.5, -1, 1.5) if d.flag() else d.tensor(d.broadcastable(shape), TO_FOUR))


def mixed(d: Drawing) -> Call:
    shape = d.shape(0, 4)
    return call(target(d, shape, TERM), d.tensor(d.broadcastable(shape), TERM), d.choice(0.25, 0.75, d.number(-1, 2)))


def multiplied(d: Drawing) -> Call:
    """addmm_ into a view, with factors."""
    m, k, n = d.size(1, 33), d.size(1, 257), d.size(1, 33)
    factors = {"beta": scalar(d, -2, 2), "alpha": scalar(d, -2, 2)} if d.flag() else {}
    return call(target(d, (m, n), SUMMED), d.tensor((m, k), SUMMED), d.tensor((k, n), SUMMED), **factors)


def triangle(d: Drawing) -> Call:
    return call(target(d, d.shape(2, 4)), d.integer(-3, 3))


def scanned(d: Drawing) -> Call:
    shape, dim = along(d)
    return call(target(d, shape, SUMMED), dim)


def diagonal(d: Drawing) -> Call:
    """``wrap`` only where it has no effect: torch 2.13 writes beyond the view when it wraps around a strided tall matrix."""
    rows, columns = d.size(1, 33), d.size(1, 33)
    return call(target(d, (rows, columns)), scalar(d), **({"wrap": True} if rows <= columns and d.flag() else {}))


def row(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    return float(args[0].shape[args[1]])


def inner(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    return float(args[1].shape[-1])


def op(name: str, sample: Sample, error: ErrorModel = ROUND, dtypes: tuple[str, ...] = FLOATS, **more: Any) -> Operator:
    settings: dict[str, Any] = {"traits": INPLACE, "differentiable": False, "mutates": (0,)} | more
    return Operator(name=name, family="inplace", sample=sample, error=error, dtypes=dtypes, **settings)


def each(name: str, sample: Sample, error: ErrorModel = ROUND, dtypes: tuple[str, ...] = FLOATS) -> Operator:
    return op(name, sample, error, dtypes, traits=ELEMENTWISE)


ADDED = products(longest_side, growth="linear", integers_exact=True, wide_accumulation=False)
OPERATORS = [
    each("add_", shifted, dtypes=NUMERIC),
    each("sub_", shifted, dtypes=NUMERIC),
    each("mul_", combined(FACTOR), dtypes=NUMERIC),
    each("div_", divided),
    each("pow_", power),
    each("__iadd__", combined(), dtypes=NUMERIC),
    each("__imul__", combined(FACTOR), dtypes=NUMERIC),
    each("addcmul_", with_product(TERM), products(one), NUMERIC),
    each("addcdiv_", with_product(DIVISOR), products(one)),
    each("lerp_", mixed, accumulated("pointwise", one)),
    each("clamp_", clamp, EXACT, NUMERIC),
    each("relu_", alone(), EXACT, NUMERIC),
    each("neg_", alone(), EXACT, NUMERIC),
    each("abs_", alone(), EXACT, NUMERIC),
    each("floor_", alone(), EXACT, NUMERIC),
    each("exp_", alone(EXPONENT)),
    each("sqrt_", alone(POSITIVE)),
    each("rsqrt_", alone(POSITIVE)),
    each("reciprocal_", alone(DIVISOR)),
    each("sigmoid_", alone(EXPONENT)),
    each("tanh_", alone(TO_FOUR)),
    op("logical_not_", alone(), EXACT, EVERY, traits=ELEMENTWISE | {"constant"}),
    op("copy_", copied, EXACT, EVERY),
    op("fill_", filled, EXACT, EVERY),
    op("zero_", alone(), EXACT, EVERY, traits=INPLACE | {"constant"}),
    op("masked_fill_", masked, EXACT, EVERY),
    op("__setitem__", set_item, EXACT, EVERY, function=assign),
    op("fill_diagonal_", diagonal, EXACT, EVERY),
    op("tril_", triangle, EXACT, EVERY),
    op("triu_", triangle, EXACT, EVERY),
    op("scatter_", scattered, EXACT, EVERY),
    op("index_copy_", index_copied, EXACT, EVERY),
    op("index_fill_", index_filled, EXACT, EVERY),
    op("scatter_add_", scatter_summed, ADDED, NUMERIC),
    op("index_add_", index_added, ADDED, NUMERIC),
    op("index_put_", index_put, ADDED, NUMERIC),
    op("cumsum_", scanned, replace(products(row, integers_exact=True), growth="linear"), NUMERIC),
    op("addmm_", multiplied, products(inner, integers_exact=True), NUMERIC),
]
