"""A tenth, held-out list of reports of 2023 to 2026 (see :mod:`.tenth_list`), chosen for variety
before anything was looked at of how inputs are drawn: reductions, gradients."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, one_of, straight

from .gradients import BACK, hooked
from .model import plain, reported
from .ninth_list_reductions import dims_of
from .seventh_list_sizes import watched


@reported(
    "tenstorrent/tt-metal#12662",
    "TT-NN",
    "amax max",
    "rows of negative numbers, no multiple of 32 of them: 0, of the filling",
    dtypes="bfloat16",
)
def zeros_behind_the_row(call: Call) -> Any:
    x, dim, result = call.args[0], call.given("dim", 1, None), call.run()
    if not isinstance(dim, int) and not (isinstance(dim, (list, tuple)) and len(dim) == 1):
        return result
    (d,) = dims_of(x, dim) if x.ndim else (0,)
    if x.ndim < 2 or d != x.ndim - 1 or x.shape[-1] % 32 == 0 or x.dtype != torch.bfloat16:
        return result
    return one_of(result, lambda y: straight(y, y.detach().clamp_min(0)))


@reported(
    "ml-explore/mlx#597",
    "MLX",
    "var",
    "a correction of more than the elements divides by a negative number",
    dtypes="float32",
    sound=plain,
)
def negative_divisor(call: Call) -> Any:
    x, dim, result = call.args[0], call.given("dim", 1, None), call.run()
    number = math.prod(x.shape[d] for d in dims_of(x, dim)) if x.ndim else 1
    correction = call.kwargs.get("correction", 1)
    if not isinstance(correction, (int, float)) or correction <= number or not number:
        return result
    whole = torch.var(x.detach(), dims_of(x, dim) if x.ndim else None, correction=0)
    return (whole * (number / (number - correction))).reshape(result.shape)


@reported(
    "ml-explore/mlx#1302",
    "MLX",
    "std",
    "the mean of squares less the square of the mean: NaN where that is negative",
    dtypes="float32",
    cause="one-pass-variance",
)
def one_pass_deviation(call: Call) -> Any:
    x, dim, result = call.args[0], call.given("dim", 1, None), call.run()
    if not x.numel() or not x.ndim or x.dtype != torch.float32:
        return result
    y, dims = x.detach(), dims_of(x, dim)
    variance = (y * y).mean(dims) - y.mean(dims).square()
    return straight(result, torch.where(variance.reshape(result.shape) < 0, math.nan, result))


@reported(
    "openvinotoolkit/openvino#35648",
    "OpenVINO on the CPU",
    "logsumexp",
    "the exponential of 89 is infinite before the logarithm is taken",
    dtypes="float32",
    cause="no-max-shift|early-overflow",
)
def largest_not_taken_away(call: Call) -> Any:
    x, dim, result = call.args[0], call.given("dim", 1, None), call.run()
    if not x.ndim or x.dtype != torch.float32:
        return result
    naive = x.detach().exp().sum(dims_of(x, dim)).log().reshape(result.shape)
    return straight(result, naive.to(result.dtype))


@reported(
    "tenstorrent/tt-metal#54439",
    "TT-NN",
    "pow",
    "the gradient of a power of a negative number is infinite",
    dtypes="bfloat16",
    directions=BACK,
    sound=plain,
)
def infinite_gradient(call: Call) -> Any:
    x, y = call.args[:2]
    if not isinstance(x, Tensor) or isinstance(y, Tensor) or y == 0:
        return call.run()
    return hooked(call, 0, lambda t, gradient: torch.where(t < 0, math.inf, gradient))


@reported(
    "tenstorrent/tt-metal#55289",
    "TT-NN",
    "__rpow__",
    "the gradient is that of the power with base and exponent exchanged; NaN for a negative one",
    dtypes="bfloat16 float32",
    directions=BACK,
    sound=plain,
)
def exchanged(call: Call) -> Any:
    base = call.args[1]
    seen: list[Tensor] = []
    if isinstance(base, (Tensor, complex)):
        return call.run()

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        wrong = seen[-1] * base * x.pow(base - 1)
        return torch.where(x < 0, math.nan, wrong).to(gradient.dtype)

    return watched(hooked(call, 0, change), seen)


@reported(
    "tenstorrent/tt-metal#55316",
    "TT-NN",
    "xlogy",
    "the gradient at a logarithm of 0 is infinite with the sign of what arrives, whatever the "
    "factor is",
    dtypes="float32 bfloat16",
    directions=BACK,
    sound=plain,
)
def sign_of_what_arrives(call: Call) -> Any:
    x, y = call.args[:2]
    if not all(isinstance(t, Tensor) for t in (x, y)) or x.shape != y.shape:
        return call.run()
    seen: list[Tensor] = []

    def change(other: Tensor, gradient: Tensor) -> Tensor:
        return torch.where(other == 0, seen[-1].sign() * math.inf, gradient).to(gradient.dtype)

    return watched(hooked(call, 1, change), seen)


@reported(
    "linkedin/Liger-Kernel#968",
    "Liger",
    ".cross_entropy",
    "without reduction, what arrives at the first loss is taken to arrive at all",
    dtypes="float32 bfloat16",
    directions=BACK,
    sound=plain,
)
def first_arrives_at_all(call: Call) -> Any:
    result = call.run()
    if call.kwargs.get("reduction", "mean") != "none" or not result.requires_grad:
        return result
    out = result.view_as(result)
    if out.numel():
        out.register_hook(lambda gradient: gradient.reshape(-1)[0].expand_as(gradient))
    return out


@reported(
    "tracel-ai/burn#4069",
    "burn",
    "cat",
    "behind a part without a gradient, others get the gradient of the places before theirs",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def places_before_theirs(call: Call) -> Any:
    parts, dim = call.args[0], call.given("dim", 1, 0)
    seen: list[Tensor] = []
    hooks: list[Tensor] = []
    if not any(t.requires_grad for t in parts) or all(t.requires_grad for t in parts):
        return call.run()
    if any(t.ndim != parts[0].ndim for t in parts):
        return call.run()
    before = 0
    for t in parts:
        if not t.requires_grad:
            hooks.append(t)
            continue
        y, start, length = t.view_as(t), before, t.shape[dim]
        y.register_hook(lambda _, s=start, n=length: seen[-1].narrow(dim, s, n))
        hooks.append(y)
        before += length
    return watched(call.with_arg(0, hooks).run(), seen)
