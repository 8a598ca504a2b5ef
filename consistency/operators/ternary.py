"""Elementwise operators of three operands. Their sums of products are rounded once (fused) or
twice: S is what was added."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from ..core.dtypes import UNSIGNED
from . import write_destinations
from .declare import (
    EVERYWHERE,
    EXACT,
    EXTREMUM,
    FLOATS,
    NUMERIC,
    REAL,
    Call,
    Domain,
    Drawing,
    InPlaceVariant,
    Sample,
    accumulated,
    call,
    family,
    one,
    products,
)
from .hooks import Tensors, hook
from .nonunique_results import of_shares, zeros_aside
from .sampling import of_other_dtype, scalar, shape_of, small
from .write_destinations import clamp_in_place, mixed, with_product

ELEMENTWISE = frozenset({"elementwise"})
TERM = Domain(specials=("0", "-0", "1", "nan", "inf", "-inf"), wide=(-8, 7))
FAR = Domain(specials=EVERYWHERE, wide=(-24, 24), tiny=True)
DIVISOR = Domain(2.0**-4, 16.0, wide=(-4, 3))
NEGATIVE = Domain(-16.0, -(2.0**-4))
SIGNED = Domain(specials=("0", "-0", "1", "-1", "nan", "inf", "-inf"), wide=(-8, 7))


def added_product(left: Domain, *right: Domain) -> Sample:
    """``x + value·a·b`` or ``x + value·a/b``, with every operand broadcasting; one time in four of
    numbers far from 1. ``value`` may be no power of two, or so large or small that its product
    with the first factor alone leaves the format. Shrinks towards moderate numbers."""

    def sample(d: Drawing) -> Call:
        shape = shape_of(d)
        value = d.choice(None, None, scalar(d))
        terms = (TERM, left)
        if d.floating and not d.complex and d.choice(False, False, False, True):
            terms = (FAR, FAR)
            value = d.choice(value, 0.1, 3000.0, -0.0)
        domains = (*terms, d.choice(*right))
        tensors = (d.tensor(d.broadcastable(shape), domain) for domain in domains)
        return call(*tensors, **({} if value is None else {"value": value}))

    return sample


def lerp(d: Drawing) -> Call:
    """A weight between the ends or beyond, a number or a tensor of them; one time in four of ends
    that are far from 1. Shrinks towards near ones."""
    shape = shape_of(d)
    far = d.floating and not d.complex and d.choice(False, False, False, True)
    domain = FAR if far else TERM
    ends = d.tensor(d.broadcastable(shape), domain), d.tensor(d.broadcastable(shape), domain)
    points = (0.5, 0.0, 1.0)  # the formula changes at 0.5
    if d.flag():
        return call(*ends, d.choice(d.number(-1, 2), d.number(-1, 2), 1.0, 0.1, -20.0))
    return call(*ends, d.tensor(d.broadcastable(shape), Domain(-1.0, 2.0, points=points)))


@hook
def between(outputs: Tensors, *operands: Any) -> torch.Tensor:
    start, end, weight = (
        arg.detach() if isinstance(arg, torch.Tensor) else torch.tensor(float(arg))
        for arg in operands
    )
    return torch.nan_to_num(
        start.abs()
        + end.abs()
        + torch.maximum(weight.abs(), (1 - weight).abs()) * (end - start).abs(),
        posinf=0.0,
    )


def clamp(d: Drawing) -> Call:
    """Numbers or tensors as bounds, either of which may be missing; also a lower bound above the
    upper one, infinite ones, one of another dtype, and numbers that no format holds. Shrinks
    towards two numbers."""
    shape = shape_of(d)
    x = d.tensor(shape, REAL)
    lowest = 0 if d.dtype in UNSIGNED else -4  # of upper bounds: no result lies below 0
    kinds = ["numbers", "one", "one", "tensors", "crossed"]
    kinds += ["odd", "open"] if d.floating else ["fraction"]
    kinds += ["dtypes"] * (d.dtype not in UNSIGNED)
    match d.choice(*kinds):
        case "fraction":  # makes floats of integers
            return call(x, **{d.choice("min", "max"): d.integer(-4, 3) + 0.25})
        case "numbers":
            return call(x, scalar(d, -4, 0), scalar(d, 0, 4))
        case "one":
            return call(
                x,
                **{
                    d.choice("min", "max"): scalar(d, lowest)
                    if d.flag()
                    else d.tensor(d.broadcastable(shape), REAL)
                },
            )
        case "tensors":
            return call(
                x, d.tensor(d.broadcastable(shape), REAL), d.tensor(d.broadcastable(shape), REAL)
            )
        case "dtypes":  # the widest of which the result has
            x = d.tensor(shape, REAL if d.floating else small(REAL))
            bound = of_other_dtype(d, d.broadcastable(shape), REAL)
            return call(x, **{d.choice("min", "max"): bound})
        case "odd":
            return call(x, **{d.choice("min", "max"): d.choice(0.1, -0.0, math.inf, -math.inf)})
        case "open":
            low, high = scalar(d, -4, 0), scalar(d, 0, 4)
            infinite = (-math.inf, math.inf)
            return call(x, *d.choice(infinite, (low, math.inf), (-math.inf, high), infinite[::-1]))
    return call(x, min=scalar(d, 1, 4), max=scalar(d, lowest, 0))


op = family("ternary", dtypes=FLOATS, traits=ELEMENTWISE)


OPERATORS = [
    op(
        "addcmul",
        added_product(TERM, TERM, TERM, FAR),
        products(one),
        NUMERIC,
        complex=True,
        out=True,
        method=True,
        inplace=InPlaceVariant("addcmul_", with_product(write_destinations.TERM)),
    ),
    op(
        "addcdiv",
        added_product(TERM, DIVISOR, DIVISOR, NEGATIVE, SIGNED),
        products(one),
        complex=True,
        out=True,
        method=True,
        inplace=InPlaceVariant("addcdiv_", with_product(DIVISOR)),
    ),
    op(
        "lerp",
        lerp,
        accumulated(between, one, backward="pointwise"),
        observe=zeros_aside,
        complex=True,
        method=True,
        inplace=InPlaceVariant("lerp_", mixed, error=accumulated("pointwise", one)),
    ),
    op(
        "clamp",
        clamp,
        replace(EXACT, backward=of_shares),
        NUMERIC,
        traits=ELEMENTWISE | {"ties"} | EXTREMUM,
        observe=zeros_aside,
        method=True,
        inplace=InPlaceVariant("clamp_", clamp_in_place, error=EXACT),
    ),
]
