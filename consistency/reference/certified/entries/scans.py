"""Cumulative sums and products."""

from __future__ import annotations

from typing import Any

from .. import complex_functions as cf
from .. import complex_numbers as c
from .. import functions as f
from .. import scans
from ..elementwise import less, to_real, where
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
        left = scans.running_total(where(cf.is_left(self), 1.0, 0.0), dim)
        total = scans.running_total(cf.exp(self), dim)
        return cf.log_of_sum(total, less(0.5, left))
    x = to_real(self)
    by = shift(x, dim, finite=True)
    return c.add(f.log(scans.running_total(f.exp(c.sub(x, by)), dim)), by)
