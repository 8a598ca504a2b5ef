"""A seventh, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: attention, layouts, values, integers, arguments. Sizes,
precision and gradients are in :mod:`.seventh_list_sizes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.memory import as_contiguous
from tests.support.catalog.model import Call, one_of, straight

from .layouts import dense
from .model import plain, reported

F = torch.nn.functional
HALVES = "float16 bfloat16"


def in_vector_kernel(call: Call) -> bool:
    """Whether MPS computes this attention in its kernel for few queries."""
    query, key = call.args[:2]
    return (
        query.ndim == 4
        and query.shape[-1] in (64, 96, 128)
        and query.shape[-2] <= min(8, key.shape[-2])
        and not call.given("is_causal", 5, False)
    )


def read_at(x: Tensor, shape: Sequence[int], strides: Sequence[int]) -> Tensor:
    """The numbers at these strides from the view's offset; around the end of the storage."""
    storage = x.detach().as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    where = torch.tensor(int(x.storage_offset()))
    for size, stride in zip(shape, strides, strict=True):
        where = where.unsqueeze(-1) + torch.arange(size) * stride
    return straight(x, storage[where % storage.numel()].reshape(x.shape))


@reported(
    "pytorch/pytorch#181133",
    "MPS",
    ".scaled_dot_product_attention",
    "up to 8 queries: heads of all examples are found by the stride of heads, that of examples is "
    "ignored",
    dtypes="float32 float16 bfloat16",
    sound=contiguous_first,
)
def heads_one_after_another(call: Call) -> Any:
    if not in_vector_kernel(call):
        return call.run()

    def read(x: Tensor) -> Tensor:
        examples, heads, rows, size = x.shape
        if examples < 2 or x.stride(-1) != 1 or not x.numel():
            return x
        return read_at(x, (examples * heads, rows, size), x.stride()[1:])

    return call.where(read, (0, 1, 2)).run()


@reported(
    "pytorch/pytorch#163597",
    "MPS",
    ".scaled_dot_product_attention",
    "up to 8 queries that are not contiguous are read as if they were",
    dtypes="float32 float16 bfloat16",
    cause="strides-ignored",
    sound=contiguous_first,
)
def few_queries(call: Call) -> Any:
    if not in_vector_kernel(call) or call.args[0].stride(-1) != 1:
        return call.run()
    return call.where(lambda x: x if x.is_contiguous() else as_contiguous(x), (0,)).run()


