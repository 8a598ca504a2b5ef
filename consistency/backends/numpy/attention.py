"""Attention, and the embeddings that feed it."""

from collections.abc import Callable

import numpy as np

from consistency.backends.numpy.dimensions import row_mean, row_sum
from consistency.backends.numpy.dtypes import INDEX, SINCE_2_5, Array, constant
from consistency.backends.numpy.implementations import implements
from consistency.backends.numpy.indexing import not_negative
from consistency.backends.numpy.matmul import matmul


@implements("nn.functional.scaled_dot_product_attention", wide=True, as_first=True)
def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """softmax(q kᵀ · scale + mask) v. A query that may attend to nothing gets 0, as in PyTorch ≥
    2.5; before, it got NaN, which is not implemented."""
    if dropout_p:
        raise NotImplementedError("dropout")
    if enable_gqa:
        key, value = (np.repeat(one, query.shape[-3] // one.shape[-3], -3) for one in (key, value))
    width = constant(query.shape[-1], query)
    factor = 1 / np.sqrt(width) if scale is None else constant(scale, query)
    scores = matmul(query, key.swapaxes(-1, -2)) * factor
    forbidden = constant(-np.inf, query)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=np.bool_), scores, forbidden)
    if attn_mask is not None:
        scores = (
            np.where(attn_mask, scores, forbidden)
            if attn_mask.dtype == np.bool_
            else scores + attn_mask
        )
    top = np.max(scores, -1, keepdims=True, initial=-np.inf)
    if not SINCE_2_5 and np.any(top == forbidden):
        raise NotImplementedError("a row that is masked as a whole, in torch before 2.5")
    weights = np.exp(scores - np.where(top == forbidden, constant(0, query), top))
    total = weights.sum(-1, keepdims=True)
    return matmul(weights / np.where(top == forbidden, constant(1, query), total), value)


@implements("nn.functional.embedding", wide=True, complex=True)
def embedding(
    input: Array,
    weight: Array,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    if max_norm is not None:
        raise NotImplementedError("max_norm changes the weights in place")
    return np.asarray(np.take(weight, not_negative(input), 0))


_BAGS: dict[str, Callable[[Array], Array]] = {
    "sum": row_sum,
    "mean": row_mean,
    "max": lambda rows: np.max(rows, -1),
}


@implements("nn.functional.embedding_bag", wide=True)
def embedding_bag(
    input: Array,
    weight: Array,
    offsets: Array | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Array:
    """One row for each bag: a row of `input`, or a stretch of it that starts at an offset. Empty
    bags give 0."""
    if max_norm is not None:
        raise NotImplementedError("max_norm changes the weights in place")
    if input.ndim == 2:
        starts = np.arange(input.shape[0]) * input.shape[1]
        ends = starts + input.shape[1]
    elif offsets is not None:
        starts, ends = (
            (offsets[:-1], offsets[1:])
            if include_last_offset
            else (offsets, np.append(offsets[1:], input.size))
        )
    else:
        raise ValueError("offsets are needed for one-dimensional input")
    indices = input.reshape(-1)
    rows = weight[not_negative(indices)]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    not_padding = np.ones(indices.shape, np.bool_)
    if padding_idx is not None:
        not_padding = indices != padding_idx % weight.shape[0]
    result = np.zeros((len(starts), weight.shape[1]), weight.dtype)
    for bag, (start, end) in enumerate(zip(starts, ends, strict=True)):
        members = rows[start:end][not_padding[start:end]]
        if len(members):
            result[bag] = _BAGS[mode](np.ascontiguousarray(members.T))
    return result


@implements("nn.functional.one_hot", wide=True)
def one_hot(tensor: Array, num_classes: int = -1) -> Array:
    if num_classes == -1:
        num_classes = int(tensor.max()) + 1
    if np.any((tensor < 0) | (tensor >= num_classes)):
        raise ValueError("class values must be non-negative and smaller than num_classes")
    return np.equal(tensor[..., None], np.arange(num_classes)).astype(INDEX)
