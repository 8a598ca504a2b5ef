"""Sums, means, variances, norms, extremes, scans and softmax."""

from __future__ import annotations

import math
from typing import Any

from .. import balls, sums
from .. import complex_numbers as c
from .. import elementwise as e
from .. import functions as f
from ..elementwise import to_real
from ..nodes import Node
from . import entry


@entry("sum")
def sum_(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return c.sum_(self, dim, keepdim)


@entry("mean")
def mean(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return c.mean(self, dim, keepdim)


@entry("prod")
def prod(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return sums.prod(self, dim, keepdim)


@entry("amax")
def amax(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return sums.amax(self, dim, keepdim)


@entry("amin")
def amin(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return sums.amin(self, dim, keepdim)


def variance(x: Any, dim: Any, correction: Any, keepdim: bool) -> Node:
    """Σ|x − mean|² ÷ max(n − correction, 0)."""
    dims = sums.dims_of(dim, x.ndim)
    count = math.prod(x.shape[d] for d in dims)
    deviation = c.sub(x, c.mean(x, dims, True)) if x.ndim else c.sub(x, x)
    return e.div(sums.sum_(c.square_modulus(deviation), dims, keepdim), max(float(count) - float(correction), 0.0))


def _correction(correction: Any, unbiased: Any) -> Any:
    return (1 if unbiased is None or unbiased else 0) if correction is None else correction


@entry("var")
def var(self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False, unbiased: Any = None) -> Any:
    return variance(self, dim, _correction(correction, unbiased), keepdim)


@entry("std")
def std(self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False, unbiased: Any = None) -> Any:
    return f.sqrt(variance(self, dim, _correction(correction, unbiased), keepdim))


@entry("var_mean")
def var_mean(self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    return var(self, dim, correction, keepdim), c.mean(self, dim, keepdim)


@entry("std_mean")
def std_mean(self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False) -> Any:
    return std(self, dim, correction, keepdim), c.mean(self, dim, keepdim)


@entry("cumsum")
def cumsum(self: Any, dim: int) -> Any:
    return c.each(lambda x: sums.cumulated(to_real(x), dim, balls.total), self)


@entry("_softmax", "_safe_softmax")
def softmax(self: Any, dim: int, half_to_float: bool = False) -> Any:
    powers = f.exp(self)
    return e.div(powers, sums.sum_(powers, dim, True))


@entry("_log_softmax")
def log_softmax(self: Any, dim: int, half_to_float: bool = False) -> Any:
    return e.sub(self, f.log(sums.sum_(f.exp(self), dim, True)))


@entry("logsumexp")
def logsumexp(self: Any, dim: Any, keepdim: bool = False) -> Any:
    return f.log(sums.sum_(f.exp(to_real(self)), dim, keepdim))
