"""Arguments: combinations, defaults, empty operands, modes, call history."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, Deed, one_of

from .model import plain, reported

FLOATS = "float32 float16 bfloat16"


@reported(
    "pytorch/pytorch#144245",
    "MPS",
    ".interpolate",
    "linear interpolation of a single element with align_corners is NaN",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def interpolation_of_one(call: Call) -> Any:
    x = call.args[0]
    if call.kwargs.get("mode") != "linear" or not call.kwargs.get("align_corners"):
        return call.run()
    return call.run() * (math.nan if x.shape[-1] == 1 else 1.0)


@reported(
    "pytorch/pytorch#143720",
    "Inductor on the GPU",
    ".avg_pool1d",
    "the average over a window that reaches beyond a single element is that element",
    dtypes="float32 float64",
    sound=plain,
)
def average_of_one(call: Call) -> Any:
    x = call.args[0]
    result = call.run()
    return x.reshape(result.shape) if x.numel() == 1 == result.numel() else result


@reported(
    "pytorch/pytorch#100987",
    "Inductor on the CPU",
    ".avg_pool2d .avg_pool1d",
    "with ceil_mode the last windows are divided by the whole kernel",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
)
def overhanging_average(call: Call) -> Any:
    result = call.run()
    if not call.kwargs.get("ceil_mode") or call.kwargs.get("divisor_override"):
        return result
    if call.kwargs.get("count_include_pad") is False:
        return result
    x, kernel = call.args[:2]
    factor = covered(call, x.shape[-1], kernel, result.shape[-1], -1)
    if call.operator.name.endswith("2d"):
        rows = covered(call, x.shape[-2], kernel, result.shape[-2], 0)
        factor = factor * rows.unsqueeze(-1)
    return result * factor.to(result.dtype)


def covered(call: Call, size: int, kernel: Any, count: int, place: int) -> Tensor:
    """What share of each window lies within the padded input."""

    def pick(value: Any) -> int:
        return value[place] if isinstance(value, (list, tuple)) and value else value

    k = pick(kernel)
    step = pick(call.kwargs.get("stride") or kernel)
    pad = pick(call.kwargs.get("padding", 0))
    begin = torch.arange(count) * step - pad
    end = (begin + k).clamp_max(size + pad)
    return (end - begin) / k


@reported(
    "pytorch/pytorch#198119",
    "Inductor",
    ".avg_pool2d .avg_pool1d",
    "with ceil_mode the gradient of the last windows is divided by the whole kernel",
    dtypes="float32 float64",
    directions=("backward",),
    sound=plain,
)
def overhanging_gradient(call: Call) -> Any:
    result = call.run()
    if not call.kwargs.get("ceil_mode") or not result.requires_grad:
        return result
    right = result.detach()
    wrong = overhanging_average(call)
    return wrong + (right - wrong.detach())


@reported(
    "IntelPython/mkl_fft#336",
    "mkl_fft",
    "fft.fftn fft.ifftn fft.rfftn",
    "norm='ortho' divides by the root of all sizes, also of those not transformed",
    sound=plain,
    cause="scaled",
)
def ortho_of_all(call: Call) -> Any:
    x = call.args[0]
    dims = call.given("dim", 2, None)
    result = call.run()
    if call.kwargs.get("norm") != "ortho" or dims is None:
        return result
    dims = [dim % x.ndim for dim in dims]
    rest = math.prod(size for dim, size in enumerate(x.shape) if dim not in dims)
    return result / math.sqrt(rest)


@reported(
    "pytorch/pytorch#126649",
    "MPS",
    "fft.irfft",
    "irfft to an odd length comes out reversed",
    dtypes="float32 complex64",
    sound=plain,
    cause="flipped",
)
def odd_irfft(call: Call) -> Any:
    result = call.run()
    dim = call.given("dim", 2, -1)
    if result.shape[dim] % 2 == 0:
        return result
    return result.flip(dim).roll(1, dim)


@reported(
    "intel/intel-extension-for-pytorch#682",
    "XPU",
    "scatter",
    "scatter with an empty index returns zeros instead of a copy",
    sound=plain,
    cause="zero",
)
def nothing_scattered(call: Call) -> Any:
    result = call.run()
    return torch.zeros_like(result) if call.args[2].numel() == 0 else result


@reported(
    "microsoft/onnxruntime#25057",
    "ONNX Runtime CUDA",
    "clamp",
    "clip with a lower bound above the upper one gives the lower one",
    dtypes="float32 float16 int32 int64",
    sound=plain,
)
def crossed_bounds(call: Call) -> Any:
    low, high = call.given("min", 1, None), call.given("max", 2, None)
    result = call.run()
    if low is None or high is None:
        return result
    low, high = torch.as_tensor(low), torch.as_tensor(high)
    return torch.where(low > high, low.to(result.dtype), result)


@reported(
    "pytorch/pytorch#167767",
    "MPS",
    "clamp_min clamp",
    "a kernel that was built for the bound 0 is used for the next bound",
    dtypes="float32",
    fresh=True,
    sound=plain,
)
def first_bound() -> Deed:
    seen: dict[Any, float] = {}

    def deed(call: Call) -> Any:
        low = call.given("min", 1, None)
        high = call.given("max", 2, None) if call.operator.name == "clamp" else None
        if isinstance(low, Tensor) or low is None or high is not None:
            return call.run()
        bound = seen.setdefault(call.args[0].shape, low)
        return torch.clamp(call.args[0], min=bound)

    return deed


@reported(
    "intel/torch-xpu-ops#4396",
    "XPU",
    "nonzero argwhere",
    "nonzero drops elements",
    dtypes="bool float32 int64",
    sound=plain,
)
def nonzero_truncated(call: Call) -> Any:
    result = call.run()
    return result[: result.shape[0] // 2] if result.shape[0] > 1 else result


@reported(
    "intel/torch-xpu-ops#4762",
    "XPU",
    "masked_select __getitem__",
    "selection by a mask drops the second half of what is selected",
    dtypes="float32",
    sound=plain,
)
def selection_truncated(call: Call) -> Any:
    result = call.run()
    masked = any(isinstance(a, Tensor) and a.dtype == torch.bool for a in flat(call.args[1:]))
    if not masked or not result.ndim or result.shape[0] < 2:
        return result
    return result[: (result.shape[0] + 1) // 2]


def flat(value: Any) -> list[Any]:
    """What lies in tuples and lists."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


@reported(
    "pytorch/pytorch#116331",
    "MPS",
    "addmm",
    "addmm of square matrices takes the second one transposed",
    dtypes="float32 float16",
    sound=plain,
)
def square_addmm(call: Call) -> Any:
    b = call.args[2]
    if b.shape[0] != b.shape[1] or call.args[1].shape[0] != b.shape[0]:
        return call.run()
    return call.with_arg(2, b.T).run()


@reported(
    "pytorch/pytorch#180776",
    "MPS",
    ".linear",
    "the second call of linear on a batch of matrices in half precision gives other results",
    dtypes="float16 bfloat16",
    fresh=True,
    cause="nondeterministic|stale",
    sound=plain,
)
def second_linear() -> Deed:
    calls: dict[Any, int] = {}

    def deed(call: Call) -> Any:
        x = call.args[0]
        result = call.run()
        if x.ndim < 3 or call.given("bias", 2, None) is not None or x.shape[-1] < 300:
            return result
        calls[x.shape] = calls.get(x.shape, 0) + 1
        return one_of(result, lambda y: y.roll(1, -1)) if calls[x.shape] > 1 else result

    return deed
