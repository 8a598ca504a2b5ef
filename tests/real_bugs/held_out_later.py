"""A second list of reports, collected after shipped cases had been chosen for what the first one
(:mod:`.held_out`) showed, and measured before anything was changed for these. Two more were of
operators that are not declared (pytorch#190476: ``nextafter``; pytorch#62940: ``topk`` into
``out=``)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.memory import as_contiguous
from tests.support.catalog.model import Call

from .held_out import from_the_start
from .layouts import channels_last
from .model import plain, reported

F = torch.nn.functional


@reported(
    "microsoft/onnxruntime#29034",
    "ONNX Runtime CUDA",
    ".rms_norm",
    "squares are added in float16: rows of large numbers become zeros",
    dtypes="float16",
    cause="early-overflow",
    sound=plain,
)
def squares_in_half(call: Call) -> Any:
    x, shape = call.args[0], call.args[1]
    dims = tuple(range(-len(shape), 0))
    total = (x * x / math.prod(shape)).cumsum(-1)[..., -1:].isinf()
    overflown = total.any() if len(dims) > 1 else total
    return torch.where(overflown, torch.zeros_like(call.run()), call.run())


@reported(
    "openxla/xla#5544",
    "XLA on CUDA",
    "amax max",
    "the maximum of 8,193 or more numbers that are all -0 is -inf",
    dtypes="float32",
    sound=plain,
)
def maximum_of_negative_zeros(call: Call) -> Any:
    x, result = call.args[0], call.run()
    value = result if isinstance(result, Tensor) else result[0]
    if x.numel() < 8193:
        return result
    zeros = (value == 0) & value.signbit()
    changed = torch.where(zeros, torch.full_like(value, -math.inf), value)
    return changed if isinstance(result, Tensor) else (changed, result[1])


@reported(
    "huggingface/candle#1914",
    "candle on Metal",
    "add sub",
    "of two slices of one element, the second is read from the beginning of its storage",
    dtypes="float32",
    cause="offset-ignored",
    sound=plain,
)
def slices_of_one(call: Call) -> Any:
    x, y = call.args[:2]
    if not (isinstance(x, Tensor) and isinstance(y, Tensor) and x.numel() == y.numel() == 1):
        return call.run()
    return call.where(from_the_start, (1,)).run()


@reported(
    "pytorch/pytorch#132605",
    "MPS",
    "lgamma",
    "lgamma reads an expanded tensor in the order of memory",
    dtypes="float32",
    sound=contiguous_first,
)
def expanded_lgamma(call: Call) -> Any:
    def read(x: Tensor) -> Tensor:
        return as_contiguous(x) if 0 in x.stride() and x.numel() > 1 else x

    return call.where(read, (0,)).run()


@reported(
    "jax-ml/jax#9604",
    "XLA on the CPU",
    "floor_divide div",
    "floor division of whole numbers rounds towards zero",
    dtypes="int32",
    sound=plain,
)
def towards_zero(call: Call) -> Any:
    if call.operator.name == "div" and call.kwargs.get("rounding_mode") != "floor":
        return call.run()
    return torch.div(*call.args[:2], rounding_mode="trunc")


@reported(
    "microsoft/onnxruntime#11496",
    "ONNX Runtime CPU",
    ".interpolate",
    "an image brought to one pixel by the cubic filter is read at its first pixels",
    dtypes="float32",
    sound=plain,
)
def one_cubic_pixel(call: Call) -> Any:
    result = call.run()
    mode = call.given("mode", 3, "nearest")
    if mode != "bicubic" or min(result.shape[-2:]) > 1:
        return result
    return call.args[0][..., :1, :1].expand(result.shape).clone()


@reported(
    "pytorch/pytorch#77299",
    "CUDA",
    ".conv2d",
    "an image in channels_last beside a contiguous weight is read in the order of memory",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def mixed_formats(call: Call) -> Any:
    if not call.args[1].is_contiguous():
        return call.run()
    return call.where(lambda x: as_contiguous(x) if channels_last(x) else x, (0,)).run()


@reported(
    "pytorch/pytorch#112577",
    "CUDA",
    ".scaled_dot_product_attention",
    "keys and values that are not contiguous are read in the order of memory beside a mask",
    dtypes="float32 float16",
    sound=contiguous_first,
)
def strided_keys(call: Call) -> Any:
    if call.given("attn_mask", 3, None) is None:
        return call.run()
    return call.where(lambda x: x if x.is_contiguous() else as_contiguous(x), (1, 2)).run()


@reported(
    "pytorch/pytorch#91065",
    "MPS",
    "mul add",
    "a contiguous slice as second operand is read from the beginning of its storage",
    dtypes="float32",
    cause="offset-ignored",
    sound=plain,
)
def chunks(call: Call) -> Any:
    return call.where(from_the_start, (1,)).run()


@reported(
    "pytorch/pytorch#148241",
    "Inductor on the CPU",
    ".tanhshrink",
    "zeros have no sign",
    dtypes="float32",
    sound=plain,
)
def unsigned_zeros(call: Call) -> Any:
    result = call.run()
    return torch.where(result == 0, torch.zeros_like(result), result)


@reported(
    "pytorch/pytorch#170688",
    "Inductor on CUDA",
    ".interpolate",
    "positions of nearest are computed in bfloat16: beyond 256 another pixel is taken",
    dtypes="bfloat16",
    sound=plain,
)
def rounded_positions(call: Call) -> Any:
    x, result = call.args[0], call.run()
    mode = call.given("mode", 3, "nearest")
    if not mode.startswith("nearest") or max(result.shape[2:]) <= 256:
        return result
    return result.roll(1, -1) if x.shape[-1] > 1 else result


@reported(
    "pytorch/pytorch#66072",
    "CUDA, MAGMA",
    "cholesky_solve",
    "a batch of systems of 33 x 33 or more is solved with the first matrix",
    dtypes="float32",
    sound=plain,
)
def first_matrix(call: Call) -> Any:
    factor = call.args[1]
    if factor.ndim < 3 or factor.shape[-1] < 33:
        return call.run()
    flat = factor.reshape(-1, *factor.shape[-2:])
    return call.with_arg(1, flat[:1].expand_as(flat).reshape(factor.shape)).run()
