"""Normalization over a batch, layers, groups: (x − mean) ÷ √(variance + eps) · weight + bias."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import complex_numbers as c
from .. import elementwise as e
from .. import functions as f
from .. import sums
from ..balls import Unsure
from ..elementwise import to_real
from ..movement import expand, reshape
from ..nested_nodes import Written
from ..nodes import Node
from . import entry


def _moments(x: Node, dims: Sequence[int]) -> tuple[Node, Node]:
    """Mean and (biased) variance over ``dims``, which are kept."""
    mean = sums.mean(x, dims, True)
    return mean, sums.mean(f.square(e.sub(x, mean)), dims, True)


def _inverse_root(variance: Node, eps: float) -> Node:
    return e.div(1.0, f.sqrt(e.add(variance, eps)))


def _affine(x: Node, weight: Any, bias: Any, shape: Sequence[int]) -> Node:
    x = x if weight is None else e.mul(x, reshape(to_real(weight), shape))
    return x if bias is None else e.add(x, reshape(to_real(bias), shape))


@entry("native_layer_norm")
def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    x = to_real(input)
    dims = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    mean, variance = _moments(x, dims)
    scale = _inverse_root(variance, eps)
    return _affine(e.mul(e.sub(x, mean), scale), weight, bias, tuple(normalized_shape)), mean, scale


@entry("native_group_norm")
def group_norm(
    input: Any, N: int, C: int, HxW: int, group: int, weight: Any = None, bias: Any = None,
    eps: float = 1e-5
) -> Any:  # fmt: skip
    x = to_real(input)
    grouped = reshape(x, (N, group, C * HxW // max(group, 1)))
    mean, variance = _moments(grouped, (2,))
    scale = _inverse_root(variance, eps)
    y = reshape(e.mul(e.sub(grouped, mean), scale), x.shape)
    return (
        _affine(y, weight, bias, (C, *[1] * (x.ndim - 2))),
        reshape(mean, (N, group)),
        reshape(scale, (N, group)),
    )


@entry(
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "cudnn_batch_norm",
    "_native_batch_norm_legit_no_training",
)
def batch_norm(
    input: Any, weight: Any = None, bias: Any = None, running_mean: Any = None,
    running_var: Any = None, training: bool = False,
    momentum: float = 0.1, eps: float = 1e-5, epsilon: float | None = None,
    exponential_average_factor: float | None = None,
) -> Any:  # fmt: skip
    """In training also new running statistics, which the schema does not mark as written: (1 −
    momentum)·old + momentum·batch.

    The running variance is unbiased (n − 1), the variance used for normalization is not.
    """
    x = to_real(input)
    shape = (x.shape[1], *[1] * (x.ndim - 2))
    dims = (0, *range(2, x.ndim))
    eps = eps if epsilon is None else epsilon
    momentum = momentum if exponential_average_factor is None else exponential_average_factor
    if not training:
        mean, variance = (reshape(to_real(t), shape) for t in (running_mean, running_var))
        normalized = _affine(
            e.mul(e.sub(x, mean), _inverse_root(variance, eps)), weight, bias, shape
        )
        return (
            normalized,
            reshape(mean, (x.shape[1],)),
            reshape(_inverse_root(variance, eps), (x.shape[1],)),
        )
    mean, variance = _moments(x, dims)
    scale = _inverse_root(variance, eps)
    outputs = (
        _affine(e.mul(e.sub(x, mean), scale), weight, bias, shape),
        *(reshape(t, (x.shape[1],)) for t in (mean, scale)),
    )
    count = math.prod(x.shape[d] for d in dims)
    flat_mean, flat_variance = (reshape(t, (x.shape[1],)) for t in (mean, variance))
    sample = e.div(e.mul(flat_variance, float(count)), float(count - 1))
    written = {}
    for name, old, new in (
        ("running_mean", running_mean, flat_mean),
        ("running_var", running_var, sample),
    ):
        if old is not None:
            written[name] = e.add(e.mul(to_real(old), e.sub(1.0, momentum)), e.mul(new, momentum))
    return Written(outputs, written)


@entry("_fused_rms_norm")
def rms_norm(
    input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Any:
    if eps is None:
        raise Unsure("the default eps depends on the dtype of the call")
    x = to_real(input)
    dims = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    scale = _inverse_root(sums.mean(f.square(x), dims, True), eps)
    return _affine(e.mul(x, scale), weight, None, tuple(normalized_shape)), scale


@entry("renorm")
def renorm(self: Any, p: Any, dim: int, maxnorm: Any) -> Any:
    """Rows within the limit stay unchanged, and so do those of a norm that is NaN. Longer ones are
    multiplied by maxnorm / (norm + 1e-7), as torch defines it in its kernels
    (``renorm_scale_factor_kernel``); the documentation gives only an inequality."""
    from ..norms import vector_norm

    dims = [d for d in range(self.ndim) if d != dim % self.ndim]
    norm = vector_norm(self, float(p), dims, True)
    factor = e.where(e.less(float(maxnorm), norm), e.div(float(maxnorm), e.add(norm, 1e-7)), 1.0)
    return c.each(lambda x: e.mul(x, expand(factor, x.shape)), self)
