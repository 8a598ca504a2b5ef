"""Attention. An error of a score moves its row of weights: S sums |weight|·|value| × (1 + the scores' own magnitudes)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional as F

from ..recipe import Literal
from ._shared import Args, Kwargs, Outputs, finite, magnitude
from .declare import FLOAT, FLOATS, NORMWISE, Call, Domain, Drawing, Operator, accumulated, call

VECTORS = Domain(-2.0, 2.0, wide=(-6, 1))
BIAS = Domain(-4.0, 4.0)


def lengths(d: Drawing) -> tuple[int, int, int, int]:
    """Queries, keys, and the widths of keys and values."""
    return d.size(1, 33), d.size(1, 65), d.size(1, 65), d.size(1, 33)


def visible(rows: int, columns: int, kept: int) -> Literal:
    """A mask of booleans: of the key positions the first ``kept`` (one row), or from each query on so many back."""
    if rows == 1:
        seen = [column < kept for column in range(columns)]
    else:
        seen = [column <= row and row - column < kept or column == 0 for row in range(rows) for column in range(columns)]
    return Literal(bytes(seen), "bool", (rows, columns), (columns, 1))


def masking(d: Drawing, queries: int, keys: int, batch: tuple[int, ...]) -> dict[str, Any]:
    """None, causal, numbers to add, or booleans that leave every query something to see."""
    match d.choice("none", "causal", "added", "padding", "window"):
        case "causal":
            return {"is_causal": True}
        case "added":
            return {"attn_mask": d.tensor((*d.broadcastable(batch), queries, keys), BIAS)}
        case "padding":
            return {"attn_mask": visible(1, keys, d.integer(1, keys))}
        case "window" if queries * keys <= 512:
            return {"attn_mask": visible(queries, keys, d.integer(1, queries)) if queries > 1 else visible(1, keys, 1)}
    return {}


def attention(d: Drawing) -> Call:
    """(batch, heads, length, width), or fewer dimensions."""
    queries, keys, width, out = lengths(d)
    batch = d.choice((d.size(1, 2), d.size(1, 3)), (d.size(1, 3),), ())
    shapes = ((queries, width), (keys, width), (keys, out if d.flag() else width))
    scale = {"scale": d.number(0.125, 2.0)} if d.choice(False, False, True) else {}
    return call(*(d.tensor((*batch, *shape), VECTORS) for shape in shapes), **masking(d, queries, keys, batch), **scale)


def grouped(d: Drawing) -> Call:
    """Several query heads share one head of keys and values."""
    queries, keys, width, _ = lengths(d)
    heads, batch = d.size(1, 2), d.size(1, 2)
    shapes = ((heads * d.integer(1, 3), queries), (heads, keys), (heads, keys))
    return call(*(d.tensor((batch, *shape, width), VECTORS) for shape in shapes), **({"is_causal": True} if d.flag() else {}))


def grouped_attention(query: Any, key: Any, value: Any, **kwargs: Any) -> Any:
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True, **kwargs)


def heads(d: Drawing) -> Call:
    """The whole layer with packed projections: (length, batch, width), masks, weights returned or not."""
    count = d.integer(1, 4)
    width = count * d.size(1, 9)
    queries, keys, batch = d.size(1, 17), d.size(1, 17), d.size(1, 3)
    query, key = d.tensor((queries, batch, width), VECTORS), d.tensor((keys, batch, width), VECTORS)
    small = Domain(-0.5, 0.5)
    packed, out = d.tensor((3 * width, width), small), d.tensor((width, width), small)
    mask = {"attn_mask": d.tensor((queries, keys), BIAS)} if d.flag() else {}
    return call(
        query, key, d.tensor((keys, batch, width), VECTORS), width, count, packed, d.tensor((3 * width,), small), None, None, False, 0.0,
        out, d.tensor((width,), small), training=False, need_weights=d.flag(), **mask,
    )  # fmt: skip


@magnitude
def of_attention(
    outputs: Outputs, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None,
) -> torch.Tensor:  # fmt: skip
    """With P the weights and s the sizes of the scores: Σⱼ Pᵢⱼ·(1 + sᵢⱼ + Σₖ Pᵢₖ·sᵢₖ)·|vⱼ|."""
    if query.ndim == 4 and query.shape[1] != key.shape[1]:
        key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores, sizes = (query @ key.mT) * scale, (query.abs() @ key.mT.abs()) * scale
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores, sizes = scores + attn_mask, sizes + finite(attn_mask).abs()
    weights = torch.softmax(scores, -1)
    sizes = sizes + 1.0 + finite(scores - scores.amax(-1, keepdim=True)).abs()
    return (weights * (1.0 + sizes + (weights * sizes).sum(-1, keepdim=True))) @ value.abs()


def of_keys(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    """n: the longer of the two sums, over the width and over the keys."""
    return float(max(args[1].shape[-1], args[1].shape[-2]))


def declare(name: str, sample: Any, error: Any = NORMWISE, dtypes: tuple[str, ...] = FLOATS, function: Any = None) -> Operator:
    return Operator(name=name, family="attention", sample=sample, error=error, dtypes=dtypes, function=function)


ATTENTION = accumulated(of_attention, of_keys)
HAS_GROUPS = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 5)  # enable_gqa came with 2.5

OPERATORS = [
    declare("nn.functional.scaled_dot_product_attention", attention, ATTENTION),
    declare("grouped_query_attention", grouped, ATTENTION, function=grouped_attention if HAS_GROUPS else None),
    declare("nn.functional.multi_head_attention_forward", heads, dtypes=FLOAT),
]
