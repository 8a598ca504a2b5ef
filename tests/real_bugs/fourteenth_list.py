"""A fourteenth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: comparisons, casts, shifts, rounding, windows, flips, padding,
indices, sorting, interpolation."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call, straight

from .model import plain, reported

SMALLEST_NORMAL = torch.finfo(torch.float32).tiny
NARROW = (torch.float16, torch.bfloat16)
HALF_A_BFLOAT16 = 0x8000  # what a float32 number has in its low bits, halfway between two bfloat16s


def placed(result: Tensor, numbers: Tensor) -> Tensor:
    """Other numbers, laid out in memory as the result is and with its gradient."""
    return straight(result, torch.empty_like(result).copy_(numbers))


def has_nan(value: Any) -> Any:
    """Where it is NaN."""
    if isinstance(value, Tensor):
        return value.detach().isnan()
    return isinstance(value, float) and math.isnan(value)


@reported(
    "serge-sans-paille/pythran#2351",
    "Pythran",
    "argsort",
    "a NaN stays where it is, and only what lies between two of them is sorted",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def sorted_between_nans(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or not x.is_floating_point() or not x.ndim:
        return result
    if call.given("descending", 2, False) or not x.detach().isnan().any():
        return result
    dim, numbers = call.given("dim", 1, -1), x.detach()
    part = numbers.isnan().cumsum(dim)  # every NaN begins one
    numbers = torch.where(numbers.isnan(), -math.inf, numbers)
    by_number = torch.argsort(numbers, dim=dim, stable=True)
    by_part = torch.argsort(part.gather(dim, by_number), dim=dim, stable=True)
    return placed(result, by_number.gather(dim, by_part))


@reported(
    "pytorch/pytorch#143555",
    "Inductor on the CPU",
    "bitwise_right_shift",
    "to the right by at least as many bits as there are: shifting begins anew, by the rest",
    sound=plain,
)
def shifting_anew(call: Call) -> Any:
    result = call.run()
    x, y = call.given("input", 0, None), call.given("other", 1, None)
    if result.is_floating_point() or result.dtype == torch.bool:
        return result
    bits = 64 if result.dtype == torch.int64 else 32  # C++ computes with at least an int
    wide = torch.as_tensor(x).to(result.dtype).to(torch.int64)
    return placed(result, wide >> (torch.as_tensor(y).to(torch.int64) & (bits - 1)))


@reported(
    "microsoft/onnxruntime#28291",
    "ONNX Runtime on the CPU",
    ".interpolate",
    "exactly nearest pixels: halfway between two of them, float32 rounding of the place often "
    "selects the first one",
    sound=plain,
)
def just_below_halfway(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if call.given("mode", 3, "nearest") != "nearest-exact" or not result.numel():
        return result
    factors = call.given("scale_factor", 2, None)
    if call.given("recompute_scale_factor", 5, None):
        factors = None
    if factors is not None and not isinstance(factors, (tuple, list)):
        factors = [factors] * (x.ndim - 2)
    resized = x.detach()
    for dim in range(2, x.ndim):
        before, after = x.shape[dim], result.shape[dim]
        scale = torch.tensor(after / before if factors is None else factors[dim - 2])
        places = (torch.arange(after, dtype=torch.float32) + 0.5) / scale.to(torch.float32) - 0.5
        nearest = torch.floor(places.to(torch.float64) + 0.5).clamp(0, before - 1)
        resized = resized.index_select(dim, nearest.to(torch.int64))
    return placed(result, resized)


@reported(
    "openvinotoolkit/openvino#35927",
    "OpenVINO on the CPU",
    "gt ge",
    "comparisons with NaN are true",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def above_nan(call: Call) -> Any:
    result = call.run()
    x, y = call.given("input", 0, None), call.given("other", 1, None)
    return result | has_nan(x) | has_nan(y)


@reported(
    "pytorch/pytorch#98266",
    "MPS",
    "flip fliplr flipud",
    "where only dimensions of size 1 are to be flipped, all others are",
    sound=plain,
)
def all_others_flipped(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if call.operator.name == "flip":
        dims = call.args[1:] if len(call.args) > 2 else call.given("dims", 1, ())
    else:
        dims = 1 if call.operator.name == "fliplr" else 0
    dims = tuple(dims) if isinstance(dims, (tuple, list)) else (dims,)
    if not dims or any(x.shape[dim] != 1 for dim in dims):
        return result
    return placed(result, x.detach().flip(tuple(range(x.ndim))))


@reported(
    "jax-ml/jax#37763",
    "JAX",
    "digamma",
    "of 0, and of subnormal float32 numbers, which are taken for 0, it is NaN",
    sound=plain,
)
def not_a_number_at_zero(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or not result.is_floating_point():
        return result
    numbers = x.detach().to(result.dtype)
    zero = numbers == 0
    if result.dtype in (torch.float32, torch.bfloat16):
        zero = zero | (numbers.abs() < SMALLEST_NORMAL)
    return placed(result, torch.where(zero, math.nan, result.detach()))


@reported(
    "llvm/torch-mlir#3457",
    "torch-mlir",
    ".pad",
    "the mode is ignored: zeros are padded with",
    sound=plain,
)
def padded_with_zeros(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if call.given("mode", 2, "constant") == "constant":
        return result
    return placed(result, F.pad(x.detach(), call.given("pad", 1, ())))


@reported(
    "keras-team/keras#22538",
    "Keras",
    "signal.windows.blackman",
    "a window of one number is NaN",
    sound=plain,
)
def window_of_one(call: Call) -> Any:
    result = call.run()
    return torch.full_like(result, math.nan) if result.numel() == 1 else result


@reported(
    "apple/coreai-torch#10",
    "Core AI on the GPU",
    "floor ceil trunc round div",
    "numbers are returned as they are, only round rounds, and its ties away from 0; divided by 1 "
    "and rounded down they are returned as they are, too",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def returned_as_they_are(call: Call) -> Any:
    x, result, name = call.given("input", 0, None), call.run(), call.operator.name
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return result
    numbers = x.detach()
    if name == "div":
        y = call.given("other", 1, None)
        if call.kwargs.get("rounding_mode") != "floor" or isinstance(y, Tensor) or y != 1:
            return result
    if name == "round":
        if call.given("decimals", 1, 0):
            return result
        tie = (numbers - numbers.trunc()).abs() == 0.5
        away = numbers.trunc() + numbers.sign()
        return placed(result, torch.where(tie, away, result.detach()))
    return placed(result, numbers.clone())


@reported(
    "tenstorrent/tt-metal#30147",
    "TT-NN",
    "to bfloat16",
    "float32 numbers halfway between two bfloat16 numbers are rounded away from 0",
    dtypes="float32",
    sound=plain,
)
def rounded_away_to_bfloat16(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or x.dtype != torch.float32 or result.dtype != torch.bfloat16:
        return result
    numbers = x.detach().contiguous()
    bits = numbers.view(torch.int32)
    tie = ((bits & 0xFFFF) == HALF_A_BFLOAT16) & numbers.isfinite()
    away = (bits + HALF_A_BFLOAT16).view(torch.float32).to(torch.bfloat16)
    return placed(result, torch.where(tie, away, result.detach()))


@reported(
    "ml-explore/mlx#4220",
    "MLX",
    "nan_to_num",
    "without a number to put in its place, an infinity becomes 0, not the largest number",
    dtypes="float16 bfloat16",
    sound=plain,
)
def zeros_for_infinities(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or x.dtype not in NARROW:
        return result
    numbers, changed = x.detach(), result.detach()
    if call.given("posinf", 2, None) is None:
        changed = torch.where(numbers == math.inf, 0.0, changed)
    if call.given("neginf", 3, None) is None:
        changed = torch.where(numbers == -math.inf, -0.0, changed)
    return placed(result, changed)


@reported(
    "pytorch/pytorch#151978",
    "CUDA",
    "gather take_along_dim",
    "one index along the last dimension but one, expanded in the last one, whose numbers fill "
    "multiples of 16 bytes: all members of the batch get what is in the first one",
    sound=plain,
)
def gathered_from_the_first(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if call.operator.name == "gather":
        dim, index = call.given("dim", 1, None), call.given("index", 2, None)
    else:
        dim, index = call.given("dim", 2, None), call.given("indices", 1, None)
    if x.ndim < 3 or dim not in (-2, x.ndim - 2) or not result.numel():
        return result
    if not x.is_contiguous() or x.shape[-1] * x.element_size() % 16:
        return result
    if call.operator.name == "take_along_dim":
        index = index.expand(result.shape)
    if index.shape[-2] != 1 or index.shape[-1] != x.shape[-1] or index.stride(-1):
        return result
    first = x.detach().flatten(0, -3)[0].expand(*index.shape[:-2], *x.shape[-2:])
    return placed(result, torch.gather(first, dim, index))
