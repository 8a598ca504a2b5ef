"""Norms and distances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from .. import complex_numbers as c
from .. import elementwise as e
from .. import norms, sums
from ..balls import Unsure
from ..elementwise import to_real
from ..movement import broadcast, gather, unsqueeze
from ..python_functions import whole
from . import entry


@entry("linalg_vector_norm")
def vector_norm(self: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    if not isinstance(ord, (int, float)):
        raise Unsure("a norm of a complex order")
    return norms.vector_norm(self, ord, dim, keepdim)


@entry("norm")
def norm(self: Any, p: Any = 2, dim: Any = None, keepdim: bool = False) -> Any:
    return vector_norm(self, 2 if p is None else p, dim, keepdim)


@entry("dist")
def dist(self: Any, other: Any, p: Any = 2) -> Any:
    return vector_norm(c.sub(self, other), p)


# max(x, bound): at the bound itself the gradient is that of x.
_at_least = e.Function(
    "at least", e.maximum.of, (lambda a, b, y: e.where(e.less(a, b), 0.0, 1.0), None)
)


@whole(torch.cosine_similarity)
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """Σ x·y ÷ (max(‖x‖, eps)·max(‖y‖, eps)); traced as a whole, because torch takes the maxima
    outside autograd."""
    a, b = broadcast(to_real(x1), to_real(x2))
    lengths = (_at_least(norms.vector_norm(x, 2, dim), eps) for x in (a, b))
    return e.div(sums.sum_(e.mul(a, b), dim), e.mul(*lengths))


def _distance(difference: Any, p: float) -> Any:
    """The distance along the last dimension. For the maximum norm, torch does not document which of
    several equal differences gets the gradient."""
    if math.isinf(p):
        return norms.farthest(difference, -1)
    return norms.vector_norm(difference, p, -1)


@entry("_cdist_forward")
def cdist(x1: Any, x2: Any, p: float, compute_mode: Any = None) -> Any:
    return _distance(c.sub(unsqueeze(x1, -2), unsqueeze(x2, -3)), p)


@entry("_euclidean_dist")
def euclidean(x1: Any, x2: Any) -> Any:
    return cdist(x1, x2, 2.0)


@entry("_pdist_forward")
def pdist(self: Any, p: float = 2) -> Any:
    """The distances of all pairs of rows i < j, in the order of (i, j)."""
    count, width = self.shape
    first, second = np.triu_indices(count, 1)
    a, b = (
        gather(self, rows[:, None] * width + np.arange(width), (rows.size, width))
        for rows in (first, second)
    )
    return _distance(c.sub(a, b), p)
