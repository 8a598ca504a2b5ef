"""Covariances and correlations of the rows of a matrix."""

from __future__ import annotations

from typing import Any

import torch

from . import documented
from .declare import ADDED, FLOAT, SQUARED, SUMMED, Call, Drawing, Operator, accumulated, call
from .hooks import Args, Kwargs, Tensors, hook
from .magnitudes import finite
from .parameter_sampling import PLAIN, optional_arguments

# Of float32: where all observations are equal, what is left is the product of two roundings.
ROUNDOFF = 2.0**-24
CONSTANT = 2.0**-18  # variance ÷ S, below which half of the digits of a correlation are lost


def variables(d: Drawing) -> Call:
    """Each row is a variable, each column an observation; or one variable as a vector, or a single
    number. Now and then observations count several times, or have weights, or there is one only.
    Shrinks towards two plain rows."""
    rows, columns = d.size(2, 17), 1 if d.integer(0, 31) == 31 else d.size(2, 257)
    shape = d.choice(*[(rows, columns)] * 18, *[(columns,)] * 5, ())
    options = optional_arguments(d, correction=(0, 2) if columns > 2 else (0,))
    if len(shape) and d.integer(0, 3) == 3:
        options["fweights"] = d.tensor(
            (shape[-1],), PLAIN, dtype="int64", values=("integers", 1, 4), layout=False
        )
    if len(shape) and d.integer(0, 3) == 3:
        options["aweights"] = d.tensor((shape[-1],), PLAIN, values=("integers", 1, 5))
    return call(d.tensor(shape, d.choice(ADDED, ADDED, SQUARED)), **options)


def correlated(d: Drawing) -> Call:
    """The same without options, of several observations. Shrinks towards two rows."""
    rows, columns = d.size(2, 17), d.size(3, 257)
    return call(d.tensor(d.choice((rows, columns), (rows, columns), (columns,)), SUMMED))


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


def of_deviations(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Covariances; products of two standard deviations; S of a covariance ÷ its own variances, to
    which an error of a correlation is relative."""
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    weights, divisor = documented.observations(rows)
    sums = of_products(rows, weights, divisor)
    covariances = torch.cov(rows).reshape(sums.shape)
    variances = covariances.diagonal()
    relative = sums.diagonal() / variances
    return covariances, (variances[:, None] * variances).sqrt(), relative, sums


def _are_constant(x: torch.Tensor) -> torch.Tensor:
    """Of which rows the variance is as large as its rounding: their correlations are 0 ÷ 0, or
    anything where the mean is rounded."""
    covariances, _, _, sums = of_deviations(x)
    return ~(covariances.diagonal() > CONSTANT * sums.diagonal())


def of_varied_rows(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    constant = _are_constant(args[0])
    pairs = constant[:, None] | constant
    if outputs[0].numel() != pairs.numel():
        return outputs  # of a faulty backend
    return (outputs[0].masked_fill(pairs.reshape(outputs[0].shape), 0.0),)


def gradients_of_varied_rows(args: Args, kwargs: Kwargs, gradients: Tensors) -> Tensors:
    """None where one row is constant: its correlations are those of the others, too."""
    vanish = bool(_are_constant(args[0]).any())
    return tuple(torch.zeros_like(g) if vanish else g for g in gradients)


@hook
def of_correlations(outputs: Tensors, x: torch.Tensor, **_: Any) -> torch.Tensor:
    """cᵢⱼ ÷ (σᵢ·σⱼ): S of the covariance ÷ both deviations, and of either variance by half."""
    covariances, deviations, relative, sums = of_deviations(x)
    size = sums + 0.5 * covariances.abs() * (relative[:, None] + relative + 2.0)
    return finite(size / deviations).reshape(outputs[0].shape)


@hook
def of_correlated_slopes(gradients: Tensors, x: torch.Tensor, **_: Any) -> torch.Tensor:
    """Of rᵢⱼ by xᵢₖ: (dⱼₖ ÷ (σᵢ·σⱼ) − rᵢⱼ·dᵢₖ ÷ cᵢᵢ) ÷ (n − 1), for each j and from either side,
    with cotangents of at most 1; each as exact as the variances are; and as much of the mean."""
    rows = x.reshape(1, -1) if x.ndim < 2 else x
    covariances, deviations, relative = of_deviations(x)[:3]
    means = rows.mean(-1, keepdim=True).abs()
    apart = (rows - rows.mean(-1, keepdim=True)).abs() + rows.abs() + means
    loss = 1.0 + relative[:, None] + relative
    own = (covariances.abs() / deviations * loss).sum(1) / covariances.diagonal()
    size = 2.0 * ((loss / deviations) @ apart + own[:, None] * apart) / (rows.shape[-1] - 1)
    return finite(size + size.mean(-1, keepdim=True)).reshape(gradients[0].shape)


OPERATORS = [
    Operator(
        name="cov",
        family="reduction",
        sample=variables,
        dtypes=FLOAT,
        error=accumulated(of_covariances, columns, backward=of_slopes),
        traits=frozenset({"constant"}),  # equal observations have no covariance
        differentiable_inputs=(0,),
        reference=documented.cov,
    ),
    Operator(
        name="corrcoef",
        family="reduction",
        sample=correlated,
        dtypes=FLOAT,
        error=accumulated(of_correlations, columns, backward=of_correlated_slopes),
        reference=documented.corrcoef,
        observe=of_varied_rows,
        observe_gradients=gradients_of_varied_rows,
    ),
]
