"""Rearrangements of one tensor that are not views (rotated, rolled, repeated, shuffled), and
copying variants of views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import complex_numbers as c
from ..movement import Labels, labeled
from . import ENTRIES, entry

Move = Callable[[Labels], Labels]


def moved(x: Any, move: Move, fill: Any = 0.0) -> Any:
    """A real or complex tensor, rearranged as ``move`` rearranges labels; −1 stands for ``fill`` (0
    in the imaginary part)."""
    if not c.is_complex(x):
        return labeled(x, move, fill)
    return c.Pair(labeled(x.re, move, fill), labeled(x.im, move))


def _enter(*names: str) -> Callable[[Callable[..., Move]], Callable[..., Move]]:
    """Register a rearrangement of labels, which receives the operator's arguments other than
    ``self``."""

    def enter(of: Callable[..., Move]) -> Callable[..., Move]:
        count = of.__code__.co_argcount
        parameters = of.__code__.co_varnames[:count]

        def call(self: Any, **arguments: Any) -> Any:
            return moved(self, of(**arguments))

        call.__signature__ = _signature(parameters)  # type: ignore[attr-defined]
        for name in names:
            ENTRIES[name] = call
        return of

    return enter


def _signature(names: Sequence[str]) -> Any:
    from inspect import Parameter, Signature

    return Signature(
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *names)]
    )


@_enter("flip")
def flip(dims: Any) -> Move:
    return lambda x: np.flip(x, tuple(dims))


@_enter("roll")
def roll(shifts: Any, dims: Any = ()) -> Move:
    """The flat tensor is rolled if no dimensions are given."""
    shifts, dims = _tuple(shifts), _tuple(dims)
    return lambda x: (
        np.roll(x.reshape(-1), shifts[0]).reshape(x.shape) if not dims else np.roll(x, shifts, dims)
    )


@_enter("rot90")
def rot90(k: int, dims: Any) -> Move:
    """Rotated from the first towards the second dimension: rot90([[0, 1], [2, 3]]) is [[1, 3], [0,
    2]]."""

    def turn(x: Labels) -> Labels:
        for _ in range(k % 4):
            x = np.flip(np.swapaxes(x, *dims), dims[0])
        return x

    return turn


@_enter("tril")
def tril(diagonal: int) -> Move:
    return lambda x: np.where(_offsets(x) <= diagonal, x, -1)


@_enter("triu")
def triu(diagonal: int) -> Move:
    return lambda x: np.where(_offsets(x) >= diagonal, x, -1)


def _offsets(x: Labels) -> Labels:
    """Column − row in the last two dimensions."""
    offsets: Labels = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]
    return offsets


@_enter("repeat")
def repeat(repeats: Any) -> Move:
    return lambda x: np.tile(x.reshape((1,) * (len(repeats) - x.ndim) + x.shape), tuple(repeats))


@_enter("pixel_shuffle")
def pixel_shuffle(upscale_factor: int) -> Move:
    """Channels (c, i, j) to pixels (h·r + i, w·r + j) of channel c."""
    r = upscale_factor

    def move(x: Labels) -> Labels:
        *batch, channels, h, w = x.shape
        y = x.reshape(-1, channels // r**2, r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
        return y.reshape(*batch, channels // r**2, h * r, w * r)

    return move


@_enter("pixel_unshuffle")
def pixel_unshuffle(downscale_factor: int) -> Move:
    r = downscale_factor

    def move(x: Labels) -> Labels:
        *batch, channels, h, w = x.shape
        y = x.reshape(-1, channels, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
        return y.reshape(*batch, channels * r**2, h // r, w // r)

    return move


@_enter("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(groups: int) -> Move:
    """Channel k of group g becomes channel k·groups + g."""

    def move(x: Labels) -> Labels:
        batch, channels, *trailing = x.shape
        return (
            x.reshape(batch, groups, channels // groups, *trailing).swapaxes(1, 2).reshape(x.shape)
        )

    return move


# --- twins of views


@_enter("diagonal_copy")
def diagonal(offset: int, dim1: int, dim2: int) -> Move:
    return lambda x: np.diagonal(x, offset, dim1, dim2)


@_enter("permute_copy")
def permute(dims: Any) -> Move:
    return lambda x: np.transpose(x, [d % max(x.ndim, 1) for d in dims])


@_enter("transpose_copy")
def transpose(dim0: int, dim1: int) -> Move:
    return lambda x: np.swapaxes(x, dim0, dim1) if x.ndim else x


@_enter("t_copy")
def t() -> Move:
    return lambda x: x.T


@_enter("select_copy")
def select(dim: int, index: int) -> Move:
    return lambda x: np.take(x, index, dim)


@_enter("slice_copy")
def slice_(dim: int, start: int | None, end: int | None, step: int) -> Move:
    return lambda x: x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


@_enter("narrow_copy")
def narrow(dim: int, start: int, length: int) -> Move:
    return lambda x: np.take(x, start % x.shape[dim] + np.arange(length) if length else [], dim)


@_enter("unfold_copy")
def unfold(dimension: int, size: int, step: int) -> Move:
    """Windows along a dimension, with their elements in a new last dimension."""

    def move(x: Labels) -> Labels:
        if not x.ndim:
            return x.reshape(1)[:size]
        return np.lib.stride_tricks.sliding_window_view(x, size, dimension)[
            (slice(None),) * (dimension % x.ndim) + (slice(None, None, step),)
        ]

    return move


def _reshaped(self: Any, result: Any) -> Any:
    """Reshaped in row-major order."""
    return moved(self, lambda x: x.reshape(tuple(result.shape)))


@entry("view_copy", "_reshape_copy", "_reshape_alias_copy")
def view(self: Any, size: Any, result: Any, stride: Any = None) -> Any:
    return _reshaped(self, result)


@entry("squeeze_copy")
def squeeze(self: Any, result: Any, dim: Any = None) -> Any:
    dims = (
        range(len(self.shape))
        if dim is None
        else [d % max(len(self.shape), 1) for d in _tuple(dim)]
    )
    shape = tuple(n for d, n in enumerate(self.shape) if n != 1 or d not in dims)
    return moved(self, lambda x: x.reshape(shape))


@entry("unsqueeze_copy")
def unsqueeze(self: Any, dim: int) -> Any:
    return moved(self, lambda x: np.expand_dims(x, dim))


@entry("expand_copy")
def expand(self: Any, size: Any) -> Any:
    lead = len(size) - len(self.shape)
    shape = tuple(self.shape[d - lead] if n == -1 else n for d, n in enumerate(size))
    return moved(self, lambda x: np.broadcast_to(x, shape))


@entry("as_strided_copy")
def as_strided(self: Any, part: Any, size: Any, stride: Any, storage_offset: Any) -> Any:
    return part


def _range(x: Any, dim: int, begin: int, end: int) -> Any:
    return moved(x, lambda labels: np.take(labels, np.arange(begin, end), dim))


@entry("unsafe_split_with_sizes", "split_with_sizes_copy")
def split_with_sizes(self: Any, split_sizes: Any, dim: int = 0) -> Any:
    ends = np.cumsum(split_sizes).tolist()
    return [_range(self, dim, end - size, end) for end, size in zip(ends, split_sizes, strict=True)]


@entry("unsafe_split", "split_copy")
def split(self: Any, split_size: int, dim: int = 0) -> Any:
    """Parts of equal size; the last one may be smaller."""
    size = self.shape[dim]
    return [
        _range(self, dim, begin, min(begin + split_size, size))
        for begin in range(0, max(size, 1), max(split_size, 1))
    ]


@entry("unbind_copy")
def unbind(self: Any, dim: int = 0) -> Any:
    return [select_(self, dim, i) for i in range(self.shape[dim])]


def select_(x: Any, dim: int, index: int) -> Any:
    return moved(x, lambda labels: np.take(labels, index, dim))


def _tuple(value: Any) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)
