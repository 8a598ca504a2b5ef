"""Losses of regression, and the reduction every loss ends with. The deprecated size_average and
reduce are not offered."""

from typing import Any

import numpy as np

from consistency.backends.numpy.dimensions import reduce_rows, row_mean
from consistency.backends.numpy.dtypes import Array, constant, unify
from consistency.backends.numpy.implementations import implements


def reduced(
    loss: Array, reduction: str, size_average: bool | None = None, reduce: bool | None = None
) -> Array:
    if size_average is not None or reduce is not None:
        raise NotImplementedError("the deprecated size_average and reduce")
    if reduction == "none":
        return loss
    if reduction == "batchmean":
        return ratio(total(loss), constant(loss.shape[0] if loss.ndim else 1, loss))
    if reduction not in ("mean", "sum"):
        raise ValueError(f"{reduction!r} is not a valid value for reduction")
    return (
        np.asarray(reduce_rows(loss, None, False, row_mean)) if reduction == "mean" else total(loss)
    )


def total(x: Array) -> Array:
    return np.asarray(reduce_rows(x, None, False, lambda rows: rows.sum(-1)))


def ratio(total: Array, weight: Any) -> Array:
    return np.asarray(np.true_divide(total, weight, dtype=total.dtype))


def _x_log_y(x: Array, log_y: Array) -> Array:
    """x · log y, where nothing times −∞ is nothing."""
    return np.where((x == 0) & (log_y == log_y), constant(0, x), x * log_y)


@implements("nn.functional.mse_loss", wide=True, integers=False)
def mse_loss(
    input: Array,
    target: Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Array | None = None,
) -> Array:
    if weight is not None:
        raise NotImplementedError("mse_loss with weights")
    x, y = unify(input, target)
    return reduced(np.square(x - y), reduction, size_average, reduce)


@implements("nn.functional.l1_loss", wide=True, integers=False)
def l1_loss(
    input: Array,
    target: Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Array | None = None,
) -> Array:
    if weight is not None:
        raise NotImplementedError("l1_loss with weights")
    x, y = unify(input, target)
    return reduced(np.abs(x - y), reduction, size_average, reduce)


@implements("nn.functional.smooth_l1_loss", wide=True, integers=False)
def smooth_l1_loss(
    input: Array,
    target: Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Array:
    distance = np.atleast_1d(np.abs(np.subtract(*unify(input, target))))
    width = constant(beta, distance)
    loss = np.where(distance < width, distance * distance / 2 / width, distance - width / 2)
    return reduced(
        loss.reshape(np.broadcast_shapes(input.shape, target.shape)),
        reduction,
        size_average,
        reduce,
    )


@implements("nn.functional.huber_loss", wide=True, integers=False, as_first=True)
def huber_loss(
    input: Array,
    target: Array,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Array | None = None,
) -> Array:
    if weight is not None:
        raise NotImplementedError("huber_loss with weights")
    distance = np.atleast_1d(np.abs(np.subtract(*unify(input, target))))
    width = constant(delta, distance)
    loss = np.where(distance < width, distance * distance / 2, width * (distance - width / 2))
    return reduced(loss.reshape(np.broadcast_shapes(input.shape, target.shape)), reduction)


@implements("nn.functional.kl_div", wide=True, integers=False)
def kl_div(
    input: Array,
    target: Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Array:
    """t · (log t − x), where x is a logarithm, and t too if log_target."""
    log_t = target if log_target else np.log(target)
    t = np.exp(target) if log_target else target
    loss = t * (log_t - input) if log_target else _x_log_y(t, log_t) - t * input
    if reduction == "batchmean":  # of the input, which may be broadcast
        return ratio(
            reduced(loss, "sum", size_average, reduce),
            constant(input.shape[0] if input.ndim else 1, loss),
        )
    return reduced(loss, reduction, size_average, reduce)


@implements("nn.functional.poisson_nll_loss", wide=True, integers=False)
def poisson_nll_loss(
    input: Array,
    target: Array,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Array:
    x, t = unify(input, target)
    loss = np.exp(x) - t * x if log_input else x - t * np.log(x + constant(eps, x))
    if full:  # Stirling's approximation of log t!
        two_pi = constant("6.28318530717958647692528676655900576839", t)
        stirling = t * np.log(t) - t + np.log(two_pi * t) / constant(2, t)
        loss = loss + np.where(t > 1, stirling, constant(0, t))
    return reduced(loss, reduction, size_average, reduce)


@implements("nn.functional.gaussian_nll_loss", wide=True, integers=False, one_dtype=True)
def gaussian_nll_loss(
    input: Array,
    target: Array,
    var: Array | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Array:
    variance = np.asarray(var).astype(input.dtype)
    if variance.ndim and variance.shape == input.shape[:-1]:
        variance = variance[..., None]
    least = constant(eps, input)
    variance = np.where(variance < least, least, variance)  # 0 stays 0 where the least is -0
    half = constant(0.5, input)
    loss = half * (np.log(variance) + np.square(input - target) / variance)
    if full:
        loss = loss + constant("0.918938533204672741780329736405617639861", input)  # ½ log 2π
    return reduced(loss, reduction)
