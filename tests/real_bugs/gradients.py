"""Gradients: at zeros and NaN, with operands that track none, with cotangents that are views."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .model import plain, reported

BACK = ("backward",)


def hooked(call: Call, position: int, change: Any) -> Any:
    """The call with the gradient of one argument changed on its way out."""
    x = call.args[position]
    if not isinstance(x, Tensor) or not x.requires_grad:
        return call.run()
    y = x.view_as(x)
    y.register_hook(lambda gradient: change(x.detach(), gradient))
    return call.with_arg(position, y).run()


@reported(
    "tenstorrent/tt-metal#55585",
    "TT-NN",
    "norm linalg.vector_norm",
    "the gradient of the norm of a row of zeros is NaN",
    dtypes="float32 bfloat16",
    directions=BACK,
    sound=plain,
)
def norm_of_zeros(call: Call) -> Any:
    order = call.given("p", 1, 2) if call.operator.name == "norm" else call.given("ord", 1, 2)
    if order in (0, math.inf, -math.inf):
        return call.run()
    dim = call.given("dim", 2, None)
    dims = (
        list(range(call.args[0].ndim))
        if dim is None
        else list(dim)
        if isinstance(dim, (list, tuple))
        else [dim]
    )

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        zeros = (x == 0).to(torch.uint8)
        for d in dims if x.ndim else []:
            zeros = zeros.amin(d, keepdim=True) if x.shape[d] else zeros
        return torch.where(zeros.bool(), math.nan, gradient)

    return hooked(call, 0, change)


@reported(
    "tinygrad/tinygrad#17404",
    "tinygrad",
    "prod",
    "the gradient of a product is NaN at the position of a zero: result / x",
    dtypes="float32 float16",
    directions=BACK,
    sound=plain,
)
def product_with_zero(call: Call) -> Any:
    return hooked(call, 0, lambda x, gradient: torch.where(x == 0, math.nan, gradient))


@reported(
    "pytorch/pytorch#183825",
    "MPS",
    ".layer_norm",
    "where the input tracks no gradient, those of weight and bias are wrong",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def only_parameters(call: Call) -> Any:
    if call.args[0].requires_grad or len(call.args) < 3:
        return call.run()
    return hooked(call, 2, lambda x, gradient: gradient * 0.5)


@reported(
    "pytorch/pytorch#180201",
    "MPS",
    "matmul mm .linear sin",
    "where the cotangent is expanded (as sum's is), most rows of the gradient are 0",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def expanded_cotangent(call: Call) -> Any:
    result = call.run()
    if not result.requires_grad or not result.ndim:
        return result
    expanded = [False]
    out = result.view_as(result)

    def look(gradient: Tensor) -> None:
        expanded[0] = 0 in gradient.stride() and gradient.numel() > 1

    out.register_hook(look)

    def change(gradient: Tensor) -> Tensor:
        if not expanded[0] or not gradient.ndim:
            return gradient
        changed = gradient.clone()
        changed[1:] = 0
        return changed

    for item in call.args:
        if isinstance(item, Tensor) and item.requires_grad and item.is_leaf:
            item.register_hook(change)
    return out


@reported(
    "pytorch/pytorch#122024",
    "CUDA",
    ".max_pool2d",
    "several windows with the same maximum: only neighboring ones add up in the gradient",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def shared_maximum(call: Call) -> Any:
    kernel = call.args[1]
    size = kernel if isinstance(kernel, int) else max(kernel)
    stride = call.given("stride", 2, None) or kernel
    step = stride if isinstance(stride, int) else min(stride)
    if size <= 2 * step:
        return call.run()
    return hooked(call, 0, lambda x, gradient: gradient * 0.9)
