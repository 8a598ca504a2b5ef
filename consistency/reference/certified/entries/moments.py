"""Variances and standard deviations."""

from __future__ import annotations

import math
from typing import Any

from .. import complex_numbers as c
from .. import elementwise as e
from .. import functions as f
from .. import sums
from ..elementwise import Function
from ..nodes import Node
from . import entry


def variance(x: Any, dim: Any, correction: Any, keepdim: bool) -> Node:
    """Σ|x − mean|² ÷ max(n − correction, 0)."""
    dims = sums.dims_of(dim, x.ndim)
    count = math.prod(x.shape[d] for d in dims)
    deviation = c.sub(x, c.mean(x, dims, True)) if x.ndim else c.sub(x, x)
    return e.div(
        sums.sum_(c.square_modulus(deviation), dims, keepdim),
        max(float(count) - float(correction), 0.0),
    )


# A deviation of 0 has the gradient 0, as in torch.
_root = Function(
    "deviation", f.sqrt.of, (lambda x, y: e.where(e.equal(y, 0.0), 0.0, e.div(0.5, y)),)
)


def _correction(correction: Any, unbiased: Any) -> Any:
    return (1 if unbiased is None or unbiased else 0) if correction is None else correction


@entry("var")
def var(
    self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False, unbiased: Any = None
) -> Any:
    return variance(self, dim, _correction(correction, unbiased), keepdim)


@entry("std")
def std(
    self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False, unbiased: Any = None
) -> Any:
    return _root(variance(self, dim, _correction(correction, unbiased), keepdim))


@entry("var_mean")
def var_mean(
    self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False, unbiased: Any = None
) -> Any:
    return var(self, dim, correction, keepdim, unbiased), c.mean(self, dim, keepdim)


@entry("std_mean")
def std_mean(
    self: Any, dim: Any = None, correction: Any = None, keepdim: bool = False, unbiased: Any = None
) -> Any:
    return std(self, dim, correction, keepdim, unbiased), c.mean(self, dim, keepdim)
