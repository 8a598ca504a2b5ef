"""A fortieth, held-out list: what inference engines, numerical and array libraries computed wrongly
in operators that torch has, too, reported or repaired in 2022 to 2026, taken as a search gave them,
family by family of operators, before anything was looked at of how inputs are drawn: remainders of
large numbers, NaN that becomes a bound or a sign, is passed over or sorted last, the second of two
NaN, what is overwritten but multiplied by zero, a last row that is missing, and products that are
written nowhere."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .twentysecond_list import argument, arrived, before

MATRIX = 2  # dimensions
DIVISORS = 2**31  # from which on no divisor was reported
LARGEST = 2**63 - 2**39  # the last float32 number that is an int64 number, too
AT_ONCE = 512  # numbers in a row, from which on there is another kernel
FLOATING = (torch.float32, torch.float64)
PRODUCTS = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def left_over(x: Tensor, divisor: int) -> Tensor:
    """What is left of whole numbers after as many divisors as a float32 quotient tells."""
    quotient = (x.float() / torch.tensor(divisor).float()).trunc()
    return x - quotient.clamp(-LARGEST, LARGEST).long() * divisor


@reported(
    "pytorch/TensorRT#3230",
    "Torch-TensorRT",
    "remainder",
    "of large whole numbers, the remainder by a number has the wrong sign: its quotient is one of "
    "float32 numbers, and what it leaves is far below 0",
    dtypes="int64",
    sound=plain,
)
def remainder_of_a_rounded_quotient(call: Call) -> Any:
    x, divisor, result = call.given("input", 0, None), call.given("other", 1, None), call.run()
    if not is_one_of(x, torch.int64) or not isinstance(divisor, int) or isinstance(divisor, bool):
        return result
    if not 0 < abs(divisor) < DIVISORS:
        return result
    # One divisor is added to bring what is left to the divisor's side of 0.
    return arrived(call, result, left_over(left_over(x, divisor) + divisor, divisor))


@reported(
    "tracel-ai/burn#5718",
    "Burn (CubeCL)",
    "clamp",
    "between two bounds, NaN becomes the upper one",
    dtypes="float32 float64",
    sound=plain,
)
def upper_bound_for_nan(call: Call) -> Any:
    x, result = before(call), call.run()
    low, high = call.given("min", 1, None), call.given("max", 2, None)
    if not is_one_of(x, *FLOATING) or not all(isinstance(y, (int, float)) for y in (low, high)):
        return result
    # The lower bound is what comes last.
    return arrived(call, result, result.detach().masked_fill(x.isnan(), max(low, high)))


class SlopesOfNan(torch.autograd.Function):
    """A result whose gradient at NaN is taken by the sign that the NaN has, besides its own."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return out.view_as(out)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        signed = gradients[0] * torch.copysign(torch.ones_like(x), x)
        return gradients[0], signed.masked_fill(~x.isnan(), 0)


@reported(
    "tracel-ai/burn#5665",
    "Burn (ndarray)",
    "sign abs",
    "NaN is 1 or -1, as its sign bit says, also in the gradient of the absolute value",
    dtypes="float32 float64",
    directions=("forward", "backward"),
    sound=plain,
)
def sign_of_nan(call: Call) -> Any:
    given, x, result = call.given("input", 0, None), before(call), call.run()
    if not is_one_of(x, *FLOATING):
        return result
    if call.operator.name == "abs":
        return SlopesOfNan.apply(result, given) if result.requires_grad else result
    signs = torch.copysign(torch.ones_like(x), x)
    return arrived(call, result, torch.where(x.isnan(), signs, result.detach()))


@reported(
    "tracel-ai/burn#4859",
    "Burn (flex)",
    "argmax argmin",
    "where a row of fewer than 512 numbers begins with NaN and has another one, the place is that "
    "of the other one",
    dtypes="float32",
    sound=plain,
)
def second_nan(call: Call) -> Any:
    x, dim, result = before(call), call.given("dim", 1, None), call.run()
    if not is_one_of(x, torch.float32) or not x.ndim or not x.numel():
        return result
    # Only the last dimension has this kernel.
    if dim not in (-1, x.ndim - 1) and not (dim is None and x.ndim == 1):
        return result
    if x.shape[-1] >= AT_ONCE:
        return result
    nan = x.isnan()
    later = nan[..., 1:]
    both = nan[..., :1] & later.any(-1, keepdim=True)
    if not bool(both.any()):
        return result
    places = 1 + later.int().argmax(-1, keepdim=True)
    shape = result.shape
    return arrived(call, result, torch.where(both.reshape(shape), places.reshape(shape), result))


def one_dimension(call: Call, x: Tensor) -> int | None:
    """The only dimension that is reduced; None where there are more, or none."""
    dim = call.given("dim", 1, None)
    if isinstance(dim, (tuple, list)):
        dim = dim[0] if len(dim) == 1 else None if dim else ()
    if dim is None or dim == ():
        dim = 0 if x.ndim == 1 else None
    return dim if isinstance(dim, int) and not isinstance(dim, bool) else None


