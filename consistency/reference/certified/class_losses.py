"""Losses over classes. Which class is meant must be decided before anything is computed: targets
are read as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import sums
from .balls import Unsure
from .elementwise import add, div, mul, neg, node_of, sub
from .functions import exp, log
from .losses import MEAN, NONE, hinge_power, reduced
from .movement import Labels, expand, gather, reshape
from .nodes import Constant, Node, whole_numbers


def log_softmax(x: Node, dim: int) -> Node:
    return sub(x, log(sums.sum_(exp(x), dim, True)))


def class_dim(x: Node) -> int:
    return 1 if x.ndim > 1 else 0


def _by_class(weight: Node, x: Node) -> Node:
    dim = class_dim(x)
    return expand(reshape(weight, [weight.size if d == dim else 1 for d in range(x.ndim)]), x.shape)


def _chosen(target: Node, ignored: int) -> tuple[Labels, Labels]:
    """Classes, 0 where they are ignored, and where they are not."""
    classes = whole_numbers(target).astype(np.int64)
    kept = classes != ignored
    return np.where(kept, classes, 0), kept


def _places(x: Node, classes: Labels) -> Labels:
    """Flat positions in x of every target's class."""
    dim = class_dim(x)
    positions = np.arange(x.size).reshape(x.shape)
    found: Labels = np.take_along_axis(
        positions, np.expand_dims(classes.reshape([*x.shape[:dim], *x.shape[dim + 1 :]]), dim), dim
    )
    return found.reshape(classes.shape)


def _weights(weight: Node | None, classes: Labels, kept: Labels) -> Node:
    """Of every target its class's weight, 0 where it is ignored."""
    if weight is None:
        return Constant(kept.astype(np.float64))
    return gather(weight, np.where(kept, classes, -1), classes.shape)


def likelihood(
    x: Node, target: Node, weight: Node | None, reduction: int, ignored: int
) -> tuple[Node, Node]:
    """−w[t]·x[t], summed or divided by Σ w[t]; and that Σ, which is 0 where nothing is reduced."""
    classes, kept = _chosen(target, ignored)
    factors = _weights(weight, classes, kept)
    terms = neg(gather(x, np.where(kept, _places(x, classes), -1), classes.shape))
    if weight is not None:
        terms = mul(terms, factors)
    if reduction == NONE:
        return terms, node_of(0.0)
    total = sums.sum_(factors)
    return (div(sums.sum_(terms), total) if reduction == MEAN else sums.sum_(terms)), total


def cross_entropy(
    x: Node, target: Node, weight: Node | None, reduction: int, ignored: int, smoothing: float
) -> Node:
    """Of the log-softmax; the targets' shares are (1 − smoothing)·share + smoothing/classes."""
    dim = class_dim(x)
    logs, count = log_softmax(x, dim), x.shape[dim]
    if target.kind == "real":
        return _of_shares(logs, target, weight, reduction, smoothing)
    plain, total = likelihood(logs, target, weight, reduction, ignored)
    if not smoothing:
        return plain
    kept = _chosen(target, ignored)[1]
    every = neg(sums.sum_(logs if weight is None else mul(logs, _by_class(weight, x)), dim))
    flat = gather(
        reshape(every, (every.size,)),
        np.where(kept, np.arange(kept.size).reshape(kept.shape), -1),
        kept.shape,
    )
    spread = flat if reduction == NONE else sums.sum_(flat)
    if reduction == MEAN:
        spread = div(spread, total)
    return add(
        mul(sub(1.0, node_of(smoothing)), plain), mul(spread, div(node_of(smoothing), count))
    )


def _of_shares(
    logs: Node, target: Node, weight: Node | None, reduction: int, smoothing: float
) -> Node:
    """Divided by the number of targets, whatever the weights."""
    dim = class_dim(logs)
    if smoothing:
        target = add(
            mul(target, sub(1.0, node_of(smoothing))), div(node_of(smoothing), logs.shape[dim])
        )
    terms = mul(logs, target)
    each = neg(sums.sum_(terms if weight is None else mul(terms, _by_class(weight, logs)), dim))
    return reduced(each, reduction)


def _others(x: Node, classes: Labels) -> tuple[Node, Node, Labels]:
    """Of rows of x the chosen class's score beside each other one's, and whose row it is."""
    rows, count = x.shape
    labels = np.arange(rows * count).reshape(rows, count)
    others = np.array(
        [np.delete(row, c) for row, c in zip(labels, classes.tolist(), strict=True)], dtype=np.int64
    )
    others = others.reshape(rows, max(count - 1, 0))
    mine = np.broadcast_to((np.arange(rows) * count + classes)[:, None], others.shape)
    return (
        gather(x, np.ascontiguousarray(mine), others.shape),
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
    lone = x.ndim < 2
    matrix = reshape(x, (1, x.size)) if lone else x
    classes = whole_numbers(target).astype(np.int64).reshape(-1)
    mine, other, _ = _others(matrix, classes)
    terms = hinge_power(add(sub(node_of(margin), mine), other), p)
    if weight is not None:
        terms = mul(
            terms,
            expand(reshape(gather(weight, classes, classes.shape), (classes.size, 1)), terms.shape),
        )
    each = div(sums.sum_(terms, 1), matrix.shape[1])
    return reduced(reshape(each, () if lone else (classes.size,)), reduction)


def multilabel_margin(x: Node, target: Node, reduction: int) -> tuple[Node, Node]:
    """Σ over targets t, read up to the first −1, and over all others j of max(0, 1 − x[t] + x[j]),
    over the number of classes."""
    lone = x.ndim < 2
    count = x.shape[-1]
    matrix = reshape(x, (x.size // count, count))
    targets = whole_numbers(target).astype(np.int64).reshape(matrix.shape)
    read = np.cumprod(targets >= 0, axis=1).astype(bool)
    chosen = np.zeros(matrix.shape, dtype=bool)
    for row, (labels, valid) in enumerate(zip(targets, read, strict=True)):
        chosen[row, labels[valid]] = True
    each = [
        _margins(matrix, row, targets[row][read[row]], np.flatnonzero(~chosen[row]))
        for row in range(matrix.shape[0])
    ]
    summed = reshape(_joined(each), () if lone else (matrix.shape[0],))
    return reduced(div(summed, count), reduction), Constant(
        chosen.astype(np.float64).reshape(target.shape)
    )


def _margins(matrix: Node, row: int, labels: Labels, others: Labels) -> Node:
    shape, begin = (labels.size, others.size), row * matrix.shape[1]
    mine = gather(
        matrix, np.ascontiguousarray(np.broadcast_to(begin + labels[:, None], shape)), shape
    )
    other = gather(
        matrix, np.ascontiguousarray(np.broadcast_to(begin + others[None], shape)), shape
    )
    return sums.sum_(hinge_power(add(sub(1.0, mine), other), 1))


def _joined(nodes: list[Node]) -> Node:
    from .movement import cat

    return cat([reshape(node, (1,)) for node in nodes], 0)
