"""Softmax, its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

from typing import Any

from .. import complex_numbers as c
from .. import exponentials
from ..elementwise import to_real
from . import ENTRIES, entry


@entry("_softmax")
def softmax(self: Any, dim: int, half_to_float: bool = False) -> Any:
    return exponentials.softmax(to_real(self), dim)


@entry("_safe_softmax")
def safe_softmax(self: Any, dim: int) -> Any:
    return exponentials.safe_softmax(to_real(self), dim)


@entry("_log_softmax")
def log_softmax(self: Any, dim: int, half_to_float: bool = False) -> Any:
    return exponentials.log_softmax(to_real(self), dim)


@entry("logsumexp")
def logsumexp(self: Any, dim: Any, keepdim: bool = False) -> Any:
    if c.is_complex(self):
        return ENTRIES["log"](c.sum_(ENTRIES["exp"](self), dim, keepdim))
    return exponentials.logsumexp(self, dim, keepdim)
