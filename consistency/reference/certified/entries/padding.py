"""Padding, by its mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..movement import Labels
from . import entry
from .rearrangements import moved


def _padded(x: Labels, pads: Sequence[int], inside: Callable[[Labels, int], Labels]) -> Labels:
    """Each dimension, from the last one on, extended by (left, right) elements; ``inside`` maps
    positions to source positions (−1: none)."""
    for i in range(len(pads) // 2):
        axis = x.ndim - 1 - i
        size = x.shape[axis]
        places = inside(np.arange(-pads[2 * i], size + pads[2 * i + 1]), size)
        padded = (
            np.take(x, np.maximum(places, 0), axis)
            if size
            else np.zeros((*x.shape[:axis], places.size, *x.shape[axis + 1 :]), int)
        )
        x = np.where(
            (places >= 0).reshape([-1 if d == axis else 1 for d in range(x.ndim)]), padded, -1
        )
    return x


@entry("constant_pad_nd")
def constant(self: Any, pad: Any, value: Any = 0) -> Any:
    """Negative padding crops."""

    def inside(places: Labels, size: int) -> Labels:
        return np.where((places >= 0) & (places < size), places, -1)

    return moved(self, lambda x: _padded(x, pad, inside), value)


@entry("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
def reflection(self: Any, padding: Any) -> Any:
    """Reflected at the outermost elements, which are not repeated; torch requires less padding than
    the dimension's size."""

    def inside(places: Labels, size: int) -> Labels:
        places = np.abs(places)
        return np.where(places < size, places, 2 * (size - 1) - places)

    return moved(self, lambda x: _padded(x, padding, inside))


@entry("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication(self: Any, padding: Any) -> Any:
    """The outermost element is repeated."""
    return moved(
        self, lambda x: _padded(x, padding, lambda places, size: np.clip(places, 0, size - 1))
    )
