"""Losses of classification. See `_losses` for the reduction, which they share."""

import numpy as np

from consistency.backends.numpy.activations import softplus_of
from consistency.backends.numpy.dimensions import reduce_rows, row_mean
from consistency.backends.numpy.dtypes import Array, constant
from consistency.backends.numpy.implementations import implements
from consistency.backends.numpy.losses import ratio, reduced, total
from consistency.backends.numpy.normalization import log_softmax


def _class_last(x: Array) -> Array:
    """(C,) or (N, C, …) to (…, C)."""
    return x if x.ndim == 1 else np.moveaxis(x, 1, -1)


def _picked(
    log_probability: Array, target: Array, weight: Array | None, ignore_index: int
) -> tuple[Array, Array]:
    """The weighted loss −w[t] · x[t] of every target and its weight, both 0 where the target is to
    be ignored."""
    counted = target != ignore_index
    chosen = np.where(counted, target, 0)
    if np.any((chosen < 0) | (chosen >= log_probability.shape[-1])):
        raise IndexError("a target is not the index of a class")
    kind = log_probability.dtype
    weights = np.where(
        counted, np.ones(chosen.shape, kind) if weight is None else weight[chosen], kind.type(0)
    )
    values = np.take_along_axis(log_probability, chosen[..., None], -1)[..., 0]
    return np.where(counted, -weights * values, kind.type(0)), weights


@implements("nn.functional.nll_loss", wide=True, integers=False)
def nll_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Array:
    loss, weights = _picked(_class_last(input), target, weight, ignore_index)
    if reduction == "mean":
        return ratio(reduced(loss, "sum", size_average, reduce), total(weights))
    return reduced(loss, reduction, size_average, reduce)


@implements("nn.functional.cross_entropy", wide=True, integers=False)
def cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """Targets are indices of classes or, if floating and shaped like the input, their
    probabilities."""
    scores = log_softmax(_class_last(input), -1)
    smooth = constant(label_smoothing, input)
    rest = constant(1, input) - smooth  # of whole numbers and float16, NumPy 1 makes float64
    classes = constant(scores.shape[-1], input)
    weighted = scores if weight is None else scores * weight
    if target.dtype.kind == "f" and target.shape == input.shape:
        target_probabilities = _class_last(target) * rest + smooth / classes
        loss = -np.asarray(
            reduce_rows(target_probabilities * weighted, -1, False, lambda rows: rows.sum(-1))
        )
        return reduced(loss, reduction, size_average, reduce)
    loss, weights = _picked(scores, target, weight, ignore_index)
    if label_smoothing:
        uniform_loss = -np.asarray(reduce_rows(weighted, -1, False, lambda rows: rows.sum(-1)))
        uniform_loss = np.where(target == ignore_index, constant(0, input), uniform_loss)
        if reduction == "mean" and total(weights) == 0:
            return constant(np.nan, input)  # the mean without smoothing is 0 ÷ 0
        loss = rest * loss + smooth / classes * uniform_loss
    if reduction == "mean":
        return ratio(reduced(loss, "sum", size_average, reduce), total(weights))
    return reduced(loss, reduction, size_average, reduce)


@implements("nn.functional.binary_cross_entropy", wide=True, integers=False, one_dtype=True)
def binary_cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Array:
    """The logarithms are cut off at −100, as PyTorch documents."""
    if np.any((input < 0) | (input > 1)):
        raise ValueError("all elements of input should be between 0 and 1")
    floor = constant(-100, input)
    no, yes = np.maximum(np.log1p(-input), floor), np.maximum(np.log(input), floor)
    loss = (target - constant(1, input)) * no - target * yes
    return reduced(loss if weight is None else loss * weight, reduction, size_average, reduce)


@implements(
    "nn.functional.binary_cross_entropy_with_logits", wide=True, integers=False, one_dtype=True
)
def binary_cross_entropy_with_logits(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Array | None = None,
) -> Array:
    one = constant(1, input)
    cost = softplus_of(-input)
    if pos_weight is not None:
        cost = ((pos_weight - one) * target + one) * cost
    loss = (one - target) * input + cost
    return reduced(loss if weight is None else loss * weight, reduction, size_average, reduce)


@implements("nn.functional.multi_margin_loss", wide=True, integers=False)
def multi_margin_loss(
    input: Array,
    target: Array,
    p: int = 1,
    margin: float = 1.0,
    weight: Array | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Array:
    rows, chosen = np.atleast_2d(input), np.atleast_1d(target)[:, None]
    excess = np.maximum(
        constant(margin, rows) - np.take_along_axis(rows, chosen, -1) + rows, constant(0, rows)
    )
    cost = excess if p == 1 else excess * excess
    if weight is not None:
        cost = cost * weight[chosen]
    np.put_along_axis(cost, chosen, 0, -1)
    loss = cost.sum(-1) / constant(cost.shape[-1], cost)
    return reduced(loss.reshape(target.shape), reduction, size_average, reduce)


@implements("nn.functional.multilabel_soft_margin_loss", wide=True, integers=False)
def multilabel_soft_margin_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Array:
    cost = target * softplus_of(-input) + (constant(1, input) - target) * softplus_of(input)
    if weight is not None:
        cost = cost * weight
    # The classes are the last dimension of the input, also where the target has more dimensions.
    if input.ndim == cost.ndim and input.shape[-1:] == cost.shape[-1:]:
        loss = np.asarray(reduce_rows(cost, -1, False, row_mean))
    else:
        loss = np.asarray(reduce_rows(cost, input.ndim - 1, False, lambda rows: rows.sum(-1)))
        loss = ratio(loss, constant(input.shape[-1], loss))
    return reduced(loss, reduction, size_average, reduce)
