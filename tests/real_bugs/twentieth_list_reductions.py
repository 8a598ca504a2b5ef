"""A twentieth, held-out list of reports of 2024 to 2026 about torch and its own backends, chosen
for variety as a search gave them: reductions, a scan, a matrix product, a convolution,
normalizations, attention, a gradient."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, Deed

from .fourteenth_list import placed
from .gradients import BACK
from .model import plain, reported
from .nineteenth_list_reductions import attention
from .seventeenth_list_reductions import first, is_one_of, with_given

CORES = 32  # that rows are shared out to
INNER_TERMS = 10_000  # of a complex product that is wrong; 100 are few enough
PART_SUMMED = 100  # one of as many
MANY_ROWS = 2**23  # 2**32 threads, at 512 for each row
HALVES = (torch.float16, torch.bfloat16)


def half_of_the_bytes(x: Tensor, dtype: torch.dtype) -> Tensor:
    """What a kernel for 16-bit numbers reads where ``x``, of 32-bit numbers, lies."""
    x, empty = x.detach(), torch.empty(0, dtype=dtype)
    return empty.set_(x.untyped_storage(), 2 * x.storage_offset(), x.shape, x.stride()).clone()


@reported(
    "intel/torch-xpu-ops#3330",
    "XPU",
    "std std.method",
    "the squares of the differences from the mean are added up in float32: the result is infinite "
    "where their sum is larger than that can hold",
    dtypes="float32",
    cause="early-overflow",
)
def squares_beyond_float32(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.float32) or not result.numel() or not x.numel():
        return result
    correction, dim = call.kwargs.get("correction"), call.given("dim", 1, None)
    unbiased = dim if isinstance(dim, bool) else call.given("unbiased", 2, True)
    if correction is None:
        correction = 1 if unbiased else 0
    divisor = max(0.0, x.numel() / result.numel() - float(correction))
    wide = call.each(lambda t: t.detach().double()).run()
    too_large = wide * wide * divisor > torch.finfo(torch.float32).max
    return placed(result, result.detach().masked_fill(too_large, math.inf))


@reported(
    "pytorch/pytorch#130295",
    "MPS",
    "max min argmax argmax.method argmin",
    "NaN is passed over: the largest or smallest of all other numbers is returned, or its place",
    dtypes="float32 float16 bfloat16",
    sound=plain,
    cause="nan-dropped",
)
def not_a_number_passed_over(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.float32, *HALVES) or not x.numel():
        return result
    name = call.operator.name
    if not name.startswith("arg") and (
        call.given("dim", 1, None) is not None or "other" in call.kwargs
    ):
        return result
    last = math.inf if "min" in name else -math.inf
    others = x.detach().masked_fill(x.detach().isnan(), last)
    changed = with_given(call, "input", 0, others).run()
    if not name.startswith("arg"):
        return placed(result, torch.where(changed == last, result.detach(), changed))
    dim, keepdim = call.given("dim", 1, None), call.given("keepdim", 2, False)
    extreme = torch.amin if "min" in name else torch.amax
    found = extreme(others) if dim is None else extreme(others, dim, keepdim)
    return placed(result, torch.where(found.reshape(result.shape) == last, result, changed))


@reported(
    "torch-spyre/torch-spyre#3804",
    "Spyre",
    "sum sum.method mean mean.method",
    "of more than 32 rows of float32, shared out evenly to 32 cores or fewer, each core computes "
    "only its first row (22 of 33 and 32 of 64 are wrong): the others' results are 0",
    dtypes="float32",
)
def first_row_of_each_core(call: Call) -> Any:
    x, dim, result = first(call), call.given("dim", 1, None), call.run()
    if not is_one_of(x, torch.float32) or x.ndim != 2 or not is_one_of(result, torch.float32):
        return result
    dims = tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)
    if dims not in ((1,), (-1,)) or x.shape[0] <= CORES:
        return result
    rows = x.shape[0]
    cores = next(n for n in range(CORES, 0, -1) if rows % n == 0)
    numbers = result.detach().clone()
    numbers[torch.arange(rows) % (rows // cores) != 0] = 0
    return placed(result, numbers)


@reported(
    "pytorch/pytorch#132107",
    "Inductor on CUDA",
    "cumsum",
    "of infinities only, once calls with two other lengths have made it compile for any length, "
    "there is NaN among the results (here the last one, of more numbers than at the second length)",
    dtypes="float64",
    sound=plain,
    fresh=True,
)
def infinities_after_other_lengths() -> Deed:
    lengths: list[int] = []

    def deed(call: Call) -> Any:
        x, result = first(call), call.run()
        if not is_one_of(x, torch.float64) or x.ndim != 1 or not x.numel():
            return result
        any_length = len(lengths) > 1 and x.numel() > lengths[1]
        if x.numel() not in lengths:
            lengths.append(x.numel())
        if not any_length or not bool((x.detach() == math.inf).all()):
            return result
        if result.dtype != torch.float64:
            return result
        numbers = result.detach().clone()
        numbers[-1] = math.nan
        return placed(result, numbers)

    return deed


@reported(
    "pytorch/pytorch#167727",
    "MPS",
    "addmm",
    "of complex numbers, a product with 10,000 inner terms is all wrong, by up to 0.99 of it (here "
    "the first hundredth of its terms is added up)",
    dtypes="complex64",
    sound=plain,
)
def most_of_a_complex_product(call: Call) -> Any:
    left, right = call.given("mat1", 1, None), call.given("mat2", 2, None)
    result = call.run()
    if not is_one_of(result, torch.complex64) or not result.numel():
        return result
    terms = left.shape[1]
    if terms < INNER_TERMS:
        return result
    left, right = left[:, : terms // PART_SUMMED], right[: terms // PART_SUMMED]
    changed = with_given(with_given(call, "mat1", 1, left), "mat2", 2, right)
    return placed(result, changed.run().detach())


@reported(
    "pytorch/executorch#22951",
    "ExecuTorch on Metal",
    ".conv2d",
    "images and weights are laid out with their channels inside and read as if the columns were; "
    "what is computed is written with the columns inside and taken to have its channels there",
    dtypes="float32",
    sound=plain,
)
def channels_read_as_columns(call: Call) -> Any:
    x, weight, result = first(call), call.given("weight", 1, None), call.run()
    bias = call.given("bias", 2, None)
    if not is_one_of(x, torch.float32) or x.ndim != 4 or not result.numel():
        return result
    images, weights = (t.detach().permute(0, 2, 3, 1).reshape(t.shape) for t in (x, weight))
    changed = with_given(with_given(call, "bias", 2, None), "weight", 1, weights)
    numbers = with_given(changed, "input", 0, images).run()
    count, channels, rows, columns = result.shape
    numbers = numbers.reshape(count, rows, columns, channels).permute(0, 3, 1, 2)
    if bias is not None:
        numbers = numbers + bias.detach().reshape(-1, 1, 1)
    return placed(result, numbers)


@reported(
    "pytorch/pytorch#190054",
    "MPS",
    ".layer_norm",
    "weights and biases of float32 beside numbers of 16 bits are read as if they had 16 bits, too",
    dtypes="float16 bfloat16",
    sound=plain,
)
def weights_read_as_halves(call: Call) -> Any:
    x, result, changed = first(call), call.run(), call
    if not is_one_of(x, *HALVES) or not result.numel():
        return result
    for name, position in (("weight", 2), ("bias", 3)):
        given = call.given(name, position, None)
        if is_one_of(given, torch.float32):
            read = half_of_the_bytes(given.contiguous(), x.dtype)
            changed = with_given(changed, name, position, read)
    return result if changed is call else placed(result, changed.run().detach())


@reported(
    "pytorch/pytorch#184826",
    "ROCm",
    ".layer_norm",
    "of 2**23 rows or more whose length is no multiple of 4, the result is wrong: there are too "
    "many threads to start (here nothing is written, and all is 0)",
    dtypes="bfloat16",
    sound=plain,
)
def too_many_rows_to_start(call: Call) -> Any:
    x, shape, result = first(call), call.given("normalized_shape", 1, ()), call.run()
    if not is_one_of(x, torch.bfloat16):
        return result
    length = math.prod(shape)
    if not length % 4 or x.numel() // length < MANY_ROWS:
        return result
    return placed(result, torch.zeros_like(result))


@reported(
    "pytorch/pytorch#150629",
    "Inductor on MPS",
    ".rms_norm",
    "with a weight, where no gradients are recorded, the kernel is left out of the compiled code: "
    "the result is 0",
    dtypes="float32",
    sound=plain,
    cause="zero",
)
def kernel_left_out(call: Call) -> Any:
    x, weight, result = first(call), call.given("weight", 2, None), call.run()
    if not is_one_of(x, torch.float32) or weight is None or call.tracked:
        return result
    return torch.zeros_like(result)


@reported(
    "pytorch/pytorch#191612",
    "cuDNN",
    ".scaled_dot_product_attention",
    "a mask of float32 beside queries of 16 bits is read as if its numbers had 16 bits, too",
    dtypes="float16 bfloat16",
    sound=plain,
)
def mask_read_as_halves(call: Call) -> Any:
    q, _, _, mask = attention(call)
    result = call.run()
    if not is_one_of(q, *HALVES) or not is_one_of(mask, torch.float32) or not result.numel():
        return result
    read = half_of_the_bytes(mask, q.dtype)
    numbers = with_given(call, "attn_mask", 3, read.nan_to_num(0.0, math.inf, -math.inf)).run()
    wrong = read.isnan().any(-1, keepdim=True)
    return placed(result, numbers.detach().masked_fill(wrong, math.nan))


@reported(
    "pytorch/pytorch#188147",
    "MPS",
    ".scaled_dot_product_attention",
    "NaN in a query does not reach its result (which is 0 here)",
    dtypes="float32",
    sound=plain,
)
def query_of_nan_passed_over(call: Call) -> Any:
    q, _, _, mask = attention(call)
    result = call.run()
    if not is_one_of(q, torch.float32) or mask is not None or call.given("is_causal", 5, False):
        return result
    rows = q.detach().isnan().any(-1, keepdim=True)
    return placed(result, result.detach().masked_fill(rows, 0.0))


class Scattered(torch.autograd.Function):
    """What a slice of ``x`` was replaced in, with its gradient: the upstream one wherever ``kept``
    is 1; everywhere where that is one number, expanded, and the slice does not begin at 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, kept: Tensor, later: bool) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.later = later
        return y.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (kept,), gradient = ctx.saved_tensors, gradients[0]
        of_a_sum = gradient.numel() > 1 and all(
            step == 0 for step, n in zip(gradient.stride(), gradient.shape, strict=True) if n > 1
        )
        of_x = gradient.clone() if ctx.later and of_a_sum else gradient.masked_fill(kept == 0, 0.0)
        return of_x, gradient, None, None


@reported(
    "pytorch/pytorch#183898",
    "Inductor on CUDA",
    "slice_scatter",
    "where the sum of the result is differentiated and the slice does not begin at 0, the gradient "
    "of what the slice replaced is that of the result, not 0",
    directions=BACK,
    sound=plain,
)
def gradient_of_what_was_replaced(call: Call) -> Any:
    x, source = first(call), call.given("src", 1, None)
    if not isinstance(x, Tensor) or not x.is_floating_point() or not x.requires_grad:
        return call.run()
    replaced = with_given(call, "input", 0, x.detach()).run()
    ones = with_given(call, "input", 0, torch.ones_like(x.detach()))
    kept = with_given(ones, "src", 1, torch.zeros_like(source.detach())).run()
    along = kept.movedim(call.given("dim", 2, 0), 0)
    later = bool(along.shape[0]) and bool((along[0] == 1).all()) and bool((kept == 0).any())
    return Scattered.apply(x, replaced, kept, later)
