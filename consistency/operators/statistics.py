"""Covariances of the rows of a matrix."""

from __future__ import annotations

from typing import Any

import torch

from . import documented
from .declare import ADDED, FLOAT, SQUARED, Call, Drawing, Operator, accumulated, call
from .hooks import Tensors, hook
from .magnitudes import finite
from .parameter_sampling import PLAIN, optional_arguments

# Of float32: where all observations are equal, what is left is the product of two roundings.
ROUNDOFF = 2.0**-24


def variables(d: Drawing) -> Call:
    """Each row is a variable, each column an observation; or one variable as a vector, or a single
    number. Now and then observations count several times, or have weights, or there is one only.
    Shrinks towards two plain rows."""
    rows, columns = d.size(2, 17), 1 if d.integer(0, 15) == 15 else d.size(2, 257)
    shape = d.choice(*[(rows, columns)] * 6, (columns,), ())
    options = optional_arguments(d, correction=(0, 2) if columns > 2 else (0,))
    if len(shape) and d.integer(0, 3) == 3:
        options["fweights"] = d.tensor(
            (shape[-1],), PLAIN, dtype="int64", values=("integers", 1, 4), layout=False
        )
    if len(shape) and d.integer(0, 3) == 3:
        options["aweights"] = d.tensor((shape[-1],), PLAIN, values=("integers", 1, 5))
    return call(d.tensor(shape, d.choice(ADDED, ADDED, SQUARED)), **options)


def of_products(x: torch.Tensor, weights: torch.Tensor, divisor: torch.Tensor) -> torch.Tensor:
    """Σ w·|dᵢ|·|dⱼ| for the distances d from the mean, and what the rounding of x and of the mean
    makes of either factor, ÷ the sum of the weights less the correction."""
    mean = (x * weights).sum(-1, keepdim=True) / weights.sum()
    apart = (x - mean).abs()
    rounded = x.abs() + (x.abs() * weights).sum(-1, keepdim=True) / weights.sum()
    products = (apart * weights) @ (apart + rounded).T
    rest = (rounded * weights) @ (apart + ROUNDOFF * rounded).T
    return (products + rest) / divisor


@hook
def of_covariances(outputs: Tensors, x: torch.Tensor, **options: Any) -> torch.Tensor:
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    size = of_products(rows, *documented.observations(rows, **options))
    return finite(size).reshape(outputs[0].shape)


@hook
def of_slopes(gradients: Tensors, x: torch.Tensor, **options: Any) -> torch.Tensor:
    """Of cᵢⱼ by xᵢₖ: w·dⱼ ÷ the sum of the weights less the correction, for each j and from either
    side, with cotangents of at most 1; and as much of the mean."""
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    weights, divisor = documented.observations(rows, **options)
    mean = (rows * weights).sum(-1, keepdim=True) / weights.sum()
    size = 2.0 * ((rows - mean).abs() + rows.abs() + mean.abs()).sum(0) * weights / divisor
    return finite((size + size.mean()).expand(rows.shape)).reshape(gradients[0].shape)


@hook
def columns(outputs: Tensors, x: torch.Tensor, *_: Any, **__: Any) -> float:
    return float(x.shape[-1]) if x.ndim else 1.0


OPERATORS = [
    Operator(
        name="cov",
        family="reduction",
        sample=variables,
        dtypes=FLOAT,
        error=accumulated(of_covariances, columns, backward=of_slopes),
        differentiable_inputs=(0,),
        reference=documented.cov,
    )
]
