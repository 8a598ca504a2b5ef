"""Histograms of one tensor: ``histc``, which counts, and ``histogram``, which also adds weights,
divides by the area, and returns the edges of its bins."""

from __future__ import annotations

from typing import Any

import torch

from . import documented
from .declare import EXACT, FLOAT, FLOATS, Call, Domain, Drawing, Operator, accumulated, call
from .hooks import Tensors, hook
from .magnitudes import finite

PLAIN = Domain(wide=(-10, 9))
UNBOUNDED = Domain(specials=("nan", "inf", "-inf"), wide=(-8, 7))


def counted(d: Drawing) -> Call:
    """Whole numbers in the middle of their bins, from one to (but in half formats) a thousand,
    around 0 or beside it, some of them outside, NaN and infinities among them; or 0 and 1, which
    are the ends where none are given, or two equal ones. No rounding changes a bin.

    Shrinks towards nine bins around 0.
    """
    return numbered(d, d.shape(0, 2))


def numbered(d: Drawing, shape: tuple[int, ...]) -> Call:
    kinds = ["nine", "ends", "beside", "one", "outside"]
    if d.dtype in FLOAT:
        kinds[1:1] = ["hundred", "thousand"]
    kind = d.choice(*kinds)
    if kind == "ends":
        bins = {"bins": d.choice(4, 9, 1)} if d.flag() else {}
        equal = d.choice(None, None, 0, 2.0, -1)
        bounds = {} if equal is None else {"min": equal, "max": equal}
        return call(d.tensor(shape, PLAIN, values=("integers", 0, 1)), **bins, **bounds)
    if kind == "thousand":
        values = d.tensor(shape, PLAIN, values=("integers", 0, 1030))
        return call(values, bins=1024, min=-0.5, max=1023.5)
    reach = 20 if kind in ("beside", "outside") else 6
    values = d.tensor(shape, UNBOUNDED, values=("integers", -reach, reach))
    match kind:
        case "hundred":
            return call(values, min=-50.5, max=49.5)
        case "beside":
            return call(values, bins=16, min=-2.5, max=13.5)
        case "one":
            return call(values, bins=1, min=d.choice(-4.5, 0.5), max=4.5)
    return call(values, bins=9, min=-4.5, max=4.5)


def weighted(d: Drawing) -> Call:
    """The same numbers in the same bins; or in bins between given edges, of which some are as wide
    as others and some are not. Half of the time with weights, of either sign where nothing is
    divided by their sum.

    Shrinks towards nine bins around 0 without weights.
    """
    shape = d.shape(0, 2)
    (x,), options = (drawn := numbered(d, shape)).args, dict(drawn.kwargs)
    low, high = options.pop("min", 0), options.pop("max", 0)
    bins = options.pop("bins", 100)
    args: list[Any] = [x, bins]
    if (low, high) != (0, 0):
        options["range"] = (float(low), float(high))
    if "range" not in options:  # numbers that are all equal lie in the middle, never at an edge
        args[1] = d.choice(9, 1, 101)
    if d.choice(False, False, False, True):
        args[1] = d.tensor((d.size(2, 33),), Domain(), values=("ascending", -8.0, 8.0))
        options = {}
    density = d.choice(False, False, True)
    if d.flag():
        weights = (1, 5) if density else (-5, 5)
        options["weight"] = d.tensor(shape, PLAIN, values=("integers", *weights))
    return call(*args, **options, **({"density": True} if density else {}))


@hook
def of_weights(
    outputs: Tensors,
    x: torch.Tensor,
    bins: Any,
    *,
    range: Any = None,
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> Tensors:
    """The sums of the weights' magnitudes; divided by a width, as precise as the difference of two
    edges. Edges are steps from the first one, as many as there are bins of a rounded width."""
    counts, edges = outputs
    largest = edges.abs().amax() if len(edges) else edges.new_zeros(())
    if density:
        counts = counts.abs() * (4.0 + finite(8.0 * largest / edges.diff()))
    elif weight is not None:
        between = {} if range is None else {"range": range}
        counts, _ = torch.histogram(x, bins, weight=weight.abs(), **between)
    return counts.abs(), (4.0 * largest).expand(edges.shape)


@hook
def numbers(outputs: Tensors, x: torch.Tensor, *_: Any, **__: Any) -> float:
    return float(max(x.numel(), 1))


OPERATORS = [
    Operator(
        name="histc",
        family="sorting",
        sample=counted,
        dtypes=FLOATS,
        error=EXACT,
        differentiable=False,
        out=True,
        reference=documented.histc,
    ),
    Operator(
        name="histogram",
        family="sorting",
        sample=weighted,
        dtypes=FLOAT,
        error=accumulated(of_weights, numbers, growth="linear"),
        differentiable=False,
    ),
]
