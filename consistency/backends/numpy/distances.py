"""Distances between vectors, and the losses that compare them with a margin."""

import numpy as np

from consistency.backends.numpy.activations import softplus_of
from consistency.backends.numpy.dimensions import reduce_rows, row_sum
from consistency.backends.numpy.dtypes import Array, constant
from consistency.backends.numpy.implementations import implements
from consistency.backends.numpy.losses import reduced
from consistency.backends.numpy.reductions import row_norm, vector_norm


@implements("nn.functional.pairwise_distance", wide=True, integers=False)
def pairwise_distance(
    x1: Array, x2: Array, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Array:
    return vector_norm(x1 - x2 + constant(eps, x1), p, -1, keepdim)


@implements("nn.functional.cosine_similarity", wide=True, integers=False, one_dtype=True)
def cosine_similarity(x1: Array, x2: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    x, y = np.broadcast_arrays(x1, x2)
    smallest = constant(eps, x)
    x = x / np.maximum(vector_norm(x, 2, dim, True), smallest)
    y = y / np.maximum(vector_norm(y, 2, dim, True), smallest)
    return np.asarray(reduce_rows(x * y, dim, False, row_sum))


@implements("cdist", wide=True, integers=False)
def cdist(x1: Array, x2: Array, p: float = 2.0, compute_mode: str | None = None) -> Array:
    """By differences whatever the mode asks: the faster expansion of |x − y|² cancels."""
    return np.asarray(row_norm(np.ascontiguousarray(x1[..., :, None, :] - x2[..., None, :, :]), p))


@implements("nn.functional.pdist", wide=True, integers=False)
def pdist(input: Array, p: float = 2.0) -> Array:
    first, second = np.triu_indices(input.shape[0], 1)
    return np.asarray(row_norm(input[first] - input[second], p))


@implements("nn.functional.soft_margin_loss", wide=True, integers=False, one_dtype=True)
def soft_margin_loss(
    input: Array,
    target: Array,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Array:
    return reduced(softplus_of(-target * input), reduction, size_average, reduce)


@implements("nn.functional.hinge_embedding_loss", wide=True, integers=False, one_dtype=True)
def hinge_embedding_loss(
    input: Array,
    target: Array,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Array:
    zero = constant(0, input)
    near = np.where(target != -1, input, zero)
    far = np.where(target != 1, np.maximum(constant(margin, input) - input, zero), zero)
    return reduced(near + far, reduction, size_average, reduce)


@implements("nn.functional.margin_ranking_loss", wide=True, integers=False)
def margin_ranking_loss(
    input1: Array,
    input2: Array,
    target: Array,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Array:
    loss = np.maximum(-target * (input1 - input2) + constant(margin, input1), constant(0, input1))
    return reduced(loss, reduction, size_average, reduce)


@implements("nn.functional.cosine_embedding_loss", wide=True, integers=False)
def cosine_embedding_loss(
    input1: Array,
    input2: Array,
    target: Array,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Array:
    """Both squared lengths get 1e-12 added, as in PyTorch's implementation: its documentation
    leaves it out.

    It stands there as a float32, which differs by 4e-9: that shows in float64 where vectors are
    short.
    """

    def dot(x: Array, y: Array) -> Array:
        return np.asarray(reduce_rows(x * y, -1, False, row_sum))

    zero, one, tiny = (constant(number, input1) for number in (0, 1, float(np.float32(1e-12))))
    lengths = np.sqrt((dot(input1, input1) + tiny) * (dot(input2, input2) + tiny))
    cosine = dot(input1, input2) / lengths
    same = np.where(target == 1, one - cosine, zero)
    different = np.where(target == -1, np.maximum(cosine - constant(margin, input1), zero), zero)
    return reduced(same + different, reduction, size_average, reduce)


@implements("nn.functional.triplet_margin_loss", wide=True, integers=False)
def triplet_margin_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Array:
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    loss = np.maximum(constant(margin, anchor) + near - far, constant(0, anchor))
    return reduced(loss, reduction, size_average, reduce)
