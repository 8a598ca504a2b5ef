"""Attention, losses and distances, step by step."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..declare import Call, Domain, Drawing, call
from .declaration import APART, FREE, THROUGH_SUMS, OperatorFormula, Run, tensors


def attention_arguments(d: Drawing) -> Call:
    batch, width = d.shape(1, 2, most=4), d.size(1, 65)
    length, other = d.size(1, 33), d.size(1, 33)
    return call(*(d.tensor((*batch, n, width), FREE) for n in (length, other, other)))


def cross_entropy_arguments(d: Drawing) -> Call:
    rows, count = d.size(1, 33), d.size(2, 65)
    return call(d.tensor((rows, count), FREE), d.index((rows,), count))


def cdist_arguments(d: Drawing) -> Call:
    """Apart from each other: next to 0 a distance has no gradient."""
    width = d.size(1, 33)
    return call(
        d.tensor((d.size(1, 17), width), APART),
        d.tensor((d.size(1, 17), width), Domain(-4.0, -0.5)),
    )


def pairs_of_rows(d: Drawing) -> Call:
    shape = (d.size(1, 17), d.size(2, 65))
    return call(d.tensor(shape, APART), d.tensor(shape, Domain(-4.0, -0.5)))


def attention(call: Run, query: Any, key: Any, value: Any) -> Any:
    scores = call(
        "mul", call("matmul", query, key.transpose(-2, -1)), 1.0 / math.sqrt(query.shape[-1])
    )
    return call("matmul", call("softmax", scores, -1), value)


def cross_entropy(call: Run, x: Any, target: Any) -> Any:
    chosen = call("log_softmax", x, 1).gather(1, target.unsqueeze(1))
    return call("neg", call("mean", chosen))


def mse_loss(call: Run, x: Any, y: Any) -> Any:
    difference = call("sub", x, y)
    return call("mean", call("mul", difference, difference))


def l1_loss(call: Run, x: Any, y: Any) -> Any:
    return call("mean", call("abs", call("sub", x, y)))


def cosine_similarity(call: Run, x: Any, y: Any) -> Any:
    shape = np.broadcast_shapes(x.shape, y.shape)
    x, y = x.expand(shape), y.expand(shape)  # a number has the length of as many
    length = call(
        "sqrt", call("mul", call("sum", call("mul", x, x), -1), call("sum", call("mul", y, y), -1))
    )
    return call("div", call("sum", call("mul", x, y), -1), length)


def pairwise_distance(call: Run, x: Any, y: Any) -> Any:
    difference = call("add", call("sub", x, y), 1e-6)
    return call("sqrt", call("sum", call("mul", difference, difference), -1))


def cdist(call: Run, x: Any, y: Any) -> Any:
    difference = call("sub", x.unsqueeze(-2), y.unsqueeze(-3))
    return call("sqrt", call("sum", call("mul", difference, difference), -1))


FORMULAS = [
    OperatorFormula(
        "attention",
        "nn.functional.scaled_dot_product_attention",
        "softmax(q @ kᵀ / √d) @ v",
        attention,
        attention_arguments,
    ),
    OperatorFormula(
        "cross_entropy",
        "nn.functional.cross_entropy",
        "−mean(log_softmax at the target)",
        cross_entropy,
        cross_entropy_arguments,
        traits=THROUGH_SUMS,
    ),
    OperatorFormula(
        "mse_loss", "nn.functional.mse_loss", "mean((x − y)²)", mse_loss, tensors(FREE, FREE)
    ),
    OperatorFormula(
        "l1_loss", "nn.functional.l1_loss", "mean(|x − y|)", l1_loss, tensors(FREE, FREE)
    ),
    OperatorFormula(
        "cosine_similarity",
        "nn.functional.cosine_similarity",
        "x·y / √(x·x · y·y)",
        cosine_similarity,
        pairs_of_rows,
        traits=THROUGH_SUMS,
    ),
    OperatorFormula(
        "pairwise_distance",
        "nn.functional.pairwise_distance",
        "√sum((x − y + eps)²)",
        pairwise_distance,
        pairs_of_rows,
        traits=THROUGH_SUMS,
    ),
    OperatorFormula(
        "cdist", "cdist", "√sum((x − y)²)", cdist, cdist_arguments, traits=THROUGH_SUMS
    ),
]
