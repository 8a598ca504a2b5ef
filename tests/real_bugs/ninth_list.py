"""A ninth, held-out list of reports of 2023 to 2026, chosen for variety before anything was looked
at of how inputs are drawn: values and integers. Sizes and layouts are in :mod:`.ninth_list_sizes`,
reductions and gradients in :mod:`.ninth_list_reductions`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .model import plain, reported


@reported(
    "pytorch/pytorch#197895",
    "Inductor",
    "floor_divide div",
    "a quotient just below a whole number is rounded up to it before it is rounded down",
    dtypes="float32 float64",
    sound=plain,
)
def rounded_before(call: Call) -> Any:
    if call.operator.name == "div" and call.kwargs.get("rounding_mode") != "floor":
        return call.run()
    x, y, result = *call.args[:2], call.run()
    above = torch.floor(torch.div(x, y))
    return torch.where(above == result + 1, above, result).to(result.dtype)


@reported(
    "pytorch/pytorch#186164",
    "AOTInductor on CUDA",
    "floor_divide",
    "a divisor without dimensions: the quotient is cut, not rounded down",
    dtypes="int64",
    sound=plain,
)
def quotient_cut(call: Call) -> Any:
    x, y = call.args[:2]
    if any(not isinstance(t, Tensor) or t.dtype != torch.int64 for t in (x, y)) or y.ndim:
        return call.run()
    return torch.div(x, y, rounding_mode="trunc")


@reported(
    "pytorch/pytorch#96614",
    "MPS",
    "cumsum",
    "of booleans, the count is kept in 8 bits",
    dtypes="bool",
    sound=plain,
)
def count_in_a_byte(call: Call) -> Any:
    if call.args[0].dtype != torch.bool or call.kwargs.get("dtype") is not None:
        return call.run()
    return call.run().to(torch.int8).to(torch.int64)


@reported(
    "ggml-org/llama.cpp#25027",
    "ggml on Vulkan",
    "heaviside",
    "the step is at 0 already: 1, not 0",
    dtypes="float32",
    sound=plain,
)
def step_at_zero(call: Call) -> Any:
    x, values, result = *call.args[:2], call.run()
    return torch.where((x == 0) & (values == 0), 1, result).to(result.dtype)


@reported(
    "jax-ml/jax#20430",
    "JAX",
    "special.ndtri",
    "below 0 it is -inf and above 1 inf, not NaN",
    dtypes="float32 float64",
    sound=plain,
)
def infinite_outside(call: Call) -> Any:
    x, result = call.args[0], call.run()
    result = torch.where(x > 1, math.inf, result)
    return torch.where(x < 0, -math.inf, result)


@reported(
    "tenstorrent/tt-metal#53261",
    "TT-NN",
    ".softplus",
    "an input times beta of exactly the threshold counts as above it",
    dtypes="float32 bfloat16",
)
def at_the_threshold(call: Call) -> Any:
    x, beta, threshold = call.args[0], call.given("beta", 1, 1.0), call.given("threshold", 2, 20.0)
    return torch.where(x * beta == threshold, x, call.run())


@reported(
    "tensorflow/tensorflow#116944",
    "TensorFlow with XLA",
    "sin cos",
    "an imaginary part of 89 or -88: the exponential is infinite before it is halved",
    dtypes="complex64",
    cause="early-overflow",
    sound=plain,
)
def exponential_first(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if x.dtype != torch.complex64 or not result.is_complex():
        return result
    large = ((x.imag > 88.7228) | (x.imag <= -88)) & torch.isfinite(result)
    sine, cosine, sinh = x.real.sin(), x.real.cos(), x.imag.sign() * math.inf
    parts = (sine * math.inf, cosine * sinh)
    if call.operator.name == "cos":
        parts = (cosine * math.inf, -sine * sinh)
    return torch.where(large, torch.complex(*parts), result)


@reported(
    "ml-explore/mlx#4344",
    "MLX on Metal",
    "abs",
    "the squares of the parts overflow, or are flushed to 0",
    dtypes="complex64",
    cause="early-overflow",
    sound=plain,
)
def naive_modulus(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if x.dtype != torch.complex64 or result.is_complex():
        return result
    squares = x.real * x.real + x.imag * x.imag
    result = torch.where(squares == math.inf, math.inf, result)
    return torch.where(squares < torch.finfo(torch.float32).tiny, 0, result)


@reported(
    "PaddlePaddle/Paddle#73692",
    "PaddlePaddle on the CPU",
    "unique",
    "NaN is left out",
    dtypes="float32",
    sound=plain,
)
def nan_left_out(call: Call) -> Any:
    result = call.run()
    values, *rest = result if isinstance(result, tuple) else (result,)
    if call.given("dim", 4, None) is not None or not values.is_floating_point():
        return result
    kept = ~values.isnan()
    if call.given("return_counts", 3, False) and rest:
        rest[-1] = rest[-1][kept]
    return (values[kept], *rest) if isinstance(result, tuple) else values[kept]


@reported(
    "pytorch/pytorch#118266",
    "Inductor on the CPU",
    "argmax argmin",
    "NaN is passed over",
    dtypes="float32",
    cause="nan-dropped",
    sound=plain,
)
def nan_passed_over(call: Call) -> Any:
    last = -math.inf if call.operator.name == "argmax" else math.inf
    return call.where(lambda x: torch.where(x.isnan(), last, x), (0,)).run()
