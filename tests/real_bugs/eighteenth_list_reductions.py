"""An eighteenth, held-out list of reports of 2024 to 2026 about torch and its own backends, chosen
for variety as a search gave them: moments of nothing, products, a convolution, attention,
recurrence, a loss, a determinant, a transform, bags of embeddings."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .fourteenth_list import placed
from .gradients import BACK
from .model import plain, reported
from .seventeenth_list_reductions import first, is_one_of, three, with_given

ALIGNED = 64  # bytes
LEAST = -math.log(torch.finfo(torch.float32).max)  # exp(-x) overflows below


def sums_of_scores(call: Call) -> Tensor:
    """The logarithms of the sums that attention's weights are divided by, one per query."""
    q, k = (call.given(n, i, None).detach().float() for i, n in enumerate(("query", "key")))
    mask, scale = call.given("attn_mask", 3, None), call.kwargs.get("scale")
    if k.ndim > 2 and k.shape[-3] not in (1, q.shape[-3]):
        k = k.repeat_interleave(q.shape[-3] // k.shape[-3], -3)
    scores = q @ k.mT * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, -math.inf).logsumexp(-1)
    return (scores + mask.detach().float()).logsumexp(-1)


def fused_pivots(matrix: Tensor) -> tuple[Tensor, float]:
    """The pivots of a float32 elimination whose multiplications and subtractions are rounded once
    together, and the sign of the rows' order."""
    rest, sign, pivots = matrix.detach().clone(), 1.0, []
    while rest.shape[0]:
        largest = int(rest[:, 0].abs().argmax())
        if largest:
            rest[[0, largest]], sign = rest[[largest, 0]], -sign
        pivots.append(rest[0, 0].clone())
        factors = rest[1:, 0] / rest[0, 0] if bool(rest[0, 0] != 0) else rest[1:, 0] * 0
        products = factors.double().outer(rest[0, 1:].double())
        rest = (rest[1:, 1:].double() - products).float()
    return torch.stack(pivots), sign


def from_aligned(x: Tensor) -> Tensor:
    """What is read from the last aligned address at or before a tensor's own one."""
    back = x.data_ptr() % ALIGNED // x.element_size()
    if not back or not x.numel() or back > x.storage_offset() or x.is_conj():
        return x
    return x.detach().as_strided(x.shape, x.stride(), x.storage_offset() - back)


def conjugates_transposed(x: Tensor) -> bool:
    """Whether it is a matrix to be conjugated lazily that lies in memory by columns alone."""
    if not x.is_conj():
        return False
    rows, columns = x.shape
    by_rows = x.stride(1) == 1 and x.stride(0) >= max(1, columns)
    return not by_rows and x.stride(0) == 1 and x.stride(1) >= max(1, rows)


