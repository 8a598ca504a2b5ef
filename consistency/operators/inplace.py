"""Operators that write into their first argument. What is returned and the whole storage behind it
are compared.

Gradients are those of the function, taken through a copy of the destination.

The destination is often a view: a slice of a slice, a transposed block, every other column. No two
of its elements share memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.recipe import Arg, TensorRecipe
from .declare import (
    EVERY,
    EXACT,
    EXTREMUM,
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
)
from .observing import Args, Kwargs, Tensors
from .sampling import fitting, scalar, within
from .unary import OPERATORS as UNARY
from .unary import negated

INPLACE = frozenset({"inplace"})
ELEMENTWISE = frozenset({"inplace", "elementwise"})
TERM = Domain(wide=(-8, 7))
DIVISOR = Domain(2.0**-4, 16.0, wide=(-4, 3))
FACTOR = Domain(wide=(-10, 10))
TO_FOUR = Domain(-4.0, 4.0)
ROUND = ErrorModel("rounded", backward="pointwise")
BASE = Domain(2.0**-3, 8.0)
EXPONENT, HALF_EXPONENT = Domain(-80.0, 80.0, points=(0.0, 88.72, -87.33)), Domain(-9.0, 11.0)
ONE_LEFT = {
    operator.name: operator.error for operator in UNARY
}  # gradients made of the rounded result, such as 1 - tanh²
Shape = tuple[int, ...]


def target(d: Drawing, shape: Shape, domain: Domain = REAL) -> TensorRecipe:
    return d.tensor(shape, domain, overlap=False)


def alone(domain: Domain = REAL, half: Domain | None = None) -> Sample:
    """Only the destination; ``half`` in float16."""

    def sample(d: Drawing) -> Call:
        return call(target(d, d.shape(0, 4), fitting(d, domain, half)))

    return sample


def combined(left: Domain = REAL, right: Domain | None = None) -> Sample:
    """A destination and a tensor that broadcasts into it, or a number."""

    def sample(d: Drawing) -> Call:
        shape, other = d.shape(0, 4), right or left
        second: Arg = (
            within(d, other)
            if d.choice(False, False, True)
            else d.tensor(d.broadcastable(shape), other)
        )
        return call(target(d, shape, left), second)

    return sample


def with_product(divisor: Domain) -> Sample:
    def sample(d: Drawing) -> Call:
        shape = d.shape(0, 4)
        value = {"value": scalar(d)} if d.flag() else {}
        return call(
            target(d, shape, TERM),
            d.tensor(d.broadcastable(shape), TERM),
            d.tensor(d.broadcastable(shape), divisor),
            **value,
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
    return call(
        target(d, d.shape(0, 4)), scalar(d) if d.choice(True, True, False) else d.tensor(())
    )


def shifted(d: Drawing) -> Call:
    """add_ and sub_; alpha is a power of two, so that nothing is rounded (or overflows) before the
    sum."""
    shape = d.shape(0, 4)
    alpha = d.choice(None, None, 2, -1)
    domain = REAL if alpha is None else TERM
    second: Arg = (
        scalar(d) if d.choice(False, False, True) else d.tensor(d.broadcastable(shape), domain)
    )
    return call(target(d, shape, domain), second, **({} if alpha is None else {"alpha": alpha}))


def divided(d: Drawing) -> Call:
    shape = d.shape(0, 4)
    second: Arg = (
        d.choice(2.0, 3.0, -0.5)
        if d.choice(False, False, True)
        else d.tensor(d.broadcastable(shape), DIVISOR)
    )
    return call(target(d, shape, TERM), second)


def power(d: Drawing) -> Call:
    shape = d.shape(0, 4)
    return call(
        target(d, shape, BASE),
        d.choice(2, 3, 0.5, -1, 1.5) if d.flag() else d.tensor(d.broadcastable(shape), TO_FOUR),
    )


def mixed(d: Drawing) -> Call:
    shape = d.shape(0, 4)
    return call(
        target(d, shape, TERM),
        d.tensor(d.broadcastable(shape), TERM),
        d.choice(0.25, 0.75, d.number(-1, 2)),
    )


def multiplied(d: Drawing) -> Call:
    """addmm_ into a view, with factors."""
    m, k, n = d.size(1, 33), d.size(1, 257), d.size(1, 33)
    factors = {"beta": scalar(d, -2, 2), "alpha": scalar(d, -2, 2)} if d.flag() else {}
    return call(
        target(d, (m, n), SUMMED), d.tensor((m, k), SUMMED), d.tensor((k, n), SUMMED), **factors
    )


def scanned(d: Drawing) -> Call:
    shape = d.shape(1, 4, elements=1024)
    return call(target(d, shape, SUMMED), d.dim(shape))


def row(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    return float(args[0].shape[args[1]])


def inner(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    return float(args[1].shape[-1])


def op(
    name: str,
    sample: Sample,
    error: ErrorModel = ROUND,
    dtypes: tuple[str, ...] = FLOATS,
    **more: Any,
) -> Operator:
    settings: dict[str, Any] = {"traits": INPLACE, "mutates": (0,)} | more
    return Operator(
        name=name, family="inplace", sample=sample, error=error, dtypes=dtypes, **settings
    )


def each(
    name: str,
    sample: Sample,
    error: ErrorModel = ROUND,
    dtypes: tuple[str, ...] = FLOATS,
    **more: Any,
) -> Operator:
    return op(name, sample, error, dtypes, traits=ELEMENTWISE, **more)


OPERATORS = [
    each("add_", shifted, dtypes=NUMERIC),
    each("sub_", shifted, dtypes=NUMERIC),
    each("mul_", combined(FACTOR), dtypes=NUMERIC),
    each("div_", divided),
    each("pow_", power),
    each("__iadd__", combined(TERM), dtypes=NUMERIC),
    each("__imul__", combined(FACTOR), dtypes=NUMERIC),
    each("addcmul_", with_product(TERM), products(one), NUMERIC),
    each("addcdiv_", with_product(DIVISOR), products(one)),
    each("lerp_", mixed, accumulated("pointwise", one)),
    op("clamp_", clamp, EXACT, NUMERIC, traits=ELEMENTWISE | EXTREMUM),
    op("relu_", alone(), EXACT, NUMERIC, traits=ELEMENTWISE | EXTREMUM),
    each("neg_", alone(), EXACT, NUMERIC, reference=lambda x: x.copy_(negated(x))),
    each("abs_", alone(), EXACT, NUMERIC),
    each("floor_", alone(), EXACT, NUMERIC, differentiable=False),
    each("exp_", alone(EXPONENT, HALF_EXPONENT)),
    each("sqrt_", alone(POSITIVE)),
    each("rsqrt_", alone(POSITIVE)),
    each("reciprocal_", alone(DIVISOR)),
    each("sigmoid_", alone(EXPONENT, HALF_EXPONENT), ONE_LEFT["sigmoid"]),
    each("tanh_", alone(TO_FOUR), ONE_LEFT["tanh"]),
    op("logical_not_", alone(), EXACT, EVERY, traits=ELEMENTWISE | {"constant"},
    differentiable=False),
    op("copy_", copied, EXACT, EVERY),
    op("fill_", filled, EXACT, EVERY, differentiable=False),
    op("zero_", alone(), EXACT, EVERY, traits=INPLACE | {"constant"}, differentiable=False),
    op("cumsum_", scanned, replace(products(row, integers_exact=True), growth="linear"), NUMERIC),
    op("addmm_", multiplied, products(inner, integers_exact=True), NUMERIC),
]  # fmt: skip
