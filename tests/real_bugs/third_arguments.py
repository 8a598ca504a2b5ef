"""A third list of reports about accelerators, measured before anything was changed for it: options,
ranks of arguments, numbers of another dtype."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .gradients import BACK, hooked
from .model import plain, reported


@reported(
    "intel/torch-xpu-ops#889",
    "XPU",
    "to char",
    "numbers beyond the range of int8 are saturated instead of wrapped",
    dtypes="float32",
    sound=plain,
)
def saturated_bytes(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if result.dtype != torch.int8 or not x.is_floating_point():
        return result
    return x.nan_to_num(0.0).clamp(-128, 127).to(torch.int8)


@reported(
    "pytorch/pytorch#94043",
    "MPS",
    "log_softmax",
    "the logarithm of softmax: -inf where softmax underflows",
    dtypes="float32",
    sound=plain,
)
def logarithm_of_softmax(call: Call) -> Any:
    dim = call.given("dim", 1, -1)
    return call.args[0].softmax(dim).log().to(call.run().dtype)


@reported(
    "pytorch/pytorch#98191",
    "MPS",
    "argmax",
    "every position is the smallest integer",
    dtypes="float32 int64",
    sound=plain,
)
def smallest_integer(call: Call) -> Any:
    result = call.run()
    return torch.full_like(result, torch.iinfo(torch.int64).min)


@reported(
    "pytorch/pytorch#133100",
    "MPS",
    "clamp_min",
    "whole numbers with a bound that is a fraction become 0",
    dtypes="int64",
    sound=plain,
)
def fraction_as_bound(call: Call) -> Any:
    x, bound = call.args[0], call.given("min", 1, None)
    result = call.run()
    return torch.zeros_like(result) if isinstance(bound, float) and x.ndim else result


@reported(
    "pytorch/xla#7588",
    "XLA on CUDA",
    ".embedding_bag",
    "a maximum of negative numbers is 0",
    dtypes="float32",
    cause="zero",
    sound=plain,
)
def largest_of_bag(call: Call) -> Any:
    result = call.run()
    return result.clamp(min=0) if call.kwargs.get("mode") == "max" else result


@reported(
    "pytorch/pytorch#189134",
    "MPS",
    "linalg.solve",
    "where one right side belongs to a batch of matrices, all but the first results are zeros",
    dtypes="float32",
    sound=plain,
)
def one_right_side(call: Call) -> Any:
    a, b = call.args[:2]
    result = call.run()
    single = b.ndim == 1 or (b.ndim == 2 and a.ndim > 2 and b.shape != a.shape[:-1])
    if a.ndim < 3 or not single:
        return result
    matrices = result if b.ndim > 1 else result.unsqueeze(-1)
    flat = matrices.clone().reshape(-1, *matrices.shape[-2:])
    flat[1:] = 0
    return flat.reshape(result.shape)


@reported(
    "microsoft/onnxruntime#25264",
    "ONNX Runtime CUDA",
    ".interpolate",
    "a smaller image by the cubic filter with antialias is not completed",
    dtypes="float32",
    sound=plain,
)
def incomplete_image(call: Call) -> Any:
    x, result = call.args[0], call.run()
    cubic = call.given("mode", 3, "nearest") == "bicubic" and call.kwargs.get("antialias")
    if not cubic or result.shape[-2] >= x.shape[-2] or result.shape[-2] < 2:
        return result
    written = torch.arange(result.shape[-2]).unsqueeze(-1) < result.shape[-2] // 2
    return torch.where(written, result, torch.zeros_like(result))


@reported(
    "microsoft/onnxruntime#24311",
    "DirectML",
    ".glu",
    "along a dimension that is not the last the halves change places",
    dtypes="float32",
    sound=plain,
)
def swapped_halves(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 1, -1)
    if dim % x.ndim == x.ndim - 1:
        return call.run()
    return call.with_arg(0, x.roll(x.shape[dim] // 2, dim)).run()


@reported(
    "pytorch/pytorch#94754",
    "MPS",
    "lstm",
    "what both directions give is wrong in the second half",
    dtypes="float32",
    sound=plain,
)
def both_directions(call: Call) -> Any:
    output, *states = call.run()
    if not call.given("bidirectional", 7, False):
        return (output, *states)
    ahead, _ = output.chunk(2, -1)
    return (torch.cat((ahead, ahead), -1), *states)


@reported(
    "flagos-ai/FlagGems#5392",
    "Triton (FlagGems)",
    ".layer_norm",
    "gradients of rows that stand in more than one dimension are those of all of them as one row",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def rows_as_one(call: Call) -> Any:
    x, shape = call.args[:2]
    if x.ndim - len(shape) < 2:
        return call.run()

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        dims = tuple(range(1, x.ndim))
        return gradient - gradient.abs().mean(dims, keepdim=True)

    return hooked(call, 0, change)


@reported(
    "intel/torch-xpu-ops#3530",
    "XPU",
    "index_add index_add_",
    "with a factor, what is added is rounded to half precision",
    dtypes="float32",
    sound=plain,
)
def rounded_factor(call: Call) -> Any:
    source = call.args[3]
    if call.kwargs.get("alpha", 1) == 1 or not isinstance(source, Tensor):
        return call.run()
    return call.with_arg(3, source.to(torch.bfloat16).to(source.dtype)).run()
