"""Where the errors of an output lie: in one group of elements, or at one place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .metrics import Doubles, scatter

_SMALLEST_GROUP = 16


def clustered(
    squares: Doubles, shape: tuple[int, ...], unit: float = 1.0
) -> tuple[float, int, str] | None:
    """The group of elements with the most unusual errors (``squares``, in ``unit``·σ²): RMS in σ,
    members, and location.

    Groups are the slices of each dimension, tiles of 16 × 16 of the last two, and the remainders
    modulo 8 of the last. Groups of fewer than 16 elements scatter too much.
    """
    best: tuple[float, int, str] | None = None
    array = squares.reshape(shape)

    def consider(means: Doubles, members: int, where: Callable[[int], str]) -> None:
        nonlocal best
        if members < _SMALLEST_GROUP or not means.size:
            return
        worst = int(np.argmax(means))
        rms = math.sqrt(float(means.reshape(-1)[worst]) / unit)
        if best is None or rms / scatter(members) > best[0] / scatter(best[1]):
            best = (rms, members, where(worst))

    for dim, size in enumerate(shape):
        if size > 1:
            other_dims = tuple(d for d in range(len(shape)) if d != dim)
            consider(
                array.mean(other_dims),
                squares.size // size,
                lambda i, dim=dim: f"where index {dim} is {i}",  # type: ignore[misc]
            )
    remainder = shape[-1] % 8 if shape else 0
    if remainder and shape[-1] > 8:
        tail = array[..., -remainder:]
        consider(
            np.asarray([tail.mean()]),
            tail.size,
            lambda i: f"in the last {remainder} of each {shape[-1]}",
        )
    if len(shape) >= 2 and min(shape[-2:]) >= 32:
        rows, columns = shape[-2] // 16, shape[-1] // 16
        whole = array[..., : rows * 16, : columns * 16].reshape(-1, rows, 16, columns * 16)
        tiles = whole.sum(2).reshape(-1, rows, columns, 16).sum(3) / 256  # faster than one mean
        consider(
            tiles,
            256,
            lambda i: f"in the tile from row {i // columns % rows * 16}, column {i % columns * 16}",
        )
    return best


class ErrorPattern(NamedTuple):
    """Where the large errors lie together, in words; empty if they are scattered. ``at_end``: they
    are the first or the last elements, of all or along a dimension."""

    words: str = ""
    at_end: bool = False


def pattern_of(error: Doubles, shape: tuple[int, ...]) -> ErrorPattern:
    """Where the large errors lie if they lie together: a tail, a row, one position modulo a
    width."""
    large = (
        np.flatnonzero(error > 0.25 * error.max()) if error.size else np.empty(0, dtype=np.int64)
    )
    if error.size < 16 or not 2 <= large.size <= error.size // 2:
        return ErrorPattern()
    first, last = int(large[0]), int(large[-1])
    if last == error.size - 1 and large.size == last - first + 1:
        return ErrorPattern(f"only in the last {large.size} of {error.size} elements", at_end=True)
    if first == 0 and large.size == last + 1:
        return ErrorPattern(f"only in the first {large.size} of {error.size} elements", at_end=True)
    index = np.unravel_index(large, shape)
    for dim, size in enumerate(shape):
        indices = np.unique(index[dim])
        if size >= 8 and indices.size == 1 and large.size >= 4:
            return ErrorPattern(f"only where index {dim} is {int(indices[0])}")
        if size >= 16 and large.size >= 8:  # fewer lie at such places by chance
            for width in (32, 16, 8, 4):
                if np.unique(indices % width).size == 1 and indices.size >= 2:
                    place = f"{int(indices[0] % width)} modulo {width}"
                    return ErrorPattern(f"only where index {dim} is {place}")
            if indices.min() >= size - size % 8 and size % 8:
                return ErrorPattern(
                    f"only in the last {size % 8} of {size} along dimension {dim}", at_end=True
                )
    return ErrorPattern()
