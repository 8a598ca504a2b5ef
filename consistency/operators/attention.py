"""Attention. An error of a score moves its row of weights: S sums |weight|·|value| × (1 + the
scores' own magnitudes)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional as F

from ..core.recipe import INLINE_BYTES, Literal, TensorRecipe
from . import definitions
from .declare import (
    FLOAT,
    FLOATS,
    HALF,
    NORMWISE,
    Call,
    Domain,
    Drawing,
    Operator,
    accumulated,
    call,
    one,
)
from .hooks import Tensors, hook
from .magnitudes import finite, joint_maximum

VECTORS = Domain(-2.0, 2.0, wide=(-6, 1))
BIAS = Domain(-4.0, 4.0)
HIDING = Domain(-4.0, 4.0, specials=("-inf", "0"))  # a mask in numbers
DEEP = -100.0, -96.0
LOW = Domain(*DEEP)
# 0 × NaN is NaN, but kernels may leave out the keys and values that a mask hides.
HIDDEN = replace(VECTORS, propagates=())


_NEARLY_EQUAL = 0.25  # range ÷ largest of keys whose scores differ in few of their digits
LARGEST_SIZE = 1e300  # of float64's least number as a mask: sums of it stay finite
MANY_KEYS = 256  # more than a literal mask in the line of a case may have


def lengths(d: Drawing) -> tuple[int, int, int, int]:
    """Queries, keys, and the widths of keys and values; one time in four the width of a model's
    head, and few queries beside many keys, as a decoder has them."""
    if d.integer(0, 3) == 3:
        keys = d.choice(33, 64, 192, 257, 513, 1025, 2049)
        return d.choice(1, 3, 8), keys, d.choice(64, 96, 128, 256), d.choice(64, 128)
    return d.size(1, 33), d.size(1, 65), d.size(1, 65), d.size(1, 33)


def visible(rows: int, columns: int, kept: int, *, hidden: int = 0) -> Literal:
    """A boolean mask: the first ``kept`` key positions (one row), or for each query the first
    position and the last ``kept`` up to its own. With ``hidden`` each query of that many sees
    nothing at all."""
    if hidden:
        mask = [
            column < kept and row % hidden != 0 for row in range(rows) for column in range(columns)
        ]
    elif rows == 1:
        mask = [column < kept for column in range(columns)]
    else:
        mask = [
            (column <= row and row - column < kept) or column == 0
            for row in range(rows)
            for column in range(columns)
        ]
    return Literal(bytes(mask), "bool", (rows, columns), (columns, 1))


def padded(d: Drawing, keys: int, batch: tuple[int, ...]) -> Literal | TensorRecipe:
    """A boolean mask of all dimensions, one row for all queries and heads: the first keys of each
    item of the batch are visible, another number of them for each, or any keys of many; or one
    row for all."""
    items = 1 if not batch or d.flag() else batch[0]
    if keys > MANY_KEYS:
        shape = (items, *[1] * len(batch), keys) if batch else (1, keys)
        return d.tensor(shape, dtype="bool", layout=False)
    kept = [d.integer(1, keys) for _ in range(items)]
    mask = bytes(column < seen for seen in kept for column in range(keys))
    shape = (items, *[1] * len(batch), keys) if batch else (1, keys)
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return Literal(mask, "bool", shape, strides)


def least(d: Drawing, queries: int, keys: int) -> TensorRecipe:
    """A mask to add that holds the format's least number for the first keys, as many programs write
    it, or -inf, and ordinary numbers for the others. Kernels go through long rows in blocks, whose
    first ones may be hidden wholly. Where the least number hides every key, as in a batch's row of
    padding, all keys weigh the same."""
    number, every = d.choice(("-max", False), ("-max", False), ("-inf", False), ("-max", True))
    hidden = (
        keys - d.integer(1, min(keys, 64)) if keys > 64 and d.flag() else d.integer(0, keys - 1)
    )
    hidden = keys if every else hidden
    values = ("leading", -4.0, 4.0, hidden * queries, number)
    of_keys = d.tensor((keys, queries), BIAS, values=values, layout=False)
    return replace(of_keys, view=(("transpose", 0, 1),))


def added(d: Drawing, queries: int, keys: int, batch: tuple[int, ...]) -> TensorRecipe:
    """A mask to add for any of the dimensions in front, often one for each item of the batch and
    all of its heads; with -inf now and then, or with numbers below -88, of which exp vanishes.
    Beside half precision it is of float32 now and then, as programs make masks."""
    each = (*batch[:1], *[1] * len(batch[1:]))
    front = each if d.flag() else d.broadcastable(batch)
    bias, values = d.choice((BIAS, None), (BIAS, None), (HIDING, None), (LOW, ("uniform", *DEEP)))
    dtype = "float32" if d.dtype in HALF and d.choice(False, False, True) else None
    return d.tensor((*front, queries, keys), bias, values=values, dtype=dtype)


def masking(d: Drawing, queries: int, keys: int, batch: tuple[int, ...]) -> dict[str, Any]:
    """None, causal, numbers to add, -inf among them now and then, or booleans: that leave every
    query at least one key, or some queries none."""
    if keys > MANY_KEYS and d.flag():  # a long sequence, of which some keys are padding
        return {"attn_mask": padded(d, keys, batch)}
    match d.choice(
        "none", "causal", "added", "padding", "window", "hidden", "hidden", "shared", "least"
    ):
        case "shared":  # one row for all queries, or one number for each
            shape = d.choice((1, keys), (queries, 1))
            return {"attn_mask": d.tensor((*d.broadcastable(batch), *shape), BIAS)}
        case "least":
            return {"attn_mask": least(d, queries, keys)}
        case "hidden" if queries * keys <= INLINE_BYTES:
            kept, every = d.integer(1, keys), d.integer(2, 3) if queries > 1 else 1
            return {"attn_mask": visible(queries, keys, kept, hidden=every)}
        case "hidden":  # too long for the line of a case: each query sees all keys or none
            seeing = d.tensor((queries, 1), dtype="bool", layout=False)
            return {"attn_mask": replace(seeing, view=(("expand", queries, keys),))}
        case "causal":
            return {"is_causal": True}
        case "added":
            return {"attn_mask": added(d, queries, keys, batch)}
        case "padding":
            if d.flag() or keys > MANY_KEYS:
                return {"attn_mask": padded(d, keys, batch)}
            return {"attn_mask": visible(1, keys, d.integer(1, keys))}
        case "window" if queries * keys <= INLINE_BYTES:
            return {
                "attn_mask": visible(queries, keys, d.integer(1, queries))
                if queries > 1
                else visible(1, keys, 1)
            }
    return {}


def packed(
    d: Drawing, batch: tuple[int, ...], shapes: Sequence[tuple[int, ...]], masked: bool
) -> list[TensorRecipe]:
    """Query, key and value, none of overlapping windows: torch 2.13 returns the memory's old
    contents for such a query, and raises in the gradient of such a key."""
    domains = (VECTORS, HIDDEN, HIDDEN) if masked else (VECTORS, VECTORS, VECTORS)
    return [
        d.tensor((*batch, *shape), domain, overlap=False)
        for shape, domain in zip(shapes, domains, strict=True)
    ]


def attention(d: Drawing) -> Call:
    """(batch, heads, length, width), or fewer dimensions; values as wide as keys, or of another
    width. Seldom queries and keys have no features, and every key has the same weight."""
    queries, keys, width, out = lengths(d)
    batch = d.choice((d.size(1, 2), d.size(1, 3)), (d.size(1, 3),), ())
    wide = d.choice(width, out, width + d.choice(1, 8, 16))
    shapes = ((queries, width), (keys, width), (keys, wide))
    # 32: exp overflows without a shift
    large = 32.0 if d.dtype in FLOAT else 2.0
    scale = d.choice(None, None, d.number(0.125, 2.0), large, d.choice(-0.5, 0.0, 2.0**-10))
    mask = masking(d, queries, keys, batch)
    if scale is not None and d.integer(0, 11) == 11:
        shapes = ((queries, 0), (keys, 0), (keys, wide))
    return call(
        *packed(d, batch, shapes, bool(mask)),
        **mask,
        **({} if scale is None else {"scale": scale}),
    )


def grouped(d: Drawing) -> Call:
    """Several query heads share one head of keys and values, with any mask and scale."""
    queries, keys, width, _ = lengths(d)
    heads, batch = d.size(1, 2), d.size(1, 2)
    many = heads * d.integer(1, 4)
    shapes = ((many, queries, width), (heads, keys, width), (heads, keys, width))
    mask = masking(d, queries, keys, (batch, many))
    scale = {"scale": d.choice(0.5, 2.0, -0.5)} if d.choice(False, False, True) else {}
    return call(*packed(d, (batch,), shapes, bool(mask)), **mask, **scale)


def grouped_attention(query: Any, key: Any, value: Any, **kwargs: Any) -> Any:
    return F.scaled_dot_product_attention(query, key, value, enable_gqa=True, **kwargs)


def grouped_reference(query: Any, key: Any, value: Any, **kwargs: Any) -> Any:
    return definitions.attention(query, key, value, enable_gqa=True, **kwargs)


def heads(d: Drawing) -> Call:
    """The whole layer with packed projections: (length, batch, width), masks, weights returned or
    not."""
    count = d.integer(1, 4)
    width = count * d.size(1, 9)
    queries, keys, batch = d.size(1, 17), d.size(1, 17), d.size(1, 3)
    query, key = d.tensor((queries, batch, width), VECTORS), d.tensor((keys, batch, width), VECTORS)
    small = Domain(-0.5, 0.5)
    packed: TensorRecipe | None = d.tensor((3 * width, width), small)
    out = d.tensor((width, width), small)
    need_weights = d.flag()
    options: dict[str, Any] = {"need_weights": need_weights} if not need_weights else {}
    if need_weights and d.flag():
        options["average_attn_weights"] = False
    match d.choice("none", "added", "added", "causal"):
        case "added":
            options["attn_mask"] = d.tensor((queries, keys), BIAS)
        case "causal":
            later = bytes(j > i for i in range(queries) for j in range(keys))
            options |= {"attn_mask": Literal(later, "bool", (queries, keys), (keys, 1))}
            options["is_causal"] = True
    if d.choice(False, False, True):  # of each batch the first keys are visible
        seen = [d.integer(1, keys) for _ in range(batch)]
        padding = bytes(j >= count for count in seen for j in range(keys))
        options["key_padding_mask"] = Literal(padding, "bool", (batch, keys), (keys, 1))
    if d.choice(False, False, True):
        options["use_separate_proj_weight"] = True
        for name in ("q_proj_weight", "k_proj_weight", "v_proj_weight"):
            options[name] = d.tensor((width, width), small)
        packed = None
    if d.choice(False, False, False, True):  # as an exported decoder gives them
        for name in ("static_k", "static_v"):
            options[name] = d.tensor((batch * count, keys, width // count), VECTORS)
    if d.flag():
        options["training"] = False  # only dropout depends on it
    return call(
        query, key, d.tensor((keys, batch, width), VECTORS), width, count, packed,
        d.tensor((3 * width,), small), None, None, False,
        0.0, out, d.tensor((width,), small), **options,
    )  # fmt: skip


def weighing(
    query: torch.Tensor, key: torch.Tensor, attn_mask: Any, is_causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The weights P, and their relative errors 1 + sᵢⱼ + Σₖ Pᵢₖ·sᵢₖ, with s the sizes of the
    scores."""
    scores, sizes = (query @ key.mT) * scale, (query.abs() @ key.mT.abs()) * abs(scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        added = finite(attn_mask).abs().clamp(max=LARGEST_SIZE)
        scores, sizes = scores + attn_mask, sizes + added
    hidden = (scores == -math.inf).all(-1, keepdim=True)  # such a query's result is 0
    weights = torch.softmax(scores, -1).masked_fill(hidden, 0.0)
    sizes = sizes + 1.0 + finite(scores - scores.amax(-1, keepdim=True)).abs()
    sizes = sizes.where(weights > 0.0, 0.0)  # the format's least number times 0 may be NaN
    return weights, 1.0 + sizes + (weights * sizes).sum(-1, keepdim=True)


def in_groups(query: torch.Tensor, *shared: torch.Tensor) -> list[torch.Tensor]:
    """Keys or values repeated for every query head of their group."""
    heads = query.shape[1] if query.ndim == 4 else 0
    return [
        t.repeat_interleave(heads // t.shape[1], 1) if heads and t.ndim == 4 else t for t in shared
    ]


def shared(size: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The sum over the query heads that share a head of ``like``."""
    if not size.ndim == like.ndim == 4 or not like.shape[1]:
        return size
    each = size.shape[1] // like.shape[1]
    return size.reshape(len(size), like.shape[1], each, *size.shape[2:]).sum(2)


def factor_of(scale: float | None, query: torch.Tensor) -> float:
    """What scores are multiplied by: by default 1 ÷ √width; without features all are 0."""
    return float(max(query.shape[-1], 1) ** -0.5) if scale is None else scale


@hook
def of_attention(
    outputs: Tensors, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
    attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> torch.Tensor:  # fmt: skip
    key, value = in_groups(query, key, value)
    weights, errors = weighing(query, key, attn_mask, is_causal, factor_of(scale, query))
    return (weights * errors) @ value.abs()


@hook
def of_gradients(
    gradients: Tensors, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
    attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> list[torch.Tensor]:  # fmt: skip
    """The same for gradients, with cotangents of at most 1: of the value, of the scores, and so of
    query, key and mask."""
    factor, (keys, values) = factor_of(scale, query), in_groups(query, key, value)
    weights, errors = weighing(query, keys, attn_mask, is_causal, factor)
    factor = abs(factor)
    each = values.abs().sum(-1).unsqueeze(-2)  # |cotangent · value|
    mean = (weights * each).sum(-1, keepdim=True)
    scores = weights * (errors * (each + mean) + (weights * errors * each).sum(-1, keepdim=True))
    of_keys = shared(scores.mT @ query.abs() * factor, key)
    of_values = (weights * errors).mT.sum(-1, keepdim=True) * torch.ones_like(values)
    sizes = [scores @ keys.abs() * factor, of_keys, shared(of_values, value), scores]
    return [s.sum_to_size(g.shape) for s, g in zip(sizes, gradients, strict=False)]


@hook
def of_keys(outputs: Tensors, query: Any, key: Any, *_: Any, **__: Any) -> float:
    """n: the longer of the two sums, over the width and over the keys."""
    return float(max(key.shape[-1], key.shape[-2]))


@hook
def of_heads(gradients: Tensors, query: Any, key: Any, *_: Any, **__: Any) -> Any:
    """The largest element of all gradients; where the keys are nearly equal, and so are the scores
    whose differences the gradients are of, their response to the inputs."""
    sizes = finite(key.abs())
    agree = sizes.numel() > 0 and bool(sizes.max() - sizes.min() <= _NEARLY_EQUAL * sizes.max())
    return "normwise" if agree else joint_maximum((), {}, gradients)


def declare(
    name: str,
    sample: Any,
    error: Any = NORMWISE,
    dtypes: tuple[str, ...] = FLOATS,
    function: Any = None,
    reference: Any = None,
) -> Operator:
    return Operator(
        name=name, family="attention", sample=sample, error=error, dtypes=dtypes, function=function,
        reference=reference,
        traits=frozenset({"through-sums"}),  # weights are functions of scores, which are sums
    )  # fmt: skip


ATTENTION = accumulated(of_attention, of_keys, backward=of_gradients)
HAS_GROUPS = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (
    2,
    5,
)  # enable_gqa came with 2.5

OPERATORS = [
    declare(
        "nn.functional.scaled_dot_product_attention",
        attention,
        ATTENTION,
        reference=definitions.attention,
    ),
    declare(
        "grouped_query_attention",
        grouped,
        ATTENTION,
        function=grouped_attention if HAS_GROUPS else None,
        reference=grouped_reference if HAS_GROUPS else None,
    ),
    declare(
        "nn.functional.multi_head_attention_forward",
        heads,
        accumulated("normwise", one, backward=of_heads),
        dtypes=FLOATS,
    ),
]
