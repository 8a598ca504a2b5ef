"""Orders and related results. Ties may be broken either way: values and the input at the indices
are compared."""

from __future__ import annotations

from typing import Any

import torch

from ..core.recipe import TensorRecipe
from . import documented
from .declare import (
    EVERY,
    EXACT,
    FLOAT,
    NUMERIC,
    Call,
    Domain,
    Drawing,
    Operator,
    Sample,
    accumulated,
    call,
    one,
)
from .hooks import Args, Kwargs, Tensors, hook
from .nonunique_results import (
    argument,
    extremum_along,
    gather_or_nan,
    order_along,
    selection_along,
    sorted_along,
    tied_sums,
    value_selected,
    zeros_aside,
)
from .sampling import along, reducible

TIES = frozenset({"ties"})
SORTED = Domain(
    specials=("nan", "-nan", "inf", "-inf", "0", "-0", "max", "-max"), wide=(-24, 24), tiny=True
)
PLAIN = Domain(wide=(-10, 9))
MODERATE = Domain(wide=(-8, 7))
INFINITE = Domain(specials=("inf", "-inf"), wide=(-8, 7))
Shape = tuple[int, ...]


def unordered(d: Drawing, shape: Shape, *, nan: bool = True, overlap: bool = True) -> TensorRecipe:
    """Numbers that are all different, any numbers, or few different ones with many ties."""
    kind, domain = d.choice("distinct", "any", "few"), SORTED if nan else PLAIN
    if kind == "few" or d.dtype == "bool":
        return d.tensor(
            shape,
            domain,
            values=("integers", 0, 1) if d.dtype == "bool" else ("integers", -3, 3),
            overlap=overlap,
        )
    if kind == "any":
        return d.tensor(shape, domain, overlap=overlap)
    return d.tensor(shape, PLAIN, values=("distinct",), overlap=False)


def to_sort(d: Drawing) -> tuple[Shape, TensorRecipe]:
    """A shape and its numbers; one time in three a row that is too long for the kernels of short
    ones, with NaN of either sign, or with subnormal numbers between zeros. Shrinks towards few
    numbers without NaN."""
    if not d.floating or not d.choice(False, False, True):
        shape = rows(d)
        return shape, unordered(d, shape)
    shape = (*d.shape(0, 1, most=3), d.choice(129, 200, 257, 513, 1025))
    odd = d.choice(("-nan", "nan", "inf", "-inf", "-0", "0"), ("subnormal", "-0", "0", "tiny"))
    return shape, d.tensor(shape, SORTED, values=("tokens", -8.0, 8.0, *odd))


def rows(d: Drawing) -> Shape:
    """Rows around the lengths at which sorting algorithms change: 16, 32, 128, 1024."""
    return reducible(d, 2048)


def sort(d: Drawing) -> Call:
    shape, numbers = to_sort(d)
    kwargs: dict[str, Any] = {"dim": d.dim(shape)} if d.flag() else {}
    if d.flag():
        kwargs["descending"] = d.flag()
    if d.flag():
        kwargs["stable"] = True
    return call(numbers, **kwargs)


def msort(d: Drawing) -> Call:
    return call(to_sort(d)[1])


def topk(d: Drawing) -> Call:
    shape = rows(d)
    dim = d.dim(shape)
    k = d.integer(1, min(shape[dim], 33)) if shape else 1
    kwargs = {name: d.flag() for name in ("largest", "sorted") if d.flag()}
    return call(
        unordered(d, shape),
        k,
        *([dim] if dim not in (-1, len(shape) - 1) or d.flag() else []),
        **kwargs,
    )


def kthvalue(d: Drawing) -> Call:
    shape = rows(d)
    dim = d.dim(shape)
    return call(
        unordered(d, shape),
        d.integer(1, shape[dim]) if shape else 1,
        dim,
        **({"keepdim": True} if d.flag() else {}),
    )


def middle(d: Drawing) -> Call:
    """Of everything, or along a dim given by position, which also returns indices.

    Never expanded: torch (2.4 to 2.13, CPU) reads memory that was never written when the row has
    stride 0.
    """
    shape = rows(d)
    kwargs = along(d, shape, several=False)
    return call(
        unordered(d, shape, overlap=False),
        *([kwargs.pop("dim")] if "dim" in kwargs else []),
        **kwargs,
    )