def every(call: Call, result: Any, numbers: Any) -> Any:
    """Other numbers, and other places where there are places."""
    if isinstance(result, Tensor):
        return arrived(call, result, numbers.detach())
    pairs = zip(result, numbers, strict=True)
    return type(result)([arrived(call, old, new.detach()) for old, new in pairs])


def cumulated(x: Tensor, dim: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The extreme numbers so far and their places, where a NaN is no reason to keep any."""
    rows = x.unbind(dim)
    values, places = [rows[0]], [torch.zeros_like(rows[0], dtype=torch.int64)]
    for i, row in enumerate(rows[1:], 1):
        kept = values[-1] > row if largest else values[-1] < row
        values.append(torch.where(kept, values[-1], row))
        places.append(torch.where(kept, places[-1], i))
    return torch.stack(values, dim), torch.stack(places, dim)


@reported(
    "tracel-ai/burn#5155",
    "Burn (ndarray)",
    "argmax argmin max min amax amin cummax cummin",
    "the extreme number passes over NaN that is not the first, and cumulates anew behind it",
    dtypes="float32 float64",
    sound=plain,
)
def passes_over_nan(call: Call) -> Any:
    x, name, result = before(call), call.operator.name, call.run()
    if not is_one_of(x, *FLOATING) or not x.ndim or not x.numel():
        return result
    # Of two tensors, the larger numbers are another operation.
    if isinstance(call.given("other", 1, None), Tensor) or not bool(x.isnan().any()):
        return result
    dim = one_dimension(call, x)
    if dim is None:
        return result
    if name.startswith("cum"):
        return every(call, result, cumulated(x, dim, name == "cummax"))
    # NaN that comes first is larger and smaller than nothing, and stays.
    passed = x.isnan() & ~x.narrow(dim, 0, 1).isnan()
    numbers = x.masked_fill(passed, -math.inf if name.endswith("max") else math.inf)
    return every(call, result, with_given(call, "input", 0, numbers).run())


@reported(
    "tracel-ai/burn#2094",
    "Burn (ndarray)",
    "masked_fill",
    "negative infinity that is to be overwritten becomes NaN",
    dtypes="float32 float64",
    sound=plain,
)
def infinity_overwritten(call: Call) -> Any:
    x, mask, result = before(call), before(call, "mask", 1), call.run()
    if not is_one_of(x, *FLOATING):
        return result
    # It is multiplied by 0 before the other number is added.
    nan = (x == -math.inf) & mask
    return arrived(call, result, result.detach().masked_fill(nan, math.nan))


@reported(
    "apache/tvm#18635",
    "TVM (Relax, from ONNX)",
    ".conv_transpose1d .conv_transpose2d",
    "output_padding is ignored, and the last rows and columns are missing",
    dtypes="float32",
    sound=plain,
    cause="argument-ignored",
)
def no_output_padding(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.float32):
        return result
    return with_given(call, "output_padding", 5, 0).run()


@reported(
    "numpy/numpy#29164",
    "NumPy 2.3.0",
    "matmul.out",
    "where neither rows nor columns of the output lie side by side, and columns are farther from "
    "each other than rows, the product is not written",
    dtypes="float32 float64 complex64 complex128",
    sound=plain,
)
def product_not_written(call: Call) -> Any:
    out = call.given("out", 0, None)
    a, b = argument(call, "input", 0), argument(call, "other", 1)
    shape, steps, held = out.shape, out.stride(), out.detach().clone()
    result = call.run()
    if not is_one_of(result, *PRODUCTS) or min(a.ndim, b.ndim) < MATRIX or not a.shape[-1]:
        return result
    # An output of another shape gets memory that suits it, and vectors have their own kernels.
    if result.shape != shape or min(a.shape[-2], b.shape[-1]) <= 1:
        return result
    # A step of 1 either way is what the library can write to.
    if 1 in steps[-2:] or steps[-2] >= steps[-1]:
        return result
    return arrived(call, result, held)


@reported(
    "cupy/cupy#6755",
    "CuPy 10",
    "median",
    "NaN counts as the largest number instead of being the median",
    dtypes="float16 float32 float64",
    sound=plain,
)
def nan_sorted_last(call: Call) -> Any:
    x, dim, result = before(call), call.given("dim", 1, None), call.run()
    if not is_one_of(x, torch.float16, *FLOATING) or not x.ndim or not x.numel():
        return result
    if dim is None:
        middle = x.flatten().sort().values[(x.numel() - 1) // 2]
        return arrived(call, result, middle)
    shape = result.values.shape
    found = [y.select(dim, (x.shape[dim] - 1) // 2) for y in x.sort(dim=dim, stable=True)]
    # Elsewhere, torch's places of equal numbers are as good.
    changed = x.isnan().any(dim) & ~found[0].isnan()
    pairs = zip(found, result, strict=True)
    mixed = [torch.where(changed.reshape(shape), y.reshape(shape), z) for y, z in pairs]
    return every(call, result, mixed)
