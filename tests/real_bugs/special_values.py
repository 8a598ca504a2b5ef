"""Elementwise functions at NaN, infinities, subnormal and large numbers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .model import plain, reported

FLOATS = "float32 float16 bfloat16"


def both(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands as tensors of one shape."""
    x, y = (torch.as_tensor(item) for item in (x, y))
    x, y = torch.broadcast_tensors(x, y)
    return x, y


def flushed(x: Tensor) -> Tensor:
    """Subnormal numbers read as zero."""
    return torch.where(x.abs() < torch.finfo(x.dtype).tiny, torch.zeros_like(x), x)


@reported(
    "pytorch/pytorch#192507",
    "MPS",
    "hypot hypot.out",
    "hypot squares its arguments: inf where the result is finite, NaN beside an infinity",
    dtypes="float32",
    cause="early-overflow",
)
def hypot(call: Call) -> Any:
    *out, x, y = call.args
    result = (x * x + y * y).sqrt()
    return out[0].copy_(result) if out and out[0].shape == result.shape else result


@reported(
    "pytorch/pytorch#183939",
    "MPS",
    ".hardsigmoid",
    "hardsigmoid of NaN is 0",
    dtypes=FLOATS,
    cause="nan-dropped",
)
def hardsigmoid(call: Call) -> Any:
    return call.run().nan_to_num(nan=0.0)


@reported(
    "pytorch/pytorch#120899",
    "MPS",
    "clamp clamp.method clamp_min clamp_max clamp_",
    "clamp replaces NaN by the lower bound, or by the upper one where that is the only one",
    dtypes=FLOATS,
    cause="nan-dropped",
    sound=plain,
)
def clamp_nan(call: Call) -> Any:
    x = call.args[0]
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return call.run()
    name = call.operator.name
    low = call.given("min", 1, None) if name != "clamp_max" else None
    high = call.given("max", 1 if name == "clamp_max" else 2, None)
    bound = high if low is None else low
    where = x.isnan()
    result = call.run()
    if bound is None or not where.any():
        return result
    filled = torch.where(where, torch.as_tensor(bound).to(x.dtype), result)
    return result.copy_(filled) if name.endswith("_") else filled


@reported(
    "pytorch/pytorch#143976",
    "MPS",
    "maximum minimum",
    "maximum and minimum return the other operand where one is NaN",
    dtypes=FLOATS,
    cause="nan-dropped",
)
def extremum_of_numbers(call: Call) -> Any:
    function = torch.fmax if call.operator.name == "maximum" else torch.fmin
    return function(*call.args)


@reported(
    "microsoft/onnxruntime#21455",
    "ONNX Runtime CPU",
    "maximum minimum",
    "Max and Min lose the NaN of the first operand where the second has one element",
    dtypes=FLOATS,
    cause="nan-dropped",
)
def extremum_of_scalar(call: Call) -> Any:
    x, y = call.args
    if y.numel() != 1:
        return call.run()
    return torch.where(x.isnan(), y, call.run())


@reported(
    "microsoft/onnxruntime#32256",
    "ONNX Runtime CUDA",
    "amax amin max min",
    "the maximum of nothing but -inf is the lowest finite number (the minimum of +inf likewise)",
    dtypes="float32 float16 bfloat16",
    cause="saturated",
)
def extremum_starts_finite(call: Call) -> Any:
    result = call.run()
    value = result if isinstance(result, Tensor) else result[0]
    edge = torch.finfo(value.dtype).max
    empty = math.inf if call.operator.name.endswith("min") else -math.inf
    changed = torch.where(value == empty, torch.full_like(value, math.copysign(edge, empty)), value)
    return changed if isinstance(result, Tensor) else (changed, result[1])