def frequent(d: Drawing) -> Call:
    shape = reducible(d, 256)
    return call(
        d.tensor(
            shape, PLAIN, values=("integers", 0, 1) if d.dtype == "bool" else ("integers", -2, 2)
        ),
        d.dim(shape),
        **({"keepdim": True} if d.flag() else {}),
    )


def unique(d: Drawing) -> Call:
    shape = d.shape(1, 3, elements=1024)
    kwargs: dict[str, Any] = {
        name: True for name in ("return_inverse", "return_counts") if d.flag()
    }
    if d.flag():
        kwargs["dim"] = d.dim(shape)
    return call(unordered(d, shape, nan="dim" not in kwargs), **kwargs)


def quantile(d: Drawing) -> Call:
    """Quantiles at multiples of 1/64 of rows up to 2049 long: their ranks are exact in float32.
    One time in four of numbers with infinities. Shrinks towards finite numbers."""
    shape = reducible(d, 2049)
    kwargs = along(d, shape, several=False)
    if d.flag():
        kwargs["interpolation"] = d.choice("linear", "lower", "higher", "nearest", "midpoint")
    q = (
        d.tensor((d.size(1, 5),), PLAIN, values=("uniform", 0.0, 1.0))
        if d.flag()
        else d.integer(0, 64) / 64
    )
    if isinstance(q, TensorRecipe):
        if d.flag():  # whose ranks are whole
            q = d.tensor((d.size(1, 5),), PLAIN, values=("integers", 0, 1))
        else:
            kwargs["interpolation"] = "linear"
    return call(d.tensor(shape, d.choice(MODERATE, MODERATE, MODERATE, INFINITE)), q, **kwargs)


def frequency(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """mode: how often the value occurs in its row, and whether the index leads to it."""
    dim = argument("dim", 1, -1, args, kwargs)
    x = args[0].to(torch.float64)
    value, index = (o if o.ndim == x.ndim else o.unsqueeze(dim) for o in outputs)
    gathered = gather_or_nan(x, dim, index)
    return (x == value).sum(dim), (gathered == value).to(torch.int64)


@hook
def of_quantile(
    outputs: Tensors, x: Any, q: Any, *, interpolation: str = "", **rest: Any
) -> torch.Tensor:
    """|lower| + |upper| neighbor, and rank · distance between them, as the rank is rounded."""
    x = x.detach()
    low, high = (torch.nanquantile(x, q, interpolation=how, **rest) for how in ("lower", "higher"))
    length = x.numel() if rest.get("dim") is None else x.shape[rest["dim"]] if x.ndim else 1
    size = low.abs() + high.abs() + length * (high - low)
    return torch.nan_to_num(size, nan=0.0, posinf=0.0)


def tied(name: str, position: int, default: int | None) -> Any:
    return tied_sums(lambda args, kwargs: argument(name, position, default, args, kwargs))


def op(
    name: str,
    sample: Sample,
    observe: Any = zeros_aside,
    dtypes: tuple[str, ...] = EVERY,
    **more: Any,
) -> Operator:
    settings: dict[str, Any] = {"error": EXACT, "traits": TIES} | more
    return Operator(
        name=name, family="sorting", sample=sample, dtypes=dtypes, observe=observe, **settings
    )


OPERATORS = [
    op("sort", sort, sorted_along, observe_gradients=tied("dim", 1, -1), method=True),
    op("argsort", sort, order_along, differentiable=False, method=True),
    op("msort", msort, observe_gradients=tied("dim", 9, 0)),
    op("topk", topk, selection_along, NUMERIC, observe_gradients=tied("dim", 2, -1), method=True),
    op("kthvalue", kthvalue, value_selected, NUMERIC, observe_gradients=tied("dim", 2, -1)),
    op(
        "median",
        middle,
        extremum_along,
        NUMERIC,
        observe_gradients=tied("dim", 1, None),
        method=True,
    ),
    op("nanmedian", middle, extremum_along, NUMERIC, observe_gradients=tied("dim", 1, None)),
    op("mode", frequent, frequency, differentiable=False),
    op("unique", unique, differentiable=False, method=True, reference=documented.unique),
    op("unique_consecutive", unique, differentiable=False),
    *(
        op(
            name,
            quantile,
            None,
            FLOAT,
            error=accumulated(of_quantile, one),
            observe_gradients=tied("dim", 2, None),
            out=True,
        )
        for name in ("quantile", "nanquantile")
    ),
]
