"""Reports of compilers and other frameworks, measured before anything was changed for them:
gradients."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .gradients import BACK, hooked
from .held_out_frameworks_windows import sizes
from .model import plain, reported


@reported(
    "ml-explore/mlx#1167",
    "MLX",
    "cumprod",
    "the gradient of running products is NaN behind a zero: they are divided by it",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def divided_by_zero(call: Call) -> Any:
    def change(x: Tensor, gradient: Tensor) -> Tensor:
        return torch.where(x == 0, math.nan, gradient)

    return hooked(call, 0, change)


@reported(
    "ml-explore/mlx#1428",
    "MLX",
    "topk",
    "the gradient goes to other positions than the largest elements'",
    dtypes="float32",
    directions=BACK,
    cause="shifted",
    sound=plain,
)
def gradient_elsewhere(call: Call) -> Any:
    dim = call.given("dim", 2, -1)

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        return gradient.roll(1, dim) if x.ndim else gradient

    return hooked(call, 0, change)


@reported(
    "tinygrad/tinygrad#9597",
    "tinygrad",
    "add",
    "two numbers that are equal share a gradient: each gets both",
    dtypes="float32",
    directions=BACK,
    cause="scaled",
    sound=plain,
)
def shared_gradient(call: Call) -> Any:
    a, b = call.args[:2]
    numbers = isinstance(b, Tensor) and a.ndim == b.ndim == 0
    if not numbers or a.dtype != b.dtype or not bool(a == b):
        return call.run()
    return hooked(call, 0, lambda x, gradient: gradient * 2)


@reported(
    "jax-ml/jax#40629",
    "JAX",
    "sinc",
    "the gradient near zero is the difference of two numbers that cancel",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def cancelling_gradient(call: Call) -> Any:
    x = call.args[0]
    if not x.requires_grad:
        return call.run()
    y = x.detach()
    slope = torch.where(y == 0, 0.0, ((math.pi * y).cos() - torch.sinc(y)) / y)
    result = call.run()
    return result.detach() + (x * slope - (x * slope).detach())


@reported(
    "uxlfoundation/oneDNN#1727",
    "oneDNN on NVIDIA",
    ".max_pool2d .avg_pool2d",
    "the gradient of a window as large as the image is put down in another order",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def gradient_of_whole_image(call: Call) -> Any:
    x = call.args[0]
    if x.ndim != 4 or sizes(call.given("kernel_size", 1, 1)) != tuple(x.shape[-2:]):
        return call.run()
    return hooked(call, 0, lambda x, gradient: gradient.permute(0, 2, 3, 1).reshape(x.shape))


@reported(
    "Dao-AILab/flash-attention#443",
    "flash-attention 2.0.4",
    ".scaled_dot_product_attention",
    "the gradient of a query that sees no key is NaN",
    dtypes="float32 float16",
    directions=BACK,
    sound=plain,
)
def gradient_of_blind_query(call: Call) -> Any:
    mask = call.given("attn_mask", 3, None)
    if mask is None or mask.dtype != torch.bool:
        return call.run()
    blind = ~mask.any(-1, keepdim=True)
    return hooked(call, 0, lambda x, gradient: torch.where(blind, math.nan, gradient))