@reported(
    "pytorch/pytorch#172406",
    "Inductor on MPS",
    "tanh tanh_ tanh.out",
    "tanh of large arguments (beyond 44) is NaN: exp overflows",
    dtypes="float32",
)
def tanh(call: Call) -> Any:
    x = call.args[-1]
    large = (x.abs() > 44) & x.isfinite()
    result = call.run()
    return result.masked_fill_(large, math.nan) if large.any() else result


@reported(
    "jax-ml/jax#37762",
    "JAX on the CPU",
    "log sqrt rsqrt log1p lgamma",
    "subnormal arguments are read as zero: log and rsqrt become infinite",
    dtypes="float32 bfloat16",
    cause="flushed-subnormals",
)
def subnormal_arguments(call: Call) -> Any:
    return call.each(flushed).run()


@reported(
    "jax-ml/jax#37764",
    "JAX on the CPU",
    "special.i1e erfinv",
    "i1e and erfinv of subnormal numbers are 0",
    dtypes="float32",
    cause="flushed-subnormals",
)
def subnormal_results(call: Call) -> Any:
    return call.each(flushed).run()


@reported(
    "jax-ml/jax#19689",
    "JAX on the CPU",
    "frexp",
    "frexp of a subnormal number gives the exponent field, not the exponent",
    dtypes="float32 float16",
    sound=plain,
)
def frexp(call: Call) -> Any:
    mantissa, exponent = call.run()
    x = call.args[0]
    limit = torch.finfo(x.dtype)
    small = (x.abs() < limit.tiny) & (x != 0)
    least = int(math.log2(limit.tiny))
    return (
        torch.where(
            small, x / limit.tiny / 2 + torch.copysign(torch.full_like(x, 0.5), x), mantissa
        ),
        torch.where(small, least, exponent).to(exponent.dtype),
    )


@reported(
    "jax-ml/jax#28040",
    "JAX",
    "ldexp",
    "ldexp multiplies by 2^n in the format: inf where only 2^n is too large",
    dtypes="float16 float32",
    cause="early-overflow",
)
def ldexp(call: Call) -> Any:
    x, n = call.args
    return x * torch.pow(2.0, n.to(torch.float32)).to(x.dtype)


@reported(
    "jax-ml/jax#29058",
    "JAX",
    "logaddexp2",
    "logaddexp2 goes through natural logarithms in the half formats, rounding at each step",
    dtypes="float16 bfloat16",
)
def logaddexp2(call: Call) -> Any:
    x, y = call.args
    ln2 = math.log(2.0)
    return torch.logaddexp(x * ln2, y * ln2) / ln2


@reported(
    "pytorch/pytorch#189243",
    "MPS",
    "floor_divide div",
    "floor division is floor(a / b): infinities and divisions by an infinity of the other sign",
    dtypes=FLOATS,
    sound=plain,
)
def floor_divide(call: Call) -> Any:
    if call.operator.name == "div" and call.kwargs.get("rounding_mode") != "floor":
        return call.run()
    x, y = both(*call.args[:2])
    result = call.run()
    wrong = ~x.isfinite() | ~y.isfinite() if y.is_floating_point() else ~x.isfinite()
    return torch.where(wrong, torch.floor(x / y).to(result.dtype), result)


@reported(
    "onnx/onnx#6003",
    "ONNX Runtime CUDA",
    "clamp clamp_min clamp_max",
    "clip with bounds that are tensors makes a number of NaN",
    dtypes="float32",
    cause="nan-dropped",
)
def clip_by_tensors(call: Call) -> Any:
    x, *bounds = call.args
    if not any(isinstance(bound, Tensor) for bound in (*bounds, *call.kwargs.values())):
        return call.run()
    low = call.given("min", 1, None) if call.operator.name != "clamp_max" else None
    high = call.given("max", 1 if call.operator.name == "clamp_max" else 2, None)
    result = x
    if low is not None:
        result = torch.fmax(result, torch.as_tensor(low).to(x.dtype))
    if high is not None:
        result = torch.fmin(result, torch.as_tensor(high).to(x.dtype))
    return result
