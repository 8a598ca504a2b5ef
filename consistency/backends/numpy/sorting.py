"""Largest and smallest elements with their positions, and sorting. Of equal elements, the first is
given."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from consistency.backends.numpy.dimensions import along_to_pair, reduce_rows, reduce_rows_to_pair
from consistency.backends.numpy.dtypes import INDEX, Array, is_nan, unify
from consistency.backends.numpy.implementations import implements


def _pick(rows: Array, position: Array) -> tuple[Array, Array]:
    """The element of each row at its position, and the position."""
    return np.take_along_axis(rows, position[..., None], -1)[..., 0], position.astype(INDEX)


def _offer_extreme(name: str, argument: Callable[[Array], Array], pair: np.ufunc) -> None:
    @implements(f"arg{name}", wide=True)
    def position(input: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        return reduce_rows(input, dim, keepdim, argument).astype(INDEX)

    @implements(name, wide=True)
    def extreme(
        input: Array,
        dim: Array | int | None = None,
        keepdim: bool = False,
        *,
        other: Array | None = None,
    ) -> Any:
        second = dim if isinstance(dim, np.ndarray) else other
        if second is not None:  # max(input, other)
            return pair(*unify(input, second))
        over = cast("int | None", dim)
        values = reduce_rows_to_pair(input, over, keepdim, lambda rows: _pick(rows, argument(rows)))
        return values[0] if over is None else values


_offer_extreme("max", lambda rows: np.asarray(rows.argmax(-1)), np.maximum)
_offer_extreme("min", lambda rows: np.asarray(rows.argmin(-1)), np.minimum)


# --- sorting


def _order(lines: Array, descending: bool) -> Array:
    """Stable positions along the last axis; NaN counts as the largest either way."""
    if not descending:
        return np.argsort(lines, -1, kind="stable")
    backwards = np.argsort(lines[..., ::-1], -1, kind="stable")[..., ::-1]
    return np.asarray(lines.shape[-1] - 1 - backwards)


def _sorted(
    lines: Array, descending: bool = False, count: int | None = None
) -> tuple[Array, Array]:
    order = _order(lines, descending)[..., :count]
    return np.take_along_axis(lines, order, -1), order.astype(INDEX)


@implements("sort", wide=True)
def sort(
    input: Array, dim: int = -1, descending: bool = False, stable: bool = False
) -> tuple[Array, Array]:
    return along_to_pair(input, dim, lambda lines: _sorted(lines, descending))


@implements("argsort", wide=True)
def argsort(input: Array, dim: int = -1, descending: bool = False, stable: bool = False) -> Array:
    return sort(input, dim, descending)[1]


@implements("msort", wide=True)
def msort(input: Array) -> Array:
    return sort(input, 0)[0]


@implements("topk", wide=True)
def topk(
    input: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Array, Array]:
    if not input.ndim:  # of a single number torch gives that, also for k = 0
        return input, np.zeros((), dtype=np.int64)
    return along_to_pair(input, dim, lambda lines: _sorted(lines, largest, k))


@implements("kthvalue", wide=True)
def kthvalue(input: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    return reduce_rows_to_pair(
        input, dim, keepdim, lambda rows: _pick(rows, _order(rows, False)[..., k - 1])
    )


def _row_median(rows: Array, ignore_nan: bool) -> tuple[Array, Array]:
    """The lower of the two middle elements; of the non-NaN ones, or the first NaN if there is
    any."""
    order = _order(rows, descending=False)
    nans = is_nan(rows).sum(-1)
    numbers = rows.shape[-1] - nans
    middle = (
        np.maximum(numbers - 1, 0) // 2
        if ignore_nan
        else np.where(nans > 0, numbers, (numbers - 1) // 2)
    )
    return _pick(rows, np.take_along_axis(order, middle[..., None], -1)[..., 0])


def _offer_median(name: str, ignore_nan: bool) -> None:
    @implements(name, wide=True)
    def call(input: Array, dim: int | None = None, keepdim: bool = False) -> Any:
        if input.size == 0:
            raise NotImplementedError("median of nothing")
        keep_dimension = keepdim and dim is not None
        result = reduce_rows_to_pair(
            input, dim, keep_dimension, lambda rows: _row_median(rows, ignore_nan)
        )
        return result[0] if dim is None else result


_offer_median("median", ignore_nan=False)
_offer_median("nanmedian", ignore_nan=True)