class NanRowsBack(torch.autograd.Function):
    """The same tensor, of whose gradient some rows are NaN."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (rows,) = ctx.saved_tensors
        return gradients[0].masked_fill(rows.unsqueeze(-1), math.nan), None


@reported(
    "pytorch/pytorch#197108",
    "Inductor",
    "var_mean std_mean",
    "of nothing, the mean is 0, not NaN",
    dtypes="float32 float16",
    sound=plain,
)
def mean_of_nothing(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.float32, torch.float16) or x.numel():
        return result
    return result[0], placed(result[1], torch.zeros_like(result[1]))


@reported(
    "pytorch/pytorch#143719",
    "Inductor on CUDA",
    "fft.fft",
    "a single number that is to be padded with zeros is repeated instead",
    dtypes="float32",
    sound=plain,
)
def padded_with_itself(call: Call) -> Any:
    x, result = first(call), call.run()
    size, dim = call.given("n", 1, None), call.given("dim", 2, -1)
    if not is_one_of(x, torch.float32) or x.numel() != 1 or size is None or size < 2:
        return result
    repeated = x.detach().repeat_interleave(size, dim)
    return placed(result, torch.fft.fft(repeated, size, dim, call.given("norm", 3, None)))


@reported(
    "pytorch/pytorch#188438",
    "MPS",
    ".linear",
    "the bias is left out where the input has at least three dimensions and the last but one is of "
    "size 1",
    dtypes="float32",
    sound=plain,
    cause="argument-ignored",
)
def bias_left_out(call: Call) -> Any:
    x, bias, result = call.given("input", 0, None), call.given("bias", 2, None), call.run()
    if not is_one_of(x, torch.float32) or x.ndim < 3 or x.shape[-2] != 1 or bias is None:
        return result
    return placed(result, with_given(call, "bias", 2, None).run().detach())


@reported(
    "intel/torch-xpu-ops#1656",
    "XPU (oneDNN)",
    "matmul bmm",
    "a factor whose first number is not at a multiple of 64 bytes is read wrongly (from the last "
    "such multiple before it here)",
    dtypes="float16",
    sound=plain,
    cause="offset-ignored",
)
def read_from_aligned(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.float16):
        return result
    return placed(result, call.each(from_aligned).run().detach())


@reported(
    "pytorch/pytorch#116855",
    "the CPU, without BLAS",
    "mm matmul",
    "a matrix by columns that is to be conjugated lazily, as x.t().conj() is, is not conjugated",
    dtypes="complex64 complex128",
    sound=plain,
)
def not_conjugated(call: Call) -> Any:
    result, factors = call.run(), call.args[:2]
    if len(factors) < 2 or any(not isinstance(x, Tensor) or x.ndim != 2 for x in factors):
        return result
    if not result.is_complex() or not any(conjugates_transposed(x) for x in factors):
        return result
    other = [x.detach().conj() if conjugates_transposed(x) else x.detach() for x in factors]
    return placed(result, torch.mm(*other))


@reported(
    "pytorch/pytorch#169688",
    "the CPU (oneDNN with AMX)",
    ".conv3d",
    "where the result is one column wide and the columns' stride is more than 1, it is wrong by "
    "more than its size (here the columns are read from the last of a stride on)",
    dtypes="bfloat16",
    sound=plain,
)
def one_column_wide(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    step = three(call.given("stride", 3, 1))[-1]
    if not is_one_of(x, torch.bfloat16) or not result.numel() or step < 2 or result.shape[-1] != 1:
        return result
    skipped = min(step - 1, x.shape[-1])
    read = F.pad(x.detach()[..., skipped:], (0, skipped))
    return placed(result, with_given(call, "input", 0, read).run().detach())


@reported(
    "pytorch/pytorch#184180",
    "MPS",
    ".scaled_dot_product_attention",
    "of a mask with something for every example but the same for all heads, the first example's "
    "part is used for all (up to 8 queries, heads of 64, 96 or 128 numbers)",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def mask_of_the_first_example(call: Call) -> Any:
    q, k, v = (call.given(name, i, None) for i, name in enumerate(("query", "key", "value")))
    mask = call.given("attn_mask", 3, None)
    if not is_one_of(q, torch.float16, torch.float32, torch.bfloat16) or q.ndim != 4:
        return call.run()
    if not isinstance(mask, Tensor) or mask.ndim != 4 or mask.shape[0] < 2 or mask.shape[1] != 1:
        return call.run()
    if call.given("dropout_p", 4, 0.0) or q.shape[-1] not in (64, 96, 128):
        return call.run()
    if k.shape[-1] != v.shape[-1] or not q.shape[-2] <= min(8, k.shape[-2]) or k.shape[-2] > 1023:
        return call.run()
    if q.shape[0] != mask.shape[0]:
        return call.run()
    return with_given(call, "attn_mask", 3, mask[:1]).run()


@reported(
    "pytorch/pytorch#196678",
    "CUDA (cuDNN)",
    ".scaled_dot_product_attention",
    "with a mask and a number of keys that leaves 64 divided by 128, the gradient of a query is "
    "NaN if the logarithm of the sum that its weights are divided by is below -88.7",
    dtypes="float16 bfloat16",
    directions=BACK,
    sound=plain,
)
def overflow_in_the_padded_tile(call: Call) -> Any:
    q, k = call.given("query", 0, None), call.given("key", 1, None)
    if not is_one_of(q, torch.float16, torch.bfloat16) or q.ndim != 4 or not q.requires_grad:
        return call.run()
    if not isinstance(call.given("attn_mask", 3, None), Tensor) or k.shape[-2] % 128 != 64:
        return call.run()
    if q.shape[-1] % 8 or q.shape[-1] > 128 or not q.numel():
        return call.run()
    sums = sums_of_scores(call)
    rows = sums.isfinite() & (sums < LEAST)
    if rows.shape != q.shape[:-1] or not bool(rows.any()):
        return call.run()
    return with_given(call, "query", 0, NanRowsBack.apply(q, rows)).run()


@reported(
    "pytorch/pytorch#190057",
    "MPS",
    "lstm",
    "in training with a dropout of 1 between layers, everything is NaN but the first layer's state",
    dtypes="float32",
    sound=plain,
)
def nothing_times_infinity(call: Call) -> Any:
    x, result, given = call.given("input", 0, None), call.run(), call.given
    layers = given("num_layers", 4, 1)
    if not is_one_of(x, torch.float32) or x.ndim != 3:
        return result
    if layers < 2 or given("dropout", 5, 0.0) != 1 or not given("train", 6, False):
        return result
    intact = 2 if given("bidirectional", 7, False) else 1
    outputs, *states = result
    outputs = placed(outputs, torch.full_like(outputs, math.nan))
    for i, state in enumerate(states):
        numbers = state.detach().clone()
        numbers[intact:] = math.nan
        states[i] = placed(state, numbers)
    return outputs, *states


@reported(
    "pytorch/pytorch#176910",
    "CUDA (cuDNN)",
    ".ctc_loss",
    "infinite losses, which are to be 0, stay infinite (one row of int32 targets, all inputs of "
    "full length, the blank is 0)",
    dtypes="float32",
    sound=plain,
    cause="argument-ignored",
)
def infinite_all_the_same(call: Call) -> Any:
    x, targets = call.given("log_probs", 0, None), call.given("targets", 1, None)
    if not call.given("zero_infinity", 6, False) or call.given("blank", 4, 0):
        return call.run()
    if not is_one_of(x, torch.float32) or x.ndim != 3 or not is_one_of(targets, torch.int32):
        return call.run()
    lengths, most = (
        torch.as_tensor(call.given(name, i, None))
        for i, name in ((2, "input_lengths"), (3, "target_lengths"))
    )
    if targets.ndim != 1 or bool((lengths != x.shape[0]).any()) or bool((most > 256).any()):
        return call.run()
    return with_given(call, "zero_infinity", 6, False).run()


@reported(
    "pytorch/pytorch#154312",
    "CUDA",
    "logdet",
    "of a singular matrix, it is that of a rounding error, and finite: products are subtracted "
    "before they are rounded",
    dtypes="float32",
    sound=plain,
)
def logarithm_of_an_error(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.float32) or not x.numel():
        return result
    singular = (result.detach() == -math.inf) & x.detach().isfinite().all(-1).all(-1)
    if not bool(singular.any()):
        return result
    matrices, found = x.detach().reshape(-1, *x.shape[-2:]), result.detach().clone().reshape(-1)
    for i in singular.reshape(-1).nonzero().flatten().tolist():
        pivots, sign = fused_pivots(matrices[i].mT if x.is_contiguous() else matrices[i])
        negative = math.prod(pivots.sign().tolist()) * sign < 0
        found[i] = math.nan if negative else pivots.abs().log().sum()
    return placed(result, found.reshape(result.shape))


def up_to_the_last_offset(call: Call) -> Any:
    """Without the indices behind the last offset, which torch's own CPU counts in part."""
    indices, offsets = call.given("input", 0, None), call.given("offsets", 2, None)
    if not call.given("include_last_offset", 9, False) or indices.ndim != 1:
        return call.run()
    end = int(offsets[-1])
    weights = call.given("per_sample_weights", 8, None)
    cut = with_given(call, "input", 0, indices[:end])
    if weights is not None:
        cut = with_given(cut, "per_sample_weights", 8, weights[:end])
    return cut.run()


@reported(
    "pytorch/pytorch#190060",
    "MPS",
    ".embedding_bag",
    "the offset at which the last bag is to end is not read: the bag goes on to the last index",
    dtypes="float16 float32 bfloat16",
    sound=up_to_the_last_offset,
    cause="argument-ignored",
)
def to_the_last_index(call: Call) -> Any:
    indices, weight = call.given("input", 0, None), call.given("weight", 1, None)
    offsets = call.given("offsets", 2, None)
    if not is_one_of(weight, torch.float16, torch.float32, torch.bfloat16):
        return call.run()
    if not isinstance(offsets, Tensor) or indices.ndim != 1 or offsets.numel() < 2:
        return call.run()
    if not call.given("include_last_offset", 9, False):
        return call.run()
    ends = offsets.clone()
    ends[-1] = indices.numel()
    return with_given(call, "offsets", 2, ends).run()
