"""A ninth, held-out list of reports of 2023 to 2026 (see :mod:`.ninth_list`), chosen for variety
before anything was looked at of how inputs are drawn: reductions, gradients."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .gradients import BACK, hooked
from .model import plain, reported
from .seventh_list_sizes import watched


def dims_of(x: Tensor, dim: Any) -> list[int]:
    """The dimensions that are reduced; all of them where none is given."""
    given = dim if isinstance(dim, (list, tuple)) else [] if dim is None else [dim]
    return [d % max(x.ndim, 1) for d in given] or list(range(x.ndim))


def any_of(found: Tensor, dim: Any, result: Tensor) -> Tensor:
    """Whether something was found in what became each element of the result."""
    for d in dims_of(found, dim) if found.ndim else ():
        found = found.any(d, keepdim=True)
    return found.reshape(result.shape)


@reported(
    "tracel-ai/burn#2509",
    "burn on the CPU",
    "prod",
    "a negative factor: NaN, from its logarithm",
    dtypes="float32",
)
def product_by_logarithms(call: Call) -> Any:
    x, dim, result = call.args[0], call.given("dim", 1, None), call.run()
    if x.dtype != torch.float32:
        return result
    return torch.where(any_of(x < 0, dim, result), math.nan, result)


@reported(
    "ml-explore/mlx#576",
    "MLX",
    "logsumexp",
    "a row with infinity: NaN",
    dtypes="float32",
)
def infinity_less_itself(call: Call) -> Any:
    x, dim, result = call.args[0], call.given("dim", 1, None), call.run()
    return torch.where(any_of(x == math.inf, dim, result), math.nan, result)


@reported(
    "PaddlePaddle/Paddle#69859",
    "PaddlePaddle on the CPU",
    "log_softmax",
    "-inf counts as 64 below the largest",
    dtypes="float32",
)
def sixty_four_below(call: Call) -> Any:
    x, dim, result = call.args[0], call.given("dim", 1, None), call.run()
    if not x.ndim or not x.numel() or dim is None or call.kwargs.get("dtype") is not None:
        return result
    largest = x.amax(dim, keepdim=True)
    below = largest - x.logsumexp(dim, keepdim=True) - 64
    return torch.where((x == -math.inf) & largest.isfinite(), below, result)


@reported(
    "flagos-ai/FlagGems#4995",
    "Triton (FlagGems)",
    "log_softmax",
    "along a dimension that is not the last, elements side by side make a row",
    dtypes="float32",
)
def rows_side_by_side(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 1, None)
    if x.ndim < 2 or not x.numel() or dim is None:
        return call.run()
    dim %= x.ndim
    if math.prod(x.shape[dim + 1 :]) == 1:
        return call.run()
    rows = x.reshape(-1, x.shape[dim])
    return torch.log_softmax(rows, -1, dtype=call.kwargs.get("dtype")).reshape(x.shape)


@reported(
    "torch-spyre/torch-spyre#4351",
    "Spyre",
    "scatter_reduce",
    "rows that meet in one place: the last of them stands there, not their product, mean or bound",
    dtypes="float16 bfloat16 float32 int32",
    sound=plain,
)
def last_of_them(call: Call) -> Any:
    x, dim, index, source = call.args[:4]
    result = call.run()
    if call.given("reduce", 4, "sum") == "sum" or not x.ndim or dim % x.ndim or not index.numel():
        return result
    ones = torch.ones_like(index)
    often = torch.zeros(x.shape, dtype=torch.int64).scatter_add(dim, index, ones)
    return torch.where(often > 1, x.scatter(dim, index, source), result)


@reported(
    "pytorch/pytorch#174016",
    "Inductor on CUDA",
    "cumprod",
    "the gradient of a factor that is 0 is 0",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def gradient_of_zeros(call: Call) -> Any:
    return hooked(call, 0, lambda x, gradient: torch.where(x == 0, 0, gradient))


@reported(
    "pytorch/pytorch#185517",
    "Inductor on the CPU",
    ".margin_ranking_loss",
    "the margin is not rounded: a loss of exactly 0 has no gradient",
    dtypes="bfloat16",
    directions=BACK,
    sound=plain,
)
def margin_not_rounded(call: Call) -> Any:
    x, y, target = call.args[:3]
    margin, reduction = call.given("margin", 3, 0.0), call.given("reduction", 6, "mean")
    if any(t.dtype != torch.bfloat16 for t in (x, y, target)):
        return call.run()
    terms = -target * (x - y)
    before = terms + margin
    loss = before.clamp_min(0)
    lost = (before == 0) & (terms.double() + margin < 0)
    loss = torch.where(lost, loss.detach(), loss)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


@reported(
    "tenstorrent/tt-metal#56378",
    "TT-NN",
    "atanh",
    "a gradient of 0 becomes NaN where the input is not 0",
    dtypes="float32 bfloat16",
    directions=BACK,
    sound=plain,
)
def nan_of_no_gradient(call: Call) -> Any:
    seen: list[Tensor] = []

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        return torch.where((seen[-1] == 0) & (x != 0) & (x.abs() < 1), math.nan, gradient)

    return watched(hooked(call, 0, change), seen)