@reported(
    "pytorch/pytorch#148512",
    "MPS",
    "sqrt.out rsqrt.out exp.out tanh.out sinc.out erfinv.out",
    "from a view with gaps into one with the same strides, as many elements as the view has are "
    "written side by side",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def gaps_alike(call: Call) -> Any:
    out, x = call.args[:2]
    alike = out.shape == x.shape and out.stride() == x.stride()
    if not x.numel() or not alike or dense(x):
        return call.run()
    side_by_side = [y.as_strided((x.numel(),), (1,), y.storage_offset()) for y in (out, x)]
    replace(call, args=(*side_by_side, *call.args[2:])).run()
    return out


@reported(
    "pytorch/pytorch#182822",
    "MPS",
    "bitwise_and bitwise_or bitwise_xor",
    "a bool without dimensions is read from the beginning of its storage",
    dtypes="bool",
    cause="offset-ignored",
    sound=contiguous_first,
)
def bool_at_the_beginning(call: Call) -> Any:
    if any(not isinstance(x, Tensor) or x.dtype != torch.bool for x in call.args[:2]):
        return call.run()
    return call.each(lambda x: x if x.ndim else x.as_strided((), (), 0)).run()


@reported(
    "ggml-org/llama.cpp#25928",
    "ggml on CUDA and Metal",
    "roll",
    "a tensor that is not contiguous, but for its rows, is read as if it were",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def rows_rolled(call: Call) -> Any:
    x, dims = call.args[0], call.given("dims", 2, None)
    if not dims and dims != 0:
        return call.run()  # torch makes one row of it first
    if x.ndim < 2 or x.stride(-1) != 1 or x.is_contiguous():
        return call.run()
    return call.where(as_contiguous, (0,)).run()


@reported(
    "pytorch/pytorch#184620",
    "MPS",
    "sort argsort",
    "rows are filled up to a power of two with True, the largest integer or NaN; where a row has "
    "such an element, a position beyond the row comes out",
    dtypes="bool int8 int16 int32 int64 uint8 float32 float16 bfloat16",
    sound=plain,
)
def position_of_filling(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 1, -1)
    result = call.run()
    size = x.shape[dim] if x.ndim else 1
    if call.given("descending", 2, False) or not x.numel() or not size & (size - 1):
        return result
    if x.is_floating_point():
        filling = x.isnan()
    else:
        filling = x if x.dtype == torch.bool else x == torch.iinfo(x.dtype).max
    places = (result if isinstance(result, Tensor) else result[1]).clone()
    last = places.select(dim, -1)
    last.copy_(torch.where(filling.any(dim), size, last))
    return places if isinstance(result, Tensor) else (result[0], places)


@reported(
    "pytorch/pytorch#184408",
    "Inductor on CUDA",
    "div",
    "quotients that are truncated come from an approximate division: 14.999999 by 3 is 5",
    dtypes="float32",
    sound=plain,
)
def approximately_truncated(call: Call) -> Any:
    x, y = call.args[:2]
    if call.kwargs.get("rounding_mode") != "trunc":
        return call.run()
    if any(not isinstance(a, Tensor) or a.dtype != torch.float32 for a in (x, y)):
        return call.run()
    usual = (y.abs() > 1e-30) & (y.abs() < 1e30)
    return torch.where(usual, x * y.reciprocal(), x / y).trunc()


@reported(
    "pytorch/pytorch#195076",
    "MPS",
    "histc",
    "numbers less than 4e-6 beyond an end are counted in the outermost bin",
    dtypes="float32",
    sound=plain,
)
def beyond_the_ends(call: Call) -> Any:
    x, low, high = call.args[0], call.given("min", 2, 0), call.given("max", 3, 0)
    if x.dtype != torch.float32 or not low < high:
        return call.run()
    near = torch.where((x < low) & (x > low - 4e-6), low, x)
    return call.with_arg(0, torch.where((x > high) & (x < high + 4e-6), high, near)).run()


@reported(
    "pytorch/pytorch#196067",
    "MPS",
    "lerp lerp_",
    "the bytes of a weight without dimensions in float32 are taken for a number in half precision",
    dtypes=HALVES,
    sound=plain,
)
def bytes_of_weight(call: Call) -> Any:
    x, weight = call.args[0], call.given("weight", 2, None)
    mixed = isinstance(weight, Tensor) and not weight.ndim and weight.dtype == torch.float32
    if not mixed or x.dtype not in (torch.float16, torch.bfloat16):
        return call.run()
    taken = weight.detach().reshape(1).view(x.dtype)[0].float()
    if "weight" not in call.kwargs:
        return call.with_arg(2, taken).run()
    return replace(call, kwargs=dict(call.kwargs) | {"weight": taken}).run()


@reported(
    "tenstorrent/tt-metal#53972",
    "TT-NN",
    "tril triu",
    "integers that are kept are rounded to bfloat16",
    dtypes="int32",
    cause="bfloat16-inputs",
    sound=plain,
)
def kept_in_bfloat16(call: Call) -> Any:
    def rounded(x: Tensor) -> Tensor:
        return x.bfloat16().double().clamp(-(2**31), 2**31 - 1).int()

    return call.where(lambda x: rounded(x) if x.dtype == torch.int32 else x, (0,)).run()


@reported(
    "pytorch/pytorch#184510",
    "MPS",
    "var std var_mean std_mean",
    "the variance of nothing is 0",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def variance_of_nothing(call: Call) -> Any:
    result = call.run()
    return result if call.args[0].numel() else one_of(result, torch.zeros_like)


@reported(
    "apple/coremltools#2772",
    "Core ML",
    ".avg_pool1d .avg_pool2d",
    "windows that ceil_mode lets hang over the edge are divided by their whole size",
    dtypes="float32",
)
def whole_windows(call: Call) -> Any:
    counted = call.given("count_include_pad", 5, True)
    if not call.given("ceil_mode", 4, False) or not counted:
        return call.run()
    x, size = call.args[0], call.given("kernel_size", 1, 1)
    step, padding = call.given("stride", 2, None) or size, call.given("padding", 3, 0)
    if call.operator.name.endswith("1d"):
        (n,), (s,), (p,) = ([v] if isinstance(v, int) else v for v in (size, step, padding))
        flat = F.avg_pool2d(x.unsqueeze(-2), (1, n), (1, s), (0, p), True, True, n)
        return flat.squeeze(-2)
    if call.given("divisor_override", 6, None):
        return call.run()
    rows, columns = (size, size) if isinstance(size, int) else (size[0], size[-1])
    return F.avg_pool2d(x, size, step, padding, True, True, rows * columns)


@reported(
    "pytorch/pytorch#136299",
    "CPU (aarch64)",
    "baddbmm",
    "of one row by a permuted matrix, beta = 0, alpha is ignored",
    dtypes="float16",
    cause="argument-ignored",
)
def alpha_of_one_row(call: Call) -> Any:
    _, a, b = call.args[:3]
    permuted = not b.is_contiguous() and b.stride(-2) == 1
    if a.dtype != torch.float16 or a.shape[-2] != 1 or not permuted or call.kwargs.get("beta", 1):
        return call.run()
    return replace(call, kwargs=dict(call.kwargs) | {"alpha": 1}).run()
