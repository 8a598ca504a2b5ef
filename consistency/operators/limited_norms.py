"""``renorm``: slices whose norm is above a limit are scaled to it."""

from __future__ import annotations

import math
from typing import Any

import torch

from .declare import FLOATS, SQUARED, Call, Drawing, Operator, accumulated, call
from .hooks import Tensors, hook
from .magnitudes import finite

# What torch adds to a norm before it divides by it (``renorm_scale_factor_kernel``).
ADDED = 1e-7
ORDERS = (2.0, 1.0, math.inf, 3.0, 0.5, 4.0)
LIMITS = (1.0, 2.0**-10, 0.75, 100.0, 0.0)
# Slices whose norm is closer to the limit than this, relative to it, may be scaled or not: what
# either makes of them differs by less.
NEAR = 2.0**-6


def limited(d: Drawing) -> Call:
    """Of some tensors every slice is too long, of others some or none; a limit of 0 leaves zeros.
    Shrinks to the Euclidean norm and a limit of 1."""
    shape = d.shape(2, 4, elements=4096)
    return call(d.tensor(shape, SQUARED), d.choice(*ORDERS), d.dim(shape), d.choice(*LIMITS))


def lengths(x: torch.Tensor, p: float, dim: int) -> torch.Tensor:
    dims = [d for d in range(x.ndim) if d != dim % x.ndim]
    length: torch.Tensor = torch.linalg.vector_norm(x, float(p), dims, keepdim=True)
    return length


def steps(length: torch.Tensor, p: float) -> torch.Tensor:
    """A root other than the square root carries the rounding of its exponent, times the logarithm
    of what is under it, and one of p < 1 the p-th part of the sum's."""
    if p in (1.0, 2.0, math.inf):
        return torch.ones_like(length)
    return (2.0 + finite(length.log()).abs()) * max(1.0, 1.0 / p)


@hook
def of_scaled(outputs: Tensors, x: torch.Tensor, p: float, dim: int, maxnorm: float) -> Tensors:
    """|ref| of what is scaled, and of the memory around it where it is a view (in place), as
    precise as the norms."""
    length = lengths(x, p, dim)
    factor = steps(length, p)
    size = torch.where(length < maxnorm * (1.0 - NEAR), 0.0, outputs[0].abs() * factor)
    most = factor.amax() if factor.numel() else 1.0
    return size, *(memory.abs() * most for memory in outputs[1:])


@hook
def of_slopes(
    outputs: Tensors, x: torch.Tensor, p: float, dim: int, maxnorm: float
) -> torch.Tensor:
    """Of y = m·x/‖x‖ the gradient is m·(g − (g·y)·∂‖x‖)/‖x‖. No element of ∂‖x‖ is above 1, unless
    p is below 1: it is |y|ᵖ⁻¹ then. What is not scaled has the cotangent itself as gradient."""
    length = lengths(x, p, dim)
    y = (x / (length + ADDED)).abs()
    slope = y.pow(p - 1.0).clamp(min=1.0).where(y > 0.0, 1.0) if p < 1.0 else 1.0
    dims = [d for d in range(x.ndim) if d != dim % x.ndim]
    size = (1.0 + slope * y.sum(dims, keepdim=True)) * maxnorm / (length + ADDED)
    size = size * steps(length, p)
    return torch.where(length < maxnorm * (1.0 - NEAR), 0.0, size.expand(x.shape))


@hook
def of_slice(outputs: Tensors, x: torch.Tensor, p: float, dim: int, *_: Any) -> float:
    """n: the numbers of a slice."""
    return float(x.numel() / max(x.shape[dim], 1))


OPERATORS = [
    Operator(
        name="renorm",
        family="normalization",
        sample=limited,
        dtypes=FLOATS,
        error=accumulated(of_scaled, of_slice, backward=of_slopes, wide_accumulation=False),
        complex=True,
        inplace="renorm_",
        out=True,
    )
]
