"""Oracles of sums and products in double-double: matrix products, sums, running sums, means, moments, distances.

Written apart from PyTorch and from :mod:`consistency.backends.numpy_ops`. With n terms of total magnitude S the error is below
(8 + 3·⌈log₂ n⌉)·2⁻¹⁰⁶·S: 2⁻⁹⁹·S for a million terms. Moments take two passes and stay within 2⁻⁹⁰ of Σ(x − mean)² plus their mean's
error; roots and quotients add 2⁻¹⁰² of their own value. Each function takes arrays in place of tensors, with torch's arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .answer import Unsure
from .double_double import DoubleDouble, as_dd, matmul, where

Array = Any  # float64 (or integer) arrays as they come from a tensor
Dims = int | Sequence[int] | None
LARGEST_PRODUCT = 1 << 22


def _dims(dim: Any) -> Any:
    """No dimensions, and (), mean all of them."""
    return None if dim is None or (not isinstance(dim, int) and len(dim) == 0) else dim


def _count(shape: Sequence[int], dim: Any) -> int:
    chosen = range(len(shape)) if dim is None else (dim,) if isinstance(dim, int) else dim
    return math.prod(shape[d] for d in chosen) if len(shape) else 1


# --- products -----------------------------------------------------------------------------------------------------------


def mm(a: Array, b: Array) -> DoubleDouble:
    """Of any ranks, as torch.matmul."""
    left, right = as_dd(a if a.ndim > 1 else a[None]), as_dd(b if b.ndim > 1 else b[:, None])
    result = matmul(left, right)
    if a.ndim == 1:
        result = result[..., 0, :]
    return result[..., 0] if b.ndim == 1 else result


def vecdot(x: Array, y: Array, dim: int = -1) -> DoubleDouble:
    x, y = np.broadcast_arrays(x, y)
    return (as_dd(x) * as_dd(y)).sum(dim)


def inner(a: Array, b: Array) -> DoubleDouble:
    if a.ndim == 0 or b.ndim == 0:
        return as_dd(a) * as_dd(b)
    rows = matmul(as_dd(a.reshape(-1, a.shape[-1])), as_dd(b.reshape(-1, b.shape[-1]).T))
    return rows.reshape(*a.shape[:-1], *b.shape[:-1])


def outer(a: Array, b: Array) -> DoubleDouble:
    return as_dd(a[:, None]) * as_dd(b[None, :])


def linear(x: Array, weight: Array, bias: Array | None = None) -> DoubleDouble:
    product = inner(x, weight)
    return product if bias is None else product + bias


def bilinear(x: Array, y: Array, weight: Array, bias: Array | None = None) -> DoubleDouble:
    product = einsum("...i,oij,...j->...o", x, weight, y)
    return product if bias is None else product + bias


def einsum(equation: str, *operands: Any) -> DoubleDouble:
    """All products at once, then their sum over the letters that are dropped; an ellipsis stands in front only."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    given, arrow, kept = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    if not arrow or any(len(set(term.replace("...", ""))) < len(term.replace("...", "")) for term in terms):
        raise Unsure("a diagonal, or no arrow")
    ranks = [operand.ndim - len(term.replace("...", "")) for term, operand in zip(terms, operands, strict=True)]
    stars = "".join(chr(ord("\u0391") + i) for i in range(max(ranks)))
    terms = [term.replace("...", stars[len(stars) - rank :]) for term, rank in zip(terms, ranks, strict=True)]
    kept = kept.replace("...", stars)
    letters = kept + "".join(sorted(set("".join(terms)) - set(kept)))
    product: DoubleDouble | None = None
    for term, operand in zip(terms, operands, strict=True):
        present = sorted(range(len(term)), key=lambda i, term=term: letters.index(term[i]))  # type: ignore[misc]
        shape = [operand.shape[term.index(letter)] if letter in term else 1 for letter in letters]
        factor = as_dd(operand.transpose(present).reshape(shape))
        if product is not None and math.prod(np.broadcast_shapes(product.shape, factor.shape)) > LARGEST_PRODUCT:
            raise Unsure("too many products")
        product = factor if product is None else product * factor
    assert product is not None
    dropped = tuple(range(len(kept), len(letters)))
    return product.sum(dropped) if dropped else product


