"""Classification losses. Class indices must be decided first, so that targets are read as NumPy
arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import sums
from .balls import Unsure
from .elementwise import add, div, mul, neg, node_of, sub
from .functions import exp, log
from .losses import MEAN, NONE, hinge_power, reduced
from .movement import Labels, cat, expand, gather, reshape
from .nodes import Constant, Node, whole_numbers


def log_softmax(x: Node, dim: int) -> Node:
    return sub(x, log(sums.sum_(exp(x), dim, True)))


def class_dim(x: Node) -> int:
    return 1 if x.ndim > 1 else 0


def _broadcast_weight(weight: Node, x: Node) -> Node:
    dim = class_dim(x)
    return expand(reshape(weight, [weight.size if d == dim else 1 for d in range(x.ndim)]), x.shape)


def _classes_and_mask(target: Node, ignored: int) -> tuple[Labels, Labels]:
    """Class indices, 0 where ignored, and the mask of those that are not ignored."""
    classes = whole_numbers(target).astype(np.int64)
    counted = classes != ignored
    return np.where(counted, classes, 0), counted


def _target_positions(x: Node, classes: Labels) -> Labels:
    """The flat position in x of each target's class."""
    dim = class_dim(x)
    positions = np.arange(x.size).reshape(x.shape)
    result: Labels = np.take_along_axis(
        positions, np.expand_dims(classes.reshape([*x.shape[:dim], *x.shape[dim + 1 :]]), dim), dim
    )
    return result.reshape(classes.shape)


def _weights(weight: Node | None, classes: Labels, counted: Labels) -> Node:
    """The class weight of each target, 0 where it is ignored."""
    if weight is None:
        return Constant(counted.astype(np.float64))
    return gather(weight, np.where(counted, classes, -1), classes.shape)


def likelihood(
    x: Node, target: Node, weight: Node | None, reduction: int, ignored: int
) -> tuple[Node, Node]:
    """The negative log-likelihood −w[t]·x[t], summed or divided by Σ w[t]; and that sum (0 without
    a reduction)."""
    classes, counted = _classes_and_mask(target, ignored)
    factors = _weights(weight, classes, counted)
    terms = neg(gather(x, np.where(counted, _target_positions(x, classes), -1), classes.shape))
    if weight is not None:
        terms = mul(terms, factors)
    if reduction == NONE:
        return terms, node_of(0.0)
    total = sums.sum_(factors)
    return (div(sums.sum_(terms), total) if reduction == MEAN else sums.sum_(terms)), total


def cross_entropy(
    x: Node, target: Node, weight: Node | None, reduction: int, ignored: int, smoothing: float
) -> Node:
    """Cross-entropy; smoothed target probabilities are (1 − smoothing)·p + smoothing/classes."""
    dim = class_dim(x)
    logs, count = log_softmax(x, dim), x.shape[dim]
    if target.kind == "real":
        return _soft_target_loss(logs, target, weight, reduction, smoothing)
    unsmoothed, total = likelihood(logs, target, weight, reduction, ignored)
    if not smoothing:
        return unsmoothed
    counted = _classes_and_mask(target, ignored)[1]
    uniform = neg(
        sums.sum_(logs if weight is None else mul(logs, _broadcast_weight(weight, x)), dim)
    )
    flat = gather(
        reshape(uniform, (uniform.size,)),
        np.where(counted, np.arange(counted.size).reshape(counted.shape), -1),
        counted.shape,
    )
    spread = flat if reduction == NONE else sums.sum_(flat)
    if reduction == MEAN:
        spread = div(spread, total)
    return add(
        mul(sub(1.0, node_of(smoothing)), unsmoothed), mul(spread, div(node_of(smoothing), count))
    )


