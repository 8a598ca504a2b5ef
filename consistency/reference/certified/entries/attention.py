"""Attention: softmax(query·keyᵀ·scale + mask)·value."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from .. import elementwise as e
from .. import exponentials, sums
from ..balls import Unsure
from ..elementwise import Number, to_real
from ..movement import expand, reshape, transpose, unsqueeze
from ..nodes import Constant, Node
from . import entry


def scaling(width: int, scale: float | None) -> Node:
    """1/√width, where no scale is given."""
    return Number(lambda: 1 / arb(width).sqrt()) if scale is None else e.node_of(float(scale))


def in_groups(x: Node, heads: int) -> Node:
    """Keys or values (batch, heads, length, width), repeated for every query head of their group."""
    batch, own, *rest = x.shape
    if own == heads:
        return x
    if heads % own:
        raise Unsure("query heads that no number of keys' heads divides")
    return reshape(expand(unsqueeze(x, 2), (batch, own, heads // own, *rest)), (batch, heads, *rest))


def attention(query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float | None) -> tuple[Node, Node]:
    """The result, and the logarithms of the sums of exponentials. Queries that see nothing have the result 0."""
    query, key, value = (to_real(t) for t in (query, key, value))
    if query.ndim == 4:
        key, value = (in_groups(t, query.shape[1]) for t in (key, value))
    scores = e.mul(sums.matmul(query, transpose(key, -2, -1)), scaling(query.shape[-1], scale))
    if is_causal:
        seen = np.tri(*scores.shape[-2:], dtype=np.bool_)
        scores = e.where(Constant(seen), scores, float("-inf"))
    if mask is not None:
        scores = e.where(mask, scores, float("-inf")) if mask.kind == "bool" else e.add(scores, mask)
    return sums.matmul(exponentials.safe_softmax(scores, -1), value), exponentials.logsumexp(scores, -1)


@entry("_scaled_dot_product_flash_attention_for_cpu")
def flash(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False, attn_mask: Any = None, scale: Any = None
) -> Any:  # fmt: skip
    if dropout_p:
        raise Unsure("dropout is random")
    return attention(query, key, value, attn_mask, is_causal, scale)
