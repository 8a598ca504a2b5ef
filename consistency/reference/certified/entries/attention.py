"""Attention: softmax(query·keyᵀ·scale + mask)·value."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from flint import arb
from torch.nn import functional as F

from .. import elementwise as e
from .. import exponentials, sums
from ..balls import Unsure
from ..elementwise import Scalar, to_real
from ..movement import expand, permute, reshape, row_major, transpose, unsqueeze, view
from ..nodes import Constant, Node
from ..python_functions import whole
from . import entry


def scaling(width: int, scale: float | None) -> Node:
    """1/√width if no scale is given."""
    return Scalar(lambda: 1 / arb(width).sqrt()) if scale is None else e.node_of(float(scale))


def in_groups(x: Node, heads: int) -> Node:
    """Keys or values (batch, heads, length, width), repeated for each query head of their group."""
    batch, own, *trailing = x.shape
    if own == heads:
        return x
    if heads % own:
        raise Unsure("query heads that no number of keys' heads divides")
    return reshape(
        expand(unsqueeze(x, 2), (batch, own, heads // own, *trailing)), (batch, heads, *trailing)
    )


def scores_of(
    query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float | None
) -> tuple[Node, Node]:
    """Scores, −∞ where masked, and the values for each head of the query."""
    query, key, value = (to_real(t) for t in (query, key, value))
    if query.ndim == 4:
        key, value = (in_groups(t, query.shape[1]) for t in (key, value))
    scores = e.mul(sums.matmul(query, transpose(key, -2, -1)), scaling(query.shape[-1], scale))
    if is_causal:
        visible = np.tri(*scores.shape[-2:], dtype=np.bool_)
        scores = _masked(scores, Constant(visible))
    if mask is not None:
        scores = _masked(scores, mask) if mask.kind == "bool" else e.add(scores, mask)
    return scores, value


def _masked(scores: Node, visible: Node) -> Node:
    """−∞ where nothing is visible; unknown where NaN is hidden, as a kernel may leave it out or add
    −∞ to it."""
    hidden = e.doubted(e.node_of(float("-inf")), e.is_nan(scores))
    return e.where(visible, scores, hidden)


def _shares(scores: Node) -> Node:
    """Attention weights. For fully masked queries they are 0 since torch 2.5, and 0/0 before."""
    return (exponentials.softmax if torch.__version__ < "2.5" else exponentials.safe_softmax)(
        scores, -1
    )


def attention(
    query: Any, key: Any, value: Any, mask: Any, is_causal: bool, scale: float | None
) -> Node:
    scores, value = scores_of(query, key, value, mask, is_causal, scale)
    return sums.matmul(_shares(scores), value)


@entry("_scaled_dot_product_flash_attention_for_cpu")
def flash(
    query: Any, key: Any, value: Any, dropout_p: float = 0.0, is_causal: bool = False,
    attn_mask: Any = None, scale: Any = None
) -> Any:  # fmt: skip
    if dropout_p:
        raise Unsure("dropout is random")
    scores, value = scores_of(query, key, value, attn_mask, is_causal, scale)
    return sums.matmul(_shares(scores), value), exponentials.logsumexp(scores, -1)


@whole(F.scaled_dot_product_attention)
def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None, enable_gqa: bool = False,
) -> Node:  # fmt: skip
    """Traced as a whole, because ATen receives a rounded √scale."""
    if dropout_p:
        raise Unsure("dropout is random")
    if enable_gqa and query.ndim != 4:
        raise Unsure("groups of heads in fewer or more than 4 dimensions")
    return attention(query, key, value, attn_mask, is_causal, scale)


def _projected(x: Node, weight: Node, bias: Any) -> Node:
    result = sums.matmul(x, transpose(weight, 0, 1))
    return result if bias is None else e.add(result, bias)


def _part(x: Any, number: int) -> Any:
    """One third of the packed projections."""
    if x is None:
        return None
    shape = (x.shape[0] // 3, *x.shape[1:])
    return view(x, shape, row_major(shape), number * math.prod(shape))


@whole(F.multi_head_attention_forward)
def multi_head_attention(
    query: Any, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Any,
    in_proj_bias: Any, bias_k: Any,
    bias_v: Any, add_zero_attn: bool, dropout_p: float, out_proj_weight: Any, out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None, k_proj_weight: Any = None, v_proj_weight: Any = None,
    static_k: Any = None, static_v: Any = None,
    average_attn_weights: bool = True, is_causal: bool = False,
) -> Any:  # fmt: skip
    """Multi-head attention with projections (Vaswani et al. 2017), sequence first; traced as a
    whole, because torch rounds 1/√width."""
    if (
        bias_k is not None
        or bias_v is not None
        or add_zero_attn
        or (is_causal and attn_mask is None)  # beside a mask it is a hint that tells of it
        or query.ndim != 3
        or (training and dropout_p)
    ):
        raise Unsure("a form of attention that has no formula here")
    weights = (
        [q_proj_weight, k_proj_weight, v_proj_weight]
        if use_separate_proj_weight
        else [_part(in_proj_weight, i) for i in range(3)]
    )
    tensors = zip((query, key, value), weights, range(3), strict=True)
    q, k, v = (
        _heads(_projected(to_real(x), to_real(w), _part(in_proj_bias, i)), num_heads)
        for x, w, i in tensors
    )
    k, v = (
        x
        if static is None
        else reshape(to_real(static), (q.shape[0], num_heads, *static.shape[1:]))
        for x, static in ((k, static_k), (v, static_v))
    )
    attn_mask, padding = _added(attn_mask), _added(key_padding_mask)
    if attn_mask is not None and attn_mask.ndim == 3:
        attn_mask = reshape(attn_mask, (q.shape[0], num_heads, *attn_mask.shape[1:]))
    if padding is not None:
        padding = reshape(padding, (q.shape[0], 1, 1, padding.shape[1]))
        attn_mask = padding if attn_mask is None else e.add(attn_mask, padding)
    scores, v = scores_of(q, k, v, attn_mask, False, None)
    shares = _shares(scores) if not need_weights else exponentials.softmax(scores, -1)
    joined = reshape(
        permute(sums.matmul(shares, v), (2, 0, 1, 3)), (*query.shape[:2], embed_dim_to_check)
    )
    return _projected(joined, to_real(out_proj_weight), out_proj_bias), _attention_weights(
        shares, need_weights, average_attn_weights
    )


def _added(mask: Any) -> Any:
    """A mask as numbers to add; of booleans True means masked."""
    return e.where(mask, float("-inf"), 0.0) if mask is not None and mask.kind == "bool" else mask


def _heads(x: Node, count: int) -> Node:
    """(length, batch, width) as (batch, head, length, width of a head)."""
    length, batch, width = x.shape
    return permute(reshape(x, (length, batch, count, width // count)), (1, 2, 0, 3))


def _attention_weights(shares: Node, need_weights: bool, averaged: bool) -> Node | None:
    return None if not need_weights else sums.mean(shares, 1) if averaged else shares
