"""Scans: each result is made of all elements before it, so errors may grow with n instead of √n."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ..core.dtypes import INTEGER_RANGE
from ..core.recipe import DType
from .declare import (
    ADDED,
    EVERY,
    EXACT,
    EXTREMUM,
    FLOATS,
    NUMERIC,
    Call,
    Domain,
    Drawing,
    InPlaceVariant,
    Sample,
    accumulated,
    call,
    family,
    products,
)
from .hooks import Args, Kwargs, Tensors, hook
from .magnitudes import finite, of_cancelled
from .nonunique_results import argument, extremum_along, tied_sums
from .reductions import RESULT_DTYPES
from .sampling import reducible
from .write_destinations import scanned

SCAN = frozenset({"reduction"})
LINEAR = SCAN | {"linear"}
EXTREME = Domain(specials=("nan", "inf", "-inf", "0", "max", "-max"), wide=(-24, 24), tiny=True)
EXPONENTS = Domain(-128.0, 128.0, specials=("-inf",), wide=(-10, 6))


def scan(domain: Domain, *, dtypes: bool = False) -> Sample:
    """A tensor and the dim of the scan; with ``dtypes`` sometimes the dtype in which to add."""

    def sample(d: Drawing) -> Call:
        shape = reducible(d)
        if dtypes and not d.complex and d.choice(False, False, False, True):
            chosen = d.choice(*RESULT_DTYPES.get(d.dtype, ("float32", "int32", "uint8")))
            numbers = domain if d.floating else replace(domain, low=-9.0, high=9.0)
            return call(d.tensor(shape, numbers), d.dim(shape), dtype=DType(chosen))
        return call(d.tensor(shape, domain), d.dim(shape))

    return sample


def factors(d: Drawing) -> Call:
    """Near 1 where a row is long, so that products stay in range."""
    shape = reducible(d, 512)
    dim = d.dim(shape)
    count = shape[dim] if shape else 1
    if not d.floating:
        values: tuple[Any, ...] = ("integers", -1, 1)
        if d.dtype in ("uint8", "int8", "int16") and count <= 4 and d.flag():
            values = ("integers", *INTEGER_RANGE[d.dtype])
        return call(d.tensor(shape, values=values), dim)
    domain = Domain(wide=(-2, 1)) if count <= 12 else Domain(0.875, 1.125)
    # Without NaN, as in prod.
    return call(d.tensor(shape, replace(domain, propagates=())), dim)


def differences(d: Drawing) -> Call:
    """diff: repeated up to three times, or not at all, sometimes with numbers prepended, appended,
    or both. Shrinks towards one difference of a row."""
    shape = [*d.shape(1, 3, least=1)]
    dim = d.dim(shape)
    count = d.choice(1, 1, 1, 2, 2, 3, 3, 0)
    if shape[dim] <= count and d.integer(0, 7):  # nothing would be left
        shape[dim] = count + d.integer(1, 2)
    kwargs: dict[str, Any] = {"n": count, "dim": dim}
    if count and d.choice(False, False, True):
        for name in d.choice(("prepend",), ("append",), ("prepend", "append")):
            edge = [*shape]
            edge[dim] = d.size(1, 3)
            kwargs[name] = d.tensor(edge, ADDED)
    return call(d.tensor(shape, ADDED), **kwargs)


def areas(d: Drawing) -> Call:
    """The trapezoidal rule with evenly spaced points, seldom a single one, which has no area."""
    shape = [*reducible(d, 2048, low=1)]
    dim = d.dim(shape)
    if shape[dim] == 1 and d.integer(0, 7):
        shape[dim] = d.integer(2, 3)
    width = {} if d.choice(False, False, True) else {"dx": d.number(0.25, 4)}
    return call(d.tensor(shape, ADDED), **width, dim=dim)


@hook
def row(outputs: Tensors, x: Any, dim: int = 0, *_: Any, **__: Any) -> float:
    """n of a scan: the length of the dim."""
    return float(x.shape[dim]) if x.ndim else 1.0


@hook
def slots(outputs: Tensors, x: Any, n: int = 1, dim: int = -1, *_: Any, **__: Any) -> float:
    """n of a difference: the length of the dim."""
    return float(x.shape[dim]) if x.ndim else 1.0


def magnitude(x: torch.Tensor) -> torch.Tensor:
    """|x|, of booleans too."""
    return (x.to(torch.uint8) if x.dtype == torch.bool else x).detach().abs()


@hook
def of_differences(
    outputs: Tensors, x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None
) -> torch.Tensor:
    parts = [part for part in (prepend, x, append) if part is not None] if n else [x]
    size = torch.cat([magnitude(part) for part in parts], dim)
    for _ in range(n):
        length = max(size.shape[dim] - 1, 0)
        size = size.narrow(dim, 0, length) + size.narrow(dim, min(1, size.shape[dim]), length)
    return size


@hook
def of_logcumsumexp(outputs: Tensors, x: Any, dim: Any, *_: Any, **__: Any) -> torch.Tensor:
    x = x.detach()
    real = x.real if x.is_complex() else x
    largest = torch.cummax(real, dim).values
    lost = of_cancelled(torch.logcumsumexp(real, dim), outputs[0]) if x.is_complex() else 1.0
    size = largest.abs() + (outputs[0] - largest).abs()
    return torch.nan_to_num(size + lost, nan=0.0, posinf=0.0)


@hook
def of_logcumsumexp_slopes(outputs: Tensors, x: Any, dim: Any, *_: Any, **__: Any) -> torch.Tensor:
    """Σ exp(xᵢ − yⱼ)·(2 + 3·|yⱼ| + |xᵢ|) over j ≥ i, with cotangents of at most 1: the exponential
    of a difference has the absolute errors of its terms and of itself. yⱼ was rounded as a result,
    and again beside a logarithm."""
    x = x.detach()
    if not x.ndim or not x.numel():
        return finite(2.0 + 4.0 * x.abs())
    y, real = torch.logcumsumexp(x, dim), x
    moduli, lost = finite(y).abs(), torch.ones(())
    if x.is_complex():
        real = x.real
        lost = of_cancelled(torch.logcumsumexp(real, dim), y)
        y = y.real
    later = ((1.0 + lost + 3.0 * moduli).log() - y).flip(dim)
    size = torch.exp(real + torch.logcumsumexp(later, dim).flip(dim))
    of_each = torch.exp(real + torch.logcumsumexp(-y.flip(dim), dim).flip(dim)) * finite(x).abs()
    return finite(size) + finite(of_each)


@hook
def differences_of_one(outputs: Tensors, x: Any, n: int = 1, *_: Any, **__: Any) -> float:
    """S of gradients: an n-th difference adds up 2ⁿ cotangents of at most 1."""
    return 2.0**n


@hook
def of_areas(
    outputs: Tensors, y: Any, x: Any = None, *, dim: int = -1, dx: float = 1.0
) -> torch.Tensor:
    """(Σ y − (first + last)/2)·dx as torch computes it: both ends are added in full, then half of
    them is taken away. Where the points are given, their differences are rounded."""
    if x is not None:
        return of_running_areas((y, x), {"dim": dim}, outputs).select(dim, -1)
    y = y.detach().abs()
    ends = y.select(dim, 0) + y.select(dim, -1) if y.shape[dim] else 0.0
    return (y.sum(dim) + 0.5 * ends) * abs(dx)  # type: ignore[no-any-return]


def sum_of_areas(
    y: torch.Tensor, x: torch.Tensor | None = None, *, dim: int = -1, dx: float = 1.0
) -> torch.Tensor:
    """The documented sum over neighbors; with points, torch's own. Otherwise torch takes half of
    both ends from the sum of all, which is NaN where an end is infinite (docs/findings.md)."""
    if x is not None:
        return torch.trapezoid(y, x, dim=dim)
    count = max(y.shape[dim] - 1, 0)
    first, second = y.narrow(dim, 0, count), y.narrow(dim, y.shape[dim] - count, count)
    return ((0.5 * first + 0.5 * second) * dx).sum(dim)


@hook
def of_points(outputs: Tensors, y: Any, *_: Any, dim: int = -1, **__: Any) -> float:
    """n: the points along the dim."""
    return float(y.shape[dim]) if y.ndim else 1.0


def of_edges_too(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n: all elements, both ends once more, and the product with dx."""
    return float(of_points(args, kwargs, outputs)) + 3.0


