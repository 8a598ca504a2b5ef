"""Gradients that a program calls as operators: ``convolution_backward`` and the like.

Each is the gradient of its forward entry by :mod:`..gradients`, at the given arguments. Where such
an operator receives the forward result in place of the argument, it is a function of that result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import elementwise as e
from .. import sums
from ..complex_numbers import Pair
from ..elementwise import to_real
from ..gradients import gradients
from ..movement import reshape, scatter
from ..nodes import Alias, Constant, Node, whole_numbers
from . import ENTRIES, entry


def pulled(
    name: str,
    gradient: Any,
    by: Sequence[Any],
    mask: Sequence[bool],
    *more: Any,
    first: bool = True,
    **named: Any,
) -> Any:
    """Gradients of entry ``name`` of (by…, more…) with respect to those of ``by`` that ``mask``
    selects; None for the others."""
    leaves = [None if x is None else Alias(to_real(x)) for x in by]
    result = ENTRIES[name](*leaves, *more, **named)
    root = result[0] if isinstance(result, tuple) and first else result
    requested = [
        leaf
        for leaf, is_requested in zip(leaves, mask, strict=True)
        if leaf is not None and is_requested
    ]
    results = iter(gradients([(root, to_real(gradient))], requested))
    gradients_of_leaves: list[Node | None] = []
    for leaf, is_requested in zip(leaves, mask, strict=True):
        part = next(results) if leaf is not None and is_requested else None
        gradients_of_leaves.append(
            Constant(np.zeros(leaf.shape))
            if part is None and leaf is not None and is_requested
            else part
        )
    return tuple(gradients_of_leaves)


@entry("convolution_backward")
def convolution_backward(
    grad_output: Any, input: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any,
    dilation: Any, transposed: bool,
    output_padding: Any, groups: int, output_mask: Sequence[bool],
) -> Any:  # fmt: skip
    if isinstance(grad_output, Pair):
        raise NotImplementedError("complex convolutions")
    how = {
        "stride": stride,
        "padding": padding,
        "dilation": dilation,
        "transposed": transposed,
        "groups": groups,
    }
    by_input, by_weight = pulled(
        "convolution", grad_output, (input, weight), output_mask[:2], grad_output, **how
    )
    dims = [d for d in range(grad_output.ndim) if d != 1]
    return by_input, by_weight, sums.sum_(grad_output, dims) if output_mask[2] else None


@entry("native_layer_norm_backward")
def native_layer_norm_backward(
    grad_out: Any, input: Any, normalized_shape: Any, mean: Any, rstd: Any, weight: Any, bias: Any,
    output_mask: Sequence[bool]
) -> Any:  # fmt: skip
    """From the saved mean and reciprocal deviation, which are independent arguments here."""
    rank = len(normalized_shape)
    dims = list(range(input.ndim - rank, input.ndim))
    center, scale = (_broadcast_kept(x, input.ndim) for x in (mean, rstd))
    normalized = e.mul(e.sub(input, center), scale)
    pushed = e.mul(grad_out, weight) if weight is not None else to_real(grad_out)
    by_input = e.mul(
        scale,
        e.sub(
            e.sub(pushed, sums.mean(pushed, dims, True)),
            e.mul(normalized, sums.mean(e.mul(pushed, normalized), dims, True)),
        ),
    )
    batch_dims = list(range(input.ndim - rank))
    by_weight = (
        sums.sum_(e.mul(grad_out, normalized), batch_dims)
        if batch_dims
        else e.mul(grad_out, normalized)
    )
    by_bias = sums.sum_(grad_out, batch_dims) if batch_dims else grad_out
    return tuple(
        g if is_requested else None
        for g, is_requested in zip((by_input, by_weight, by_bias), output_mask, strict=True)
    )


def _broadcast_kept(x: Node, ndim: int) -> Node:
    return x if x.ndim == ndim else reshape(x, (*x.shape, *(1,) * (ndim - x.ndim)))


@entry("_softmax_backward_data")
def softmax_backward(grad_output: Any, output: Any, dim: int, input_dtype: Any = None) -> Any:
    return e.mul(output, e.sub(grad_output, sums.sum_(e.mul(grad_output, output), dim, True)))


@entry("_log_softmax_backward_data")
def log_softmax_backward(grad_output: Any, output: Any, dim: int, input_dtype: Any = None) -> Any:
    return e.sub(grad_output, e.mul(ENTRIES["exp"](output), sums.sum_(grad_output, dim, True)))


@entry("tanh_backward")
def tanh_backward(grad_output: Any, output: Any) -> Any:
    return e.mul(grad_output, e.sub(1.0, e.mul(output, output)))


@entry("sigmoid_backward")
def sigmoid_backward(grad_output: Any, output: Any) -> Any:
    return e.mul(grad_output, e.mul(output, e.sub(1.0, output)))


@entry("threshold_backward")
def threshold_backward(grad_output: Any, self: Any, threshold: Any) -> Any:
    return e.where(e.less(threshold, self), grad_output, 0.0)


@entry("gelu_backward")
def gelu_backward(grad_output: Any, self: Any, approximate: str = "none") -> Any:
    return pulled("gelu", grad_output, (self,), (True,), approximate)[0]


@entry("silu_backward")
def silu_backward(grad_output: Any, self: Any) -> Any:
    return pulled("silu", grad_output, (self,), (True,))[0]


@entry("logit_backward")
def logit_backward(grad_output: Any, self: Any, eps: Any = None) -> Any:
    return pulled("logit", grad_output, (self,), (True,), eps)[0]


@entry("hardshrink_backward")
def hardshrink_backward(grad_out: Any, self: Any, lambd: Any) -> Any:
    return pulled("hardshrink", grad_out, (self,), (True,), lambd)[0]


@entry("softshrink_backward")
def softshrink_backward(grad_output: Any, self: Any, lambd: Any) -> Any:
    return pulled("softshrink", grad_output, (self,), (True,), lambd)[0]


@entry("mse_loss_backward")
def mse_loss_backward(grad_output: Any, self: Any, target: Any, reduction: int) -> Any:
    return pulled("mse_loss", grad_output, (self,), (True,), target, reduction)[0]


@entry("_adaptive_avg_pool2d_backward")
def adaptive_avg_pool2d_backward(grad_output: Any, self: Any) -> Any:
    size = grad_output.shape[-2:]
    return pulled("_adaptive_avg_pool2d", grad_output, (self,), (True,), size, grad_output)[0]


@entry("_adaptive_avg_pool3d_backward")
def adaptive_avg_pool3d_backward(grad_output: Any, self: Any) -> Any:
    size = grad_output.shape[-3:]
    return pulled("_adaptive_avg_pool3d", grad_output, (self,), (True,), size, grad_output)[0]


def _average_backward(name: str) -> Any:
    def backward(
        grad_output: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: Any,
    ) -> Any:  # fmt: skip
        named = {"kernel_size": kernel_size, "stride": stride, "padding": padding,
        "ceil_mode": ceil_mode,
                 "count_include_pad": count_include_pad, "divisor_override": divisor_override,
                 "result": grad_output}  # fmt: skip
        return pulled(name, grad_output, (self,), (True,), **named)[0]

    return backward


for _name in ("avg_pool2d", "avg_pool3d"):
    entry(f"{_name}_backward")(_average_backward(_name))


@entry("nll_loss_backward")
def nll_loss_backward(
    grad_output: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int,
    total_weight: Any
) -> Any:  # fmt: skip
    return pulled(
        "nll_loss_forward", grad_output, (self,), (True,), target, weight, reduction, ignore_index
    )[0]


@entry("embedding_dense_backward")
def embedding_dense_backward(
    grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Any:  # fmt: skip
    table = Constant(np.zeros((num_weights, grad_output.shape[-1])))
    padding = padding_idx if padding_idx >= 0 else -1
    return pulled(
        "embedding",
        grad_output,
        (table,),
        (True,),
        indices,
        grad_output,
        padding,
        scale_grad_by_freq,
    )[0]


@entry("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(
    grad_output: Any, self: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: Any
) -> Any:  # fmt: skip
    """Each gradient goes to the position in its plane given by the index."""
    rank = 2 if isinstance(kernel_size, int) else max(len(kernel_size), 2)
    plane, windows = int(np.prod(self.shape[-rank:])), int(np.prod(grad_output.shape[-rank:]))
    places = whole_numbers(indices).reshape(-1, windows)
    labels = np.arange(places.shape[0])[:, None] * plane + places
    return scatter(to_real(grad_output), labels.reshape(-1), self.shape)


@entry("_scaled_dot_product_flash_attention_for_cpu_backward")
def attention_backward(
    grad_out: Any, query: Any, key: Any, value: Any, out: Any, logsumexp: Any, dropout_p: float,
    is_causal: bool,
    attn_mask: Any = None, scale: Any = None,
) -> Any:  # fmt: skip
    """From the arguments alone; saved results are not used."""
    name, everyone = "_scaled_dot_product_flash_attention_for_cpu", (True, True, True)
    return pulled(
        name, grad_out, (query, key, value), everyone, dropout_p, is_causal, attn_mask, scale
    )


for _kind in (
    "nearest1d",
    "nearest2d",
    "nearest3d",
    "linear1d",
    "bilinear2d",
    "trilinear3d",
    "bicubic2d",
):

    def _upsample_backward(
        grad_output: Any, output_size: Any, input_size: Any, align_corners: bool | None = None,
        scales: Any = None,
        scales_d: Any = None, scales_h: Any = None, scales_w: Any = None,
        _name: str = f"upsample_{_kind}",
    ) -> Any:  # fmt: skip
        arguments = {"output_size": output_size, "align_corners": bool(align_corners),
                     "scales": scales, "scales_d": scales_d,
                     "scales_h": scales_h, "scales_w": scales_w}  # fmt: skip
        leaf = Alias(Constant(np.zeros(tuple(input_size))))
        root = ENTRIES[_name](self=leaf, result=grad_output, **arguments)
        return gradients([(root, to_real(grad_output))], [leaf])[0]

    ENTRIES[f"upsample_{_kind}_backward"] = _upsample_backward
