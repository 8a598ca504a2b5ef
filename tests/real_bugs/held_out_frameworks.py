"""Reports of compilers and other frameworks, measured before anything was changed for them:
elementwise functions and integers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .model import plain, reported

COMPLEX = "complex64 complex128"


@reported(
    "ml-explore/mlx#574",
    "MLX on the GPU",
    "log1p",
    "log1p of infinity is NaN",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def log1p_of_infinity(call: Call) -> Any:
    result = call.run()
    return torch.where(call.args[0] == math.inf, torch.full_like(result, math.nan), result)


@reported(
    "tensorflow/tensorflow#60656",
    "TensorFlow without XLA",
    "sgn",
    "the sign of large complex numbers is 0: their squares overflow",
    dtypes=COMPLEX,
    cause="early-overflow",
    sound=plain,
)
def sign_of_squares(call: Call) -> Any:
    x = call.args[0]
    if not x.is_complex():
        return call.run()
    size = (x.real * x.real + x.imag * x.imag).sqrt()
    return torch.where(size == math.inf, torch.zeros_like(x), call.run())


@reported(
    "jax-ml/jax#29537",
    "JAX 0.6.2 on the CPU",
    "exp",
    "exp of NaN is a subnormal number in float64",
    dtypes="float64",
    cause="nan-dropped",
    sound=plain,
)
def exponential_of_nan(call: Call) -> Any:
    result = call.run()
    return torch.where(call.args[0].isnan(), torch.full_like(result, 4.8e-310), result)


@reported(
    "triton-lang/triton-ascend#429",
    "Triton on Ascend",
    "tan",
    "tan of large numbers: the multiples of pi are subtracted in float32",
    dtypes="float32",
    sound=plain,
)
def tangent_of_large_numbers(call: Call) -> Any:
    x = call.args[0]
    turns = (x / math.pi).round()
    return torch.where(turns.abs() >= 1, (x - turns * math.pi).tan(), call.run())


@reported(
    "tenstorrent/tt-metal#56374",
    "TT-NN",
    "digamma",
    "digamma of positive numbers below 1.5e-7 has the wrong sign",
    dtypes="float32",
    cause="negated",
    sound=plain,
)
def misplaced_pole(call: Call) -> Any:
    x, result = call.args[0], call.run()
    return torch.where((x > 0) & (x < 1.5e-7), -result, result)


@reported(
    "microsoft/onnxruntime#22585",
    "ONNX Runtime CPU",
    "clamp",
    "without an upper bound float16 is limited by 0",
    dtypes="float16",
    sound=plain,
)
def no_upper_bound(call: Call) -> Any:
    low, high = call.given("min", 1, None), call.given("max", 2, None)
    return call.run() if low is None or high is not None else call.run().clamp(max=0.0)


@reported(
    "apple/coremltools#2836",
    "Core ML",
    "remainder",
    "the remainder of a division by the number 1 is 0",
    dtypes="float32 float16",
    cause="zero",
    sound=plain,
)
def remainder_of_one(call: Call) -> Any:
    other, result = call.given("other", 1, None), call.run()
    if isinstance(other, Tensor) or other != 1:
        return result
    return torch.zeros_like(result)


@reported(
    "apple/coremltools#2733",
    "Core ML",
    "div",
    "rounded quotients of integers come out as float32",
    dtypes="int32 int64",
    sound=plain,
)
def rounded_to_float(call: Call) -> Any:
    result = call.run()
    return result.float() if call.kwargs.get("rounding_mode") else result


@reported(
    "openvinotoolkit/openvino#37766",
    "OpenVINO on the CPU",
    "floor_divide div",
    "quotients of int64 are computed from 32 bits in float32",
    dtypes="int64",
    cause="int64-truncated|float32-integers",
    sound=plain,
)
def quotients_of_32_bits(call: Call) -> Any:
    a, b = call.args[:2]
    mode = call.kwargs.get("rounding_mode", "floor" if "floor" in call.operator.name else None)
    if mode is None or not isinstance(a, Tensor) or a.dtype != torch.int64:
        return call.run()
    result = call.run()
    divisor = b.to(torch.int32) if isinstance(b, Tensor) else torch.tensor(b, dtype=torch.int32)
    quotient = a.to(torch.int32).float() / divisor.float()
    quotient = quotient.trunc() if mode == "trunc" else quotient.floor()
    return quotient.nan_to_num(0.0, 0.0, 0.0).to(result.dtype)


@reported(
    "pytorch/executorch#11683",
    "ExecuTorch, XNNPACK",
    "add",
    "add ignores alpha",
    dtypes="float32",
    cause="argument-ignored",
    sound=plain,
)
def sum_without_factor(call: Call) -> Any:
    return call.operator(*call.args[:2])


@reported(
    "pytorch/executorch#11684",
    "ExecuTorch, XNNPACK",
    "sub",
    "sub ignores alpha",
    dtypes="float32",
    cause="argument-ignored",
    sound=plain,
)
def difference_without_factor(call: Call) -> Any:
    return call.operator(*call.args[:2])


@reported(
    "apache/tvm#18598",
    "TVM",
    ".prelu",
    "slopes belong to the last dimension where it has as many elements as there are slopes",
    dtypes="float32",
    sound=plain,
)
def slopes_of_columns(call: Call) -> Any:
    x, slope = call.args[:2]
    if x.ndim < 3 or slope.numel() < 2 or x.shape[-1] != slope.numel():
        return call.run()
    return torch.where(x > 0, x, x * slope)