def _soft_target_loss(
    logs: Node, target: Node, weight: Node | None, reduction: int, smoothing: float
) -> Node:
    """For targets given as probabilities; the mean divides by their number, whatever the
    weights."""
    dim = class_dim(logs)
    if smoothing:
        target = add(
            mul(target, sub(1.0, node_of(smoothing))), div(node_of(smoothing), logs.shape[dim])
        )
    terms = mul(logs, target)
    losses = neg(
        sums.sum_(terms if weight is None else mul(terms, _broadcast_weight(weight, logs)), dim)
    )
    return reduced(losses, reduction)


def _target_and_other_scores(x: Node, classes: Labels) -> tuple[Node, Node, Labels]:
    """For each row of x, the target class's score repeated, the scores of all other classes, and
    their labels."""
    rows, count = x.shape
    labels = np.arange(rows * count).reshape(rows, count)
    others = np.array(
        [np.delete(row, c) for row, c in zip(labels, classes.tolist(), strict=True)], dtype=np.int64
    )
    others = others.reshape(rows, max(count - 1, 0))
    target_labels = np.broadcast_to((np.arange(rows) * count + classes)[:, None], others.shape)
    return (
        gather(x, np.ascontiguousarray(target_labels), others.shape),
        gather(x, others, others.shape),
        others,
    )


def multi_margin(
    x: Node, target: Node, p: Any, margin: Any, weight: Node | None, reduction: int
) -> Node:
    """Σ over the other classes of max(0, margin − x[t] + x[j])ᵖ, times w[t], over the number of
    classes."""
    if p not in (1, 2):
        raise Unsure(f"multi_margin_loss with p = {p}")
    is_vector = x.ndim < 2
    matrix = reshape(x, (1, x.size)) if is_vector else x
    classes = whole_numbers(target).astype(np.int64).reshape(-1)
    target_scores, other_scores, _ = _target_and_other_scores(matrix, classes)
    terms = hinge_power(add(sub(node_of(margin), target_scores), other_scores), p)
    if weight is not None:
        terms = mul(
            terms,
            expand(reshape(gather(weight, classes, classes.shape), (classes.size, 1)), terms.shape),
        )
    losses = div(sums.sum_(terms, 1), matrix.shape[1])
    return reduced(reshape(losses, () if is_vector else (classes.size,)), reduction)


def multilabel_margin(x: Node, target: Node, reduction: int) -> tuple[Node, Node]:
    """Σ over targets t, read up to the first −1, and over all others j of max(0, 1 − x[t] + x[j]),
    over the number of classes."""
    is_vector = x.ndim < 2
    count = x.shape[-1]
    matrix = reshape(x, (x.size // count, count))
    targets = whole_numbers(target).astype(np.int64).reshape(matrix.shape)
    valid = np.cumprod(targets >= 0, axis=1).astype(bool)
    chosen = np.zeros(matrix.shape, dtype=bool)
    for row, (labels, row_valid) in enumerate(zip(targets, valid, strict=True)):
        chosen[row, labels[row_valid]] = True
    losses = [
        _margins(matrix, row, targets[row][valid[row]], np.flatnonzero(~chosen[row]))
        for row in range(matrix.shape[0])
    ]
    row_losses = cat([reshape(loss, (1,)) for loss in losses], 0)
    summed = reshape(row_losses, () if is_vector else (matrix.shape[0],))
    return reduced(div(summed, count), reduction), Constant(
        chosen.astype(np.float64).reshape(target.shape)
    )


def _margins(matrix: Node, row: int, labels: Labels, other_labels: Labels) -> Node:
    shape, begin = (labels.size, other_labels.size), row * matrix.shape[1]
    target_scores = gather(
        matrix, np.ascontiguousarray(np.broadcast_to(begin + labels[:, None], shape)), shape
    )
    other_scores = gather(
        matrix, np.ascontiguousarray(np.broadcast_to(begin + other_labels[None], shape)), shape
    )
    return sums.sum_(hinge_power(add(sub(1.0, target_scores), other_scores), 1))
