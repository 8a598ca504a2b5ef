"""Copies, concatenations, and other movements that are not views."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .. import complex_numbers as c
from .. import movement
from ..complex_numbers import Pair
from ..elementwise import Function
from ..rounding import whole
from . import entry


@entry("clone", "contiguous", "alias_copy", "detach_copy", "lift_fresh_copy", "_local_scalar_dense")
def clone(self: Any) -> Any:
    return self


@entry("_to_copy")
def to_copy(self: Any, result: Any) -> Any:
    return converted(self, result.dtype)


@entry("copy")
def copy(self: Any, src: Any, result: Any) -> Any:
    return converted(src, result.dtype)


def converted(source: Any, dtype: torch.dtype) -> Any:
    """Floats lose their fraction when converted to integers; NaN and numbers beyond the dtype's
    range are undefined in C++."""
    if isinstance(source, Pair) and not (
        dtype.is_floating_point or dtype.is_complex or dtype == torch.bool
    ):
        source = source.re
    if (
        isinstance(source, Pair)
        or source.kind != "real"
        or dtype.is_floating_point
        or dtype.is_complex
        or dtype == torch.bool
    ):
        return source
    form = torch.iinfo(dtype)
    return _truncation(form.min, form.max)(source)


@functools.cache
def _truncation(low: int, high: int) -> Function:
    def of(x: Any) -> int | None:
        value = whole(x)
        return value if value is not None and low <= value <= high else None

    return Function(f"whole numbers from {low} to {high}", of, kind="int")


@entry("_unsafe_view")
def unsafe_view(self: Any, size: Any, result: Any) -> Any:
    return c.each(lambda x: movement.reshape(x, tuple(result.shape)), self)


@entry("cat", "concat")
def cat(tensors: Any, dim: int = 0) -> Any:
    parts = [t for t in tensors if t.shape != (0,)] or list(tensors)[:1]
    return c.each(lambda *xs: movement.cat(xs, dim), *parts)


@entry("stack")
def stack(tensors: Any, dim: int = 0) -> Any:
    return c.each(lambda *xs: movement.cat([movement.unsqueeze(x, dim) for x in xs], dim), *tensors)
