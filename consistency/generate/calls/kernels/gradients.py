"""Convolution, and the backward operators, which are called with all that they need and so are
operators of their own here."""

from __future__ import annotations

import functools
from typing import Any

import torch

from .... import operators
from ....operators.declare import EXACT, accumulated, one, products
from ....operators.hooks import Args, Kwargs, Tensors
from ..generic_error import longest_dimension
from .declaration import CONSTANT, KernelDeclaration, summed

# Each derivative is a product of rounded factors of single elements.
_POINTWISE = (
    "elu_backward", "hardshrink_backward", "hardsigmoid_backward", "hardswish_backward",
    "hardtanh_backward",
    "leaky_relu_backward", "log_sigmoid_backward", "logit_backward", "mish_backward",
    "sigmoid_backward", "silu_backward",
    "softplus_backward", "softshrink_backward", "tanh_backward", "native_dropout_backward",
    "_prelu_kernel_backward",
)  # fmt: skip
# Linear in the cotangent, which comes first; what else they take are positions and sizes.
_LINEAR = (
    "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward",
    "adaptive_max_pool2d_backward", "avg_pool2d_backward",
    "avg_pool3d_backward", "embedding_dense_backward", "max_pool2d_with_indices_backward",
    "max_pool3d_with_indices_backward",
    "nll_loss_backward", "nll_loss2d_backward", "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward",
    "unfold_backward",
    "upsample_bicubic2d_backward", "upsample_bilinear2d_backward", "upsample_linear1d_backward",
    "upsample_nearest1d_backward",
    "upsample_nearest2d_backward", "upsample_nearest3d_backward", "upsample_trilinear3d_backward",
)  # fmt: skip
_MOVED = ("select_backward", "slice_backward", "diagonal_backward", "threshold_backward")


@functools.cache
def convolution(rank: int, transposed: bool) -> KernelDeclaration:
    name = f"nn.functional.conv{'_transpose' if transposed else ''}{rank}d"
    return KernelDeclaration(products(_terms_of_kernel), name, traits=operators.get(name).traits)


def _terms_of_kernel(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n: input channels of a group × kernel; of a transposed one, whose weight begins with the
    input channels, at most that."""
    weight, transposed, groups = args[1], args[6], args[8]
    return float(weight[:, 0].numel() / groups if transposed else weight[0].numel())


def _terms_of_convolution_gradients(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n of the longest of three sums: over the kernel for the input, over all places of all images
    for weight and bias."""
    gradient, weight = args[0], args[2]
    return float(
        max(gradient.numel() / max(gradient.shape[1], 1), weight[:, 0].numel(), weight[0].numel())
    )


def _magnitude_of_gelu_gradient(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
    """g·(Φ(x) + x·φ(x)), where Φ is half of 1 + erf, and so never more precise than 1; nor is 1 −
    tanh², times the inner slope."""
    gradient, x = args[:2]
    slope = (
        x.abs() * (1.0 + 0.14 * x * x)
        if kwargs.get("approximate") == "tanh"
        else x.abs() * torch.exp(-0.5 * x * x)
    )
    return 2.0 * gradient.abs() * (1.0 + slope)


def _terms_of_positions(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n: at most as many rows are added up as there are positions."""
    return float(max(args[1].numel(), 1))


def is_pointwise(base: str) -> bool:
    """Whether ``aten::base`` is a derivative of a function of single elements."""
    return base in _POINTWISE or base == "gelu_backward"


@functools.cache
def kernels() -> dict[str, KernelDeclaration]:
    pointwise = accumulated("pointwise", one, wide_accumulation=False)
    errors = dict.fromkeys(_POINTWISE, pointwise)
    errors |= dict.fromkeys(_LINEAR, summed(longest_dimension)) | dict.fromkeys(_MOVED, EXACT)
    errors["gelu_backward"] = accumulated(_magnitude_of_gelu_gradient, one, wide_accumulation=False)
    errors["embedding_dense_backward"] = summed(_terms_of_positions)
    errors["convolution_backward"] = summed(_terms_of_convolution_gradients)
    result = {name: KernelDeclaration(error, traits=CONSTANT) for name, error in errors.items()}
    # Behind the result is what its gradient needs, which each kernel fills in as far as it does.
    result |= {
        name: KernelDeclaration(summed(_terms_of_positions), kept=1)
        for name in ("_embedding_bag", "_embedding_bag_forward_only")
    }
    return result
