"""Arguments of calls that write into their first one: a destination, and what is written there.

The destination is often a view: a slice of a slice, a transposed block, every other column. No two
of its elements share memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import replace

from ..core.recipe import Arg, TensorRecipe
from .declare import REAL, SUMMED, Call, Domain, Drawing, ErrorModel, Sample, call
from .sampling import fitting, scalar, within, written_scalar

TERM = Domain(wide=(-8, 7))
DIVISOR = Domain(2.0**-4, 16.0, wide=(-4, 3))
FACTOR = Domain(wide=(-10, 10))
TO_FOUR = Domain(-4.0, 4.0)
BASE = Domain(2.0**-3, 8.0)
EXPONENT, HALF_EXPONENT = Domain(-80.0, 80.0, points=(0.0, 88.72, -87.33)), Domain(-9.0, 11.0)
ROUND = ErrorModel("rounded", backward="pointwise")
Shape = tuple[int, ...]


def target(d: Drawing, shape: Shape, domain: Domain = REAL) -> TensorRecipe:
    """A tensor of any layout whose elements lie apart; one time in eight contiguous, behind up to
    three others of its first dim, where kernels for aligned memory begin in front of it."""
    if not shape or not d.choice(*[False] * 7, True):
        return d.tensor(shape, domain, overlap=False)
    first = d.integer(1, 3)
    whole = d.tensor((first + shape[0], *shape[1:]), domain, layout=False)
    return replace(whole, view=(("slice", 0, first, first + shape[0], 1),))


def destination(domain: Domain = REAL, half: Domain | None = None) -> Sample:
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


def paired(domain: Domain = REAL) -> Sample:
    """A destination and a tensor that broadcasts into it."""

    def sample(d: Drawing) -> Call:
        shape = d.shape(0, 4)
        return call(target(d, shape, domain), d.tensor(d.broadcastable(shape), domain))

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


def clamp_in_place(d: Drawing) -> Call:
    """Both bounds, infinite ones among them, or one of them."""
    bounds = {"min": scalar(d, -4, 0), "max": scalar(d, 0, 4)}
    if d.floating and d.integer(0, 7) == 7:
        bounds = {"min": d.choice(-math.inf, bounds["min"]), "max": math.inf}
    if d.choice(False, False, True):
        bounds.pop(d.choice("max", "min"))
    return call(target(d, d.shape(0, 4)), **bounds)


def copied(d: Drawing) -> Call:
    """From a tensor of the same dtype, or one that is converted on the way."""
    shape = d.shape(0, 4)
    dtype = d.choice(None, None, "float32", "int64") if d.floating else None
    values = ("integers", -9, 9) if dtype == "int64" else None
    return call(target(d, shape), d.tensor(d.broadcastable(shape), dtype=dtype, values=values))


def filled(d: Drawing) -> Call:
    return call(
        target(d, d.shape(0, 4)),
        written_scalar(d) if d.choice(True, True, False) else d.tensor(()),
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


def divided_in_place(d: Drawing) -> Call:
    shape = d.shape(0, 4)
    second: Arg = (
        d.choice(2.0, 3.0, -0.5)
        if d.choice(False, False, True)
        else d.tensor(d.broadcastable(shape), DIVISOR)
    )
    return call(target(d, shape, TERM), second)


def raised_in_place(d: Drawing) -> Call:
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


def triangle_in_place(d: Drawing) -> Call:
    return call(target(d, d.shape(2, 4)), d.integer(-3, 3))


def without_overlap(sample: Callable[..., Call]) -> Sample:
    """The same arguments, but no two elements of the destination share memory."""
    return functools.partial(sample, overlap=False)
