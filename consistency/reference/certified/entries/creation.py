"""Tensors created from numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..complex_numbers import pair
from ..elementwise import node_of
from ..nodes import Constant
from . import entry


@entry("zeros", "zeros_like", "new_zeros")
def zeros(result: Any, self: Any = None, size: Any = None) -> Any:
    return Constant(np.zeros(()))


@entry("ones", "ones_like", "new_ones")
def ones(result: Any, self: Any = None, size: Any = None) -> Any:
    return Constant(np.ones(()))


@entry("zero")
def zero(self: Any) -> Any:
    return Constant(np.zeros(()))


@entry("full", "full_like", "new_full")
def full(fill_value: Any, self: Any = None, size: Any = None) -> Any:
    return pair(fill_value) if isinstance(fill_value, complex) else node_of(fill_value)


@entry("fill")
def fill(self: Any, value: Any) -> Any:
    return (
        pair(value)
        if isinstance(value, complex)
        else node_of(value)
        if not hasattr(value, "shape")
        else value
    )


@entry("scalar_tensor")
def scalar_tensor(s: Any) -> Any:
    return pair(s) if isinstance(s, complex) else node_of(s)
