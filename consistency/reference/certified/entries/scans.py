"""Cumulative sums and products."""

from __future__ import annotations

from typing import Any

from .. import complex_numbers as c
from .. import functions as f
from .. import scans
from ..balls import Unsure
from ..elementwise import to_real
from ..exponentials import shift
from . import entry


@entry("cumsum")
def cumsum(self: Any, dim: int) -> Any:
    return scans.running_total(self, dim)


@entry("cumprod")
def cumprod(self: Any, dim: int) -> Any:
    return scans.running_product(self, dim)


@entry("logcumsumexp")
def logcumsumexp(self: Any, dim: int) -> Any:
    """log Σ exp(x) of the elements up to each, shifted by the row's largest finite element."""
    if c.is_complex(self):
        raise Unsure("which branch of the logarithm a running sum is on is not documented")
    x = to_real(self)
    by = shift(x, dim, finite=True)
    return c.add(f.log(scans.running_total(f.exp(c.sub(x, by)), dim)), by)