def kron(a: Array, b: Array) -> DoubleDouble:
    ndim = max(a.ndim, b.ndim)
    a, b = (x.reshape((1,) * (ndim - x.ndim) + x.shape) for x in (a, b))
    left = a.reshape([n for size in a.shape for n in (size, 1)])
    right = b.reshape([n for size in b.shape for n in (1, size)])
    return (as_dd(left) * as_dd(right)).reshape(*(m * n for m, n in zip(a.shape, b.shape, strict=True)))


def tensordot(a: Array, b: Array, dims: Any = 2) -> DoubleDouble:
    pairs = (list(range(a.ndim - dims, a.ndim)), list(range(dims))) if isinstance(dims, int) else [list(d) for d in dims]
    left, right = ([d % x.ndim for d in which] for x, which in zip((a, b), pairs, strict=True))
    rows = [d for d in range(a.ndim) if d not in left]
    columns = [d for d in range(b.ndim) if d not in right]
    inside = math.prod(a.shape[d] for d in left)
    shape = [a.shape[d] for d in rows], [b.shape[d] for d in columns]
    x = a.transpose(rows + left).reshape(math.prod(shape[0]), inside)
    y = b.transpose(right + columns).reshape(inside, math.prod(shape[1]))
    return matmul(as_dd(x), as_dd(y)).reshape(*shape[0], *shape[1])


def cross(a: Array, b: Array, dim: int | None = None) -> DoubleDouble:
    a, b = np.broadcast_arrays(a, b)
    if dim is None:
        dim = next(d for d, size in enumerate(a.shape) if size == 3)
    x, y = as_dd(np.moveaxis(a, dim, -1)), as_dd(np.moveaxis(b, dim, -1))
    after, before = [1, 2, 0], [2, 0, 1]
    return (x[..., after] * y[..., before] - x[..., before] * y[..., after]).moveaxis(-1, dim)


def _added(product: Callable[..., DoubleDouble]) -> Callable[..., DoubleDouble]:
    """beta · input + alpha · product; nothing of the input, NaN included, where beta is 0."""

    def call(x: Array, a: Array, b: Array, *, beta: float = 1, alpha: float = 1) -> DoubleDouble:
        total = product(a, b) * alpha
        return total + (as_dd(x) * beta if beta != 0 else np.zeros(x.shape))

    return call


# --- sums ---------------------------------------------------------------------------------------------------------------


