"""A ninth, held-out list of reports of 2023 to 2026 (see :mod:`.ninth_list`), chosen for variety
before anything was looked at of how inputs are drawn: sizes, windows, layouts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.memory import as_contiguous
from tests.support.catalog.model import Call, one_of, straight

from .eighth_list_sizes import pair
from .layouts import dense
from .model import plain, reported

KEYS = 128  # in a block of keys
LEAST = torch.finfo(torch.float32).min


@reported(
    "jax-ml/jax#39352",
    "JAX on the CPU",
    "atan",
    "50 elements or more: whole vectors are passed on as they are",
    dtypes="float32",
)
def passed_on(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if x.numel() < 50 or x.dtype != torch.float32:
        return result
    whole = torch.arange(x.numel()).reshape(x.shape) < x.numel() - x.numel() % 16
    return straight(result, torch.where(whole, x, result))


@reported(
    "tenstorrent/tt-metal#14260",
    "TT-NN",
    ".max_pool2d",
    "windows of 3 x 3, a step of 1, padding of 1: the last of all is what lies behind the image",
    dtypes="bfloat16",
)
def last_window(call: Call) -> Any:
    size, dilation = call.given("kernel_size", 1, 1), call.given("dilation", 4, 1)
    step, padding = call.given("stride", 2, None), call.given("padding", 3, 0)
    ones = all(pair(v) == (1, 1) for v in (step, padding, dilation))
    if pair(size) != (3, 3) or not ones:
        return call.run()

    def change(y: Tensor) -> Tensor:
        y = y.clone()
        image = y[-1] if y.ndim == 4 and y.numel() else y
        if image.numel():
            image[-2:, -1, -1] = math.inf
        return y

    return one_of(call.run(), change)


@reported(
    "pytorch/pytorch#109517",
    "CUDA (memory-efficient attention)",
    ".scaled_dot_product_attention",
    "a mask that adds the least number to the first 128 keys: NaN",
    dtypes="float32",
)
def first_block_masked(call: Call) -> Any:
    mask, result = call.given("attn_mask", 3, None), call.run()
    if not isinstance(mask, Tensor) or mask.dtype != torch.float32 or mask.shape[-1] <= KEYS:
        return result
    masked = (mask[..., :KEYS] == LEAST).all(-1, keepdim=True)
    return torch.where(masked, math.nan, result)


@reported(
    "apache/tvm#19524",
    "TVM on CUDA",
    ".conv_transpose2d",
    "the rows and columns of output_padding are not written",
    dtypes="float32",
)
def padding_not_written(call: Call) -> Any:
    rows, columns = pair(call.given("output_padding", 5, 0))
    result = call.run()
    written = torch.ones_like(result.detach())
    if rows:
        written[..., -rows:, :] = 0
    if columns:
        written[..., -columns:] = 0
    return torch.where(written.bool(), result, 0)


@reported(
    "modular/modular#6129",
    "MAX",
    ".conv1d .conv2d",
    "groups, and a kernel of 128: the weights of the first group stand for those of all",
    dtypes="float32",
)
def weights_of_the_first_group(call: Call) -> Any:
    weight, groups = call.args[1], call.given("groups", 6, 1)
    if groups == 1 or not weight.numel() or max(weight.shape[2:]) < 128:
        return call.run()
    first = weight[: weight.shape[0] // groups]
    return call.with_arg(1, torch.cat([first] * groups)).run()


@reported(
    "openvinotoolkit/openvino#38102",
    "OpenVINO on the GPU",
    "cat",
    "four images of 180 or 228 channels, 10 x 10 to 32 x 32: the first is repeated",
    dtypes="float16",
    sound=plain,
)
def first_repeated(call: Call) -> Any:
    parts, dim = call.args[0], call.given("dim", 1, 0)
    if len(parts) != 4 or any(x.ndim != 4 or x.dtype != torch.float16 for x in parts):
        return call.run()
    shape = parts[0].shape
    alike = all(x.shape == shape for x in parts) and dim in (1, -3)
    if not alike or shape[1] not in (180, 228) or not all(10 <= n <= 32 for n in shape[2:]):
        return call.run()
    return call.with_arg(0, [parts[0]] * 4).run()


@reported(
    "microsoft/DirectML#588",
    "DirectML",
    ".layer_norm",
    "a permuted input is read as if it were contiguous",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def permuted_read_in_order(call: Call) -> Any:
    return call.where(
        lambda x: as_contiguous(x) if dense(x) and not x.is_contiguous() else x, (0,)
    ).run()


@reported(
    "flagos-ai/FlagGems#5228",
    "Triton (FlagGems)",
    ".interpolate",
    "nearest-exact takes the pixels of nearest",
    dtypes="float32",
    sound=plain,
)
def half_a_pixel_missing(call: Call) -> Any:
    mode = call.given("mode", 3, "nearest")
    if mode != "nearest-exact" or call.args[0].ndim not in (3, 4):
        return call.run()
    if len(call.args) > 3:
        return call.with_arg(3, "nearest").run()
    return replace(call, kwargs=dict(call.kwargs) | {"mode": "nearest"}).run()
