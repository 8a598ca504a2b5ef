"""Copies, joins, and other movements that are no views."""

from __future__ import annotations

from typing import Any

from .. import complex_numbers as c
from .. import movement
from . import entry


@entry("clone", "_to_copy", "contiguous", "alias_copy", "detach_copy", "lift_fresh_copy", "_local_scalar_dense")
def clone(self: Any) -> Any:
    return self


@entry("copy")
def copy(self: Any, src: Any) -> Any:
    return src


@entry("_unsafe_view")
def unsafe_view(self: Any, size: Any, result: Any) -> Any:
    return c.each(lambda x: movement.reshape(x, tuple(result.shape)), self)


@entry("cat", "concat")
def cat(tensors: Any, dim: int = 0) -> Any:
    kept = [t for t in tensors if t.shape != (0,)] or list(tensors)[:1]
    return c.each(lambda *xs: movement.cat(xs, dim), *kept)


@entry("stack")
def stack(tensors: Any, dim: int = 0) -> Any:
    return c.each(lambda *xs: movement.cat([movement.unsqueeze(x, dim) for x in xs], dim), *tensors)