def total(x: Array, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> DoubleDouble:
    return as_dd(x).sum(_dims(dim), keepdim)


def mean(x: Array, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> DoubleDouble:
    return total(x, dim, keepdim) / _count(x.shape, _dims(dim))


def nansum(x: Array, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> DoubleDouble:
    return total(np.where(x != x, 0.0, x), dim, keepdim)


def nanmean(x: Array, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> DoubleDouble:
    return nansum(x, dim, keepdim) / total((x == x).astype(np.float64), dim, keepdim)


def sum_to_size(x: Array, *size: Any) -> DoubleDouble:
    shape = tuple(size[0]) if size and not isinstance(size[0], int) else size
    lead = x.ndim - len(shape)
    dims = (*range(lead), *(lead + d for d, n in enumerate(shape) if n == 1 and x.shape[lead + d] != 1))
    return (as_dd(x).sum(dims, True) if dims else as_dd(x)).reshape(*shape)


def cumsum(x: Array, dim: int, *, dtype: Any = None) -> DoubleDouble:
    return as_dd(x).cumsum(dim) if x.ndim else as_dd(x)


def diff(x: Array, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None) -> DoubleDouble:
    if n == 0:
        return as_dd(x)
    lines = as_dd(np.concatenate([part for part in (prepend, x, append) if part is not None], dim)).moveaxis(dim, 0)
    for _ in range(n):
        lines = lines[1:] - lines[:-1]
    return lines.moveaxis(0, dim)


def _areas(y: Array, x: Array | None, dx: float, dim: int) -> DoubleDouble:
    lines = as_dd(np.moveaxis(y, dim, -1))
    steps: DoubleDouble = as_dd(dx)
    if x is not None:
        points = as_dd(x if x.ndim == 1 else np.moveaxis(x, dim, -1))
        steps = points[..., 1:] - points[..., :-1]
    return (lines[..., 1:] + lines[..., :-1]) * steps * 0.5


def trapezoid(y: Array, x: Array | None = None, *, dx: float = 1, dim: int = -1) -> DoubleDouble:
    return _areas(y, x, dx, dim).sum(-1)


def cumulative_trapezoid(y: Array, x: Array | None = None, *, dx: float = 1, dim: int = -1) -> DoubleDouble:
    return _areas(y, x, dx, dim).cumsum(-1).moveaxis(-1, dim)


# --- moments, norms, distances, losses ---------------------------------------------------------------------------------------


def _moments(x: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    less = correction if correction is not None else 0 if unbiased is False else 1
    chosen = _dims(dim)
    n = _count(x.shape, chosen)
    centre = as_dd(x).sum(chosen, True) / n
    away = as_dd(x) - centre
    variance = (away * away).sum(chosen, keepdim) / max(n - less, 0)
    return variance, centre if keepdim else centre.reshape(*variance.shape)


def variance_of(*args: Any, **kwargs: Any) -> DoubleDouble:
    found: DoubleDouble = _moments(*args, **kwargs)[0]
    return found


def std_mean(*args: Any, **kwargs: Any) -> tuple[DoubleDouble, DoubleDouble]:
    variance, centre = _moments(*args, **kwargs)
    return variance.sqrt(), centre


def norm(x: Array, p: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> DoubleDouble:
    order = 2 if p in ("fro", None) else p
    if order not in (1, 2):
        raise Unsure("an order that is neither 1 nor 2")
    size = abs(as_dd(x))
    return size.sum(_dims(dim), keepdim) if order == 1 else (size * size).sum(_dims(dim), keepdim).sqrt()


def dist(x: Array, y: Array, p: float = 2) -> DoubleDouble:
    away = as_dd(x) - as_dd(y)
    if p not in (1, 2):
        raise Unsure("an order that is neither 1 nor 2")
    return (away * away).sum().sqrt() if p == 2 else abs(away).sum()


def reduced(loss: DoubleDouble, reduction: str) -> DoubleDouble:
    if reduction == "none":
        return loss
    return loss.sum() / math.prod(loss.shape) if reduction == "mean" else loss.sum()


def mse_loss(x: Array, y: Array, *, reduction: str = "mean") -> DoubleDouble:
    away = as_dd(x) - as_dd(y)
    return reduced(away * away, reduction)


def l1_loss(x: Array, y: Array, *, reduction: str = "mean") -> DoubleDouble:
    return reduced(abs(as_dd(x) - as_dd(y)), reduction)


def huber_loss(x: Array, y: Array, reduction: str = "mean", delta: float = 1.0) -> DoubleDouble:
    away = abs(as_dd(x) - as_dd(y))
    return reduced(where(away.high < delta, away * away * 0.5, (away - 0.5 * delta) * delta), reduction)


SUMS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "vdot"), mm),
    "linalg.vecdot": vecdot,
    "inner": inner,
    "outer": outer,
    "addmm": _added(mm),
    "addmv": _added(mm),
    "baddbmm": _added(mm),
    "addbmm": _added(lambda a, b: mm(a, b).sum(0)),
    "addr": _added(outer),
    "nn.functional.linear": linear,
    "nn.functional.bilinear": bilinear,
    "einsum": einsum,
    "kron": kron,
    "tensordot": tensordot,
    "cross": cross,
    "linalg.cross": lambda a, b, dim=-1: cross(a, b, dim),
    "trace": lambda x: as_dd(np.diagonal(x)).sum(),
    "sum": total,
    "mean": mean,
    "nansum": nansum,
    "nanmean": nanmean,
    "sum_to_size": sum_to_size,
    "cumsum": cumsum,
    "diff": diff,
    "trapezoid": trapezoid,
    "cumulative_trapezoid": cumulative_trapezoid,
    "var": variance_of,
    "std": lambda *args, **kwargs: std_mean(*args, **kwargs)[0],
    "var_mean": _moments,
    "std_mean": std_mean,
    "norm": norm,
    "linalg.vector_norm": norm,
    "dist": dist,
    "nn.functional.mse_loss": mse_loss,
    "nn.functional.l1_loss": l1_loss,
    "nn.functional.huber_loss": huber_loss,
}
