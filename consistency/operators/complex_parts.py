"""From complex numbers to their parts and back."""

from __future__ import annotations

from typing import Any

from .declare import (
    COMPLEX,
    EVERYWHERE,
    EXACT,
    FLOAT,
    REAL,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    call,
)
from .sampling import pointwise, shape_of, unary

PART = Domain(specials=EVERYWHERE, wide=(-24, 24))
RADIUS = Domain(0.0, 64.0, specials=("0", "-0", "1"), wide=(-20, 5))
SIGNED = Domain(propagates=())
ANGLE = Domain(points=(1.5, -3.0, 100.0), specials=("0", "-0"), wide=(-20, 16))


def pairs(d: Drawing) -> Call:
    """The last dimension holds both parts, next to each other in memory."""
    return call(d.tensor((*shape_of(d, 0, 3), 2), REAL, layout=False))


def in_one_piece(d: Drawing) -> Call:
    """A tensor that is not a lazy conjugate, whose imaginary parts are stored with the opposite
    sign."""
    return call(d.tensor(shape_of(d), REAL, layout=False))


def directions(d: Drawing) -> Call:
    """Radii and angles that broadcast. Radii are positive or 0, one time in four of either sign,
    which torch takes, too."""
    shape = shape_of(d)
    either: dict[str, Any] = {}
    if d.integer(0, 3) == 3:
        either["values"] = ("normal", 0.0, 64.0)
    radius = d.tensor(d.broadcastable(shape), SIGNED if either else RADIUS, **either)
    return call(radius, d.tensor(d.broadcastable(shape), ANGLE))


def op(name: str, sample: Sample, dtypes: tuple[str, ...] = COMPLEX) -> Operator:
    traits = frozenset({"elementwise", "linear"})
    return Operator(
        name=name, family="movement", sample=sample, error=EXACT, dtypes=dtypes, traits=traits
    )


# Its parts are products with a rounded sine and cosine: arithmetic, where the rest of this room
# only moves numbers.
POLAR = Operator(
    name="polar",
    family="binary",
    sample=directions,
    error=ErrorModel("rounded", "output", backward="pointwise"),
    dtypes=FLOAT,
    traits=frozenset({"elementwise"}),
)
OPERATORS = [
    op("imag", unary(REAL)),
    op("view_as_real", in_one_piece),
    op("view_as_complex", pairs, dtypes=FLOAT),
    op("complex", pointwise(PART, PART), dtypes=FLOAT),
    POLAR,
]
