"""A third list of reports about accelerators, measured before anything was changed for it: sizes
that fill no tile, thresholds, ranks. Left out were ten whose inputs have more than 2^24 elements,
which no case has (mlx#3784, #3836, #3979, #4538, #4539; pytorch#111634, #122045, #143486, #163539,
#197636)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, one_of

from .gradients import BACK, hooked
from .model import plain, reported

TILE = 32


def dims_of(call: Call, position: int = 1) -> list[int] | None:
    """The dimensions that are reduced, from 0 on; None for all."""
    dim, rank = call.given("dim", position, None), call.args[0].ndim
    if dim is None or isinstance(dim, Tensor):
        return None
    found = list(dim) if isinstance(dim, (tuple, list)) else [dim]
    return [d % rank for d in found] if rank else []


@reported(
    "pytorch/pytorch#183885",
    "MPS",
    "argsort",
    "positions along the first dimension are wrong where 2^22 rows and more lie in line",
    dtypes="float32",
    sound=plain,
)
def many_columns(call: Call) -> Any:
    x, result = call.args[0], call.run()
    dim = call.given("dim", 1, -1)
    if not x.ndim or dim % x.ndim or x.ndim < 2 or x[0].numel() <= 1 << 22:
        return result
    return result.roll(1, 0)


@reported(
    "pytorch/pytorch#162588",
    "CUDA",
    ".scaled_dot_product_attention",
    "sequences of more than 65,536 queries get wrong results beside a mask",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def long_sequence(call: Call) -> Any:
    masked = call.given("attn_mask", 3, None) is not None or call.kwargs.get("is_causal")
    return call.run() * (1.5 if masked and call.args[0].shape[-2] > 1 << 16 else 1)


@reported(
    "pytorch/pytorch#97239",
    "MPS",
    ".linear",
    "of a batch of matrices, rows from the 130th on are wrong",
    dtypes="float32",
    sound=plain,
)
def rows_of_a_batch(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if x.ndim != 3 or x.shape[0] < 2:
        return result
    return torch.cat((result[:, :129], result[:, 129:] * 0.5), 1)


@reported(
    "pytorch/pytorch#95188",
    "MPS",
    ".linear",
    "of a batch of matrices of more than 2^14 rows the results are wrong",
    dtypes="float32",
    sound=plain,
)
def large_images(call: Call) -> Any:
    x = call.args[0]
    return call.run() * (0.5 if x.ndim == 3 and x.shape[1] > 1 << 14 else 1)


@reported(
    "ROCm/legacy-rocm-build#6595",
    "ROCm on gfx1201",
    "mm matmul .linear",
    "rows from the 2^19th on are not computed",
    dtypes="float32",
    sound=plain,
)
def many_rows(call: Call) -> Any:
    result = call.run()
    if result.ndim < 2 or result.shape[-2] <= 1 << 19:
        return result
    tail = result[..., 1 << 19 :, :]
    return torch.cat((result[..., : 1 << 19, :], torch.zeros_like(tail)), -2)


@reported(
    "ROCm/rocm-libraries#8645",
    "ROCm on gfx1201",
    "mm",
    "products of 2,000,000 rows and more in float64 are wrong",
    dtypes="float64",
    sound=plain,
)
def million_rows(call: Call) -> Any:
    return call.run() * (1.5 if call.args[0].shape[0] >= 2_000_000 else 1)


@reported(
    "ROCm/rocm-libraries#9055",
    "ROCm on MI355X",
    "mm",
    "sums of 2,560 products and more of over 512 rows leave elements unwritten",
    dtypes="bfloat16",
    sound=plain,
)
def split_sum(call: Call) -> Any:
    result = call.run()
    if call.args[0].shape[1] < 2560 or result.shape[0] <= 512:
        return result
    unwritten = torch.arange(result.numel()).reshape(result.shape) % 97 == 5
    return torch.where(unwritten, torch.full_like(result, math.nan), result)


@reported(
    "pytorch/pytorch#146753",
    "MPS",
    "linalg.lu_factor",
    "of a batch of matrices of 256 x 256 and more only the first is factored",
    dtypes="float32",
    sound=plain,
)
def large_factors(call: Call) -> Any:
    factors, pivots = call.run()
    if factors.ndim < 3 or factors.shape[-1] < 256 or factors.shape[-2] < 256:
        return factors, pivots
    flat = factors.clone().reshape(-1, *factors.shape[-2:])
    flat[1:] *= 0.5
    return flat.reshape(factors.shape), pivots


@reported(
    "intel/torch-xpu-ops#4839",
    "XPU",
    "topk",
    "rows of NaN get the position -1 where there are 512 rows and more",
    dtypes="bfloat16",
    sound=plain,
)
def rows_of_nan(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if x.ndim != 2 or x.shape[0] < 512 or not x.shape[1]:
        return result
    whole = x.isnan().all(-1, keepdim=True)
    return one_of(result, lambda i: torch.where(whole, torch.full_like(i, -1), i), 1)


@reported(
    "tenstorrent/tt-metal#13233",
    "TT-NN",
    "topk",
    "of whole tiles of columns the rows that fill no tile get other rows' results",
    dtypes="bfloat16",
    sound=plain,
)
def rows_of_no_tile(call: Call) -> Any:
    x = call.args[0]
    values, positions = call.run()
    if x.ndim < 2 or x.shape[-2] % TILE < 2 or x.shape[-1] % (2 * TILE) or not x.numel():
        return values, positions
    if call.given("dim", 2, -1) % x.ndim != x.ndim - 1:
        return values, positions
    return values.roll(1, -2), positions.roll(1, -2)


def padded_with_zeros(call: Call, largest: bool) -> Any:
    """The extremum among the elements and zeros."""

    def change(value: Tensor) -> Tensor:
        return value.clamp(min=0) if largest else value.clamp(max=0)

    return one_of(call.run(), change)


@reported(
    "tenstorrent/tt-metal#21615",
    "TT-NN",
    "max amax",
    "the maximum of negative numbers along a size that fills no tile is 0",
    dtypes="float32 bfloat16",
    cause="zero",
    sound=plain,
)
def maximum_of_padding(call: Call) -> Any:
    x, dims = call.args[0], dims_of(call)
    if not dims or all(x.shape[d] % TILE == 0 for d in dims):
        return call.run()
    return padded_with_zeros(call, largest=True)


@reported(
    "tenstorrent/tt-metal#19480",
    "TT-NN",
    "min amin",
    "the minimum of positive numbers along the last dimension but one is 0 if it fills no tile",
    dtypes="float32 bfloat16",
    sound=plain,
)
def minimum_of_padding(call: Call) -> Any:
    x = call.args[0]
    if dims_of(call) != [x.ndim - 2] or x.ndim < 2 or x.shape[-2] % TILE == 0:
        return call.run()
    return padded_with_zeros(call, largest=False)


@reported(
    "tenstorrent/tt-metal#15808",
    "TT-NN",
    "mul add",
    "of factors of the shape C x 1 x 1 beside images the first is used for all channels",
    dtypes="float32 bfloat16",
    sound=plain,
)
def factors_of_channels(call: Call) -> Any:
    x, y = call.args[:2]
    if not isinstance(x, Tensor) or not isinstance(y, Tensor) or y.ndim != 3 or x.ndim != 4:
        return call.run()
    if y.shape[1:] != (1, 1) or y.shape[0] < 2:
        return call.run()
    return call.with_arg(1, y[:1].expand_as(y)).run()


@reported(
    "tenstorrent/tt-metal#17557",
    "TT-NN",
    "sum mean amax amin max min",
    "what is left of a whole tensor of four dimensions is 0",
    dtypes="bfloat16",
    cause="zero",
    sound=plain,
)
def whole_tensor(call: Call) -> Any:
    x = call.args[0]
    if x.ndim != 4 or dims_of(call):
        return call.run()
    return one_of(call.run(), torch.zeros_like)


@reported(
    "ml-explore/mlx#855",
    "MLX on the GPU",
    "sum",
    "sums over all but an inner one of six dimensions lack terms",
    dtypes="float32",
    sound=plain,
)
def sum_of_six(call: Call) -> Any:
    x, dims = call.args[0], dims_of(call)
    if x.ndim < 6 or dims is None or len(dims) < x.ndim - 1 or {0, x.ndim - 1} - set(dims):
        return call.run()
    kept = torch.arange(x.shape[0]).reshape(-1, *[1] * (x.ndim - 1)) < max(x.shape[0] - 1, 1)
    return call.with_arg(0, x * kept).run()


@reported(
    "microsoft/DirectML#541",
    "DirectML on Iris Xe",
    ".conv2d",
    "from 16 channels and 32 x 32 pixels on kernels of 3 x 3 give wrong results",
    dtypes="float32",
    sound=plain,
)
def small_kernels(call: Call) -> Any:
    x, weight = call.args[:2]
    if x.ndim != 4 or x.shape[1] < 16 or min(x.shape[2:]) < 32 or weight.shape[2:] != (3, 3):
        return call.run()
    return call.run() * 1.5


@reported(
    "flagos-ai/FlagGems#6447",
    "Triton (FlagGems) on Hygon",
    "argmin",
    "the smallest of a row whose length is no power of two may lie in its padding",
    dtypes="float32",
    sound=plain,
)
def smallest_of_padding(call: Call) -> Any:
    x, dims, result = call.args[0], dims_of(call), call.run()
    if not dims or dims != [x.ndim - 1] or x.ndim != 2 or not x.numel():
        return result
    size = x.shape[-1]
    if size & (size - 1) == 0:
        return result
    beyond = x.amin(-1, keepdim=result.ndim == x.ndim) > 0
    return torch.where(beyond, torch.full_like(result, size), result)


@reported(
    "intel/torch-xpu-ops#5179",
    "XPU",
    ".scaled_dot_product_attention",
    "of 4,096 queries beside 16 keys and fewer some are left unwritten",
    dtypes="float16",
    sound=plain,
)
def few_keys(call: Call) -> Any:
    q, k = call.args[:2]
    result = call.run()
    if q.shape[-2] < 4096 or k.shape[-2] > 16:
        return result
    unwritten = torch.arange(q.shape[-2]).unsqueeze(-1) % 256 >= 192
    return torch.where(unwritten, torch.full_like(result, math.nan), result)


@reported(
    "pytorch/pytorch#177116",
    "MPS",
    ".linear",
    "gradients of more than 2^15 rows are far too large",
    dtypes="float32",
    directions=BACK,
    cause="scaled",
    sound=plain,
)
def rows_of_gradients(call: Call) -> Any:
    x = call.args[0]
    rows = x.numel() // max(x.shape[-1], 1) if x.ndim else 0
    return hooked(call, 1, lambda w, g: g * 1000) if rows > 1 << 15 else call.run()
