"""Running sums and extremes, differences and trapezoids: what depends on the neighbors along one
dimension.

Of equal elements, cummax and cummin give the last position, as PyTorch does.
"""

from typing import Any

import numpy as np

from consistency.backends.numpy.dimensions import along_to_pair, axis, row_sum
from consistency.backends.numpy.dtypes import INDEX, Array, accumulated, constant, floating, is_nan
from consistency.backends.numpy.implementations import implements


@implements("cumsum", wide=True, complex=True)
def cumsum(input: Array, dim: int, *, dtype: str | None = None) -> Array:
    """From 0 on, so that −0 comes out as 0, as in PyTorch."""
    x = accumulated(input, dtype)
    return (
        x + constant(0, x)
        if x.ndim == 0
        else np.cumsum(x, axis(dim, x.ndim), dtype=x.dtype) + constant(0, x)
    )


@implements("cumprod", wide=True, complex=True)
def cumprod(input: Array, dim: int, *, dtype: str | None = None) -> Array:
    x = accumulated(input, dtype)
    return x.copy() if x.ndim == 0 else np.cumprod(x, axis(dim, x.ndim), dtype=x.dtype)


@implements("logcumsumexp", wide=True)
def logcumsumexp(input: Array, dim: int) -> Array:
    x = floating(input)
    pair: Any = (
        np.logaddexp
        if x.dtype.kind != "O"
        else np.frompyfunc(lambda one, other: one.logaddexp(other), 2, 1)
    )
    return x.copy() if x.ndim == 0 else np.asarray(pair.accumulate(x, axis(dim, x.ndim)))


def _offer_running_extreme(name: str, pair: np.ufunc) -> None:
    def kernel(lines: Array) -> tuple[Array, Array]:
        running = pair.accumulate(lines, -1)
        reached = (lines == running) | is_nan(lines)
        positions = np.where(reached, np.arange(lines.shape[-1]), 0)
        return running, np.maximum.accumulate(positions, -1).astype(INDEX)

    @implements(name, wide=True)
    def call(input: Array, dim: int) -> tuple[Array, Array]:
        return along_to_pair(input, dim, kernel)


_offer_running_extreme("cummax", np.maximum)
_offer_running_extreme("cummin", np.minimum)


@implements("diff", wide=True, complex=True)
def diff(
    input: Array,
    n: int = 1,
    dim: int = -1,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Array:
    if n == 0:  # PyTorch then ignores prepend and append
        return input.copy()
    parts = [part for part in (prepend, input, append) if part is not None]
    return np.diff(np.concatenate(parts, dim), n=n, axis=dim)


def _trapezoids(y: Array, x: Array | None, dx: float, dim: int) -> Array:
    """The areas between neighbors along `dim`, moved last."""
    lines = np.moveaxis(floating(y), dim, -1)
    steps = (
        constant(dx, lines)
        if x is None
        else np.diff(x if x.ndim == 1 else np.moveaxis(x, dim, -1), axis=-1)
    )
    return np.asarray(
        (lines[..., 1:] + lines[..., :-1]) / constant(2, lines) * steps.astype(lines.dtype)
    )


@implements("trapezoid", "trapz", wide=True, integers=False)
def trapezoid(y: Array, x: Array | None = None, *, dx: float = 1, dim: int = -1) -> Array:
    return row_sum(_trapezoids(y, x, dx, dim))


@implements("cumulative_trapezoid", wide=True, integers=False)
def cumulative_trapezoid(
    y: Array, x: Array | None = None, *, dx: float = 1, dim: int = -1
) -> Array:
    return np.moveaxis(np.cumsum(_trapezoids(y, x, dx, dim), -1), -1, dim)