def of_running_areas(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
    """Running sums of |y|·dx, or of |y| times both ends of each step, where the points are given:
    their differences are rounded."""
    y, dim = args[0].detach().abs(), argument("dim", len(args), -1, args, kwargs)
    points = kwargs.get("x", args[1] if len(args) > 1 else None)
    if points is None:
        return torch.cumulative_trapezoid(y, dx=abs(kwargs.get("dx", 1.0)), dim=dim)
    ends = _placed(points, y, dim)
    steps = y.shape[dim] - 1
    shaped = torch.broadcast_tensors(y, ends)  # type: ignore[no-untyped-call]
    pair = (t.narrow(dim, 0, steps) + t.narrow(dim, 1, steps) for t in shaped)
    return (next(pair) * next(pair)).cumsum(dim) / 2.0  # type: ignore[no-any-return]


def _placed(points: torch.Tensor, y: torch.Tensor, dim: int) -> torch.Tensor:
    """|points|, which may be one row for all, with the dimensions of the heights."""
    sizes = points.detach().abs()
    return sizes.reshape(_shape_along(y, dim)) if sizes.ndim == 1 else sizes


def _shape_along(y: torch.Tensor, dim: int) -> list[int]:
    """The shape of one row along the dim."""
    return [-1 if axis == dim % y.ndim else 1 for axis in range(y.ndim)]


def _beside(sizes: torch.Tensor, dim: int) -> torch.Tensor:
    """Half of what lies before and behind each, and it itself."""
    total, count = sizes.clone(), max(sizes.shape[dim] - 1, 0)
    if count:
        total.narrow(dim, 1, count).add_(sizes.narrow(dim, 0, count), alpha=0.5)
        total.narrow(dim, 0, count).add_(sizes.narrow(dim, 1, count), alpha=0.5)
    return total


def areas_slopes(running: bool) -> Any:
    """S of the gradients where points are given, with cotangents of at most 1: of the heights the
    distances of points, whose ends cancel, of the points those of heights. Of ``running`` sums each
    takes part in all that come after it."""

    @hook
    def size(
        gradients: Tensors, y: torch.Tensor, x: Any = None, *, dim: int = -1, dx: float = 1.0
    ) -> Any:
        if x is None:
            return "products"
        points, heights = _placed(x, y, dim), y.detach().abs()
        shape = (heights + 0.0 * points).shape
        after = torch.arange(shape[dim], 0, -1, dtype=y.dtype).reshape(_shape_along(y, dim))
        later = after if running else 1.0
        sizes = [
            (_beside(t, dim) * later).expand(shape).sum_to_size(own.shape)
            for t, own in ((points, y), (heights, points))
        ]
        return [s.reshape(g.shape) for s, g in zip(sizes, gradients, strict=False)]

    return size


op = family("cumulative", dtypes=FLOATS, traits=SCAN)


CHOSEN = replace(EXACT, terms=row, backward=row)
TIED = tied_sums(lambda args, kwargs: args[1])
SUM = products(row, growth="linear", integers_exact=True)
OPERATORS = [
    op(
        "cumsum",
        scan(ADDED, dtypes=True),
        SUM,
        EVERY,
        traits=LINEAR,
        complex=True,
        out=True,
        method=True,
        inplace=InPlaceVariant("cumsum_", scanned, dtypes=NUMERIC),
    ),
    op(
        "cumprod",
        factors,
        replace(accumulated("output", row), growth="linear", backward="products"),
        EVERY,
        complex=True,
        out=True,
        method=True,
    ),
    op(
        "logcumsumexp",
        scan(EXPONENTS),
        replace(
            accumulated(of_logcumsumexp, row),
            growth="linear",
            backward=of_logcumsumexp_slopes,
        ),
        complex=True,
        out=True,
    ),
    op(
        "cummax",
        scan(EXTREME),
        CHOSEN,
        EVERY,
        traits=SCAN | {"ties"} | EXTREMUM,
        observe=extremum_along,
        observe_gradients=TIED,
        method=True,
    ),
    op(
        "cummin",
        scan(EXTREME),
        CHOSEN,
        EVERY,
        traits=SCAN | {"ties"} | EXTREMUM,
        observe=extremum_along,
        observe_gradients=TIED,
    ),
    op(
        "diff",
        differences,
        accumulated(of_differences, slots, backward=differences_of_one),
        EVERY,
        traits=LINEAR,
        complex=True,
        out=True,
        method=True,
    ),
    op(
        "trapezoid",
        areas,
        accumulated(of_areas, of_edges_too, backward=areas_slopes(False)),
        NUMERIC,
        traits=LINEAR,
        complex=True,
        reference=sum_of_areas,
    ),
    op(
        "cumulative_trapezoid",
        areas,
        replace(
            products(of_points),
            magnitude=of_running_areas,
            growth="linear",
            backward=areas_slopes(True),
        ),
        NUMERIC,
        traits=LINEAR,
        complex=True,
    ),
]
