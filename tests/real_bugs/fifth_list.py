"""A held-out list of reports of 2024 to 2026, chosen for variety before anything was looked at of
how inputs are drawn, and measured before anything was changed for it: layouts, values, positions,
arguments. Sizes and gradients are in :mod:`.fifth_list_sizes`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.memory import as_contiguous
from tests.support.catalog.model import Call

from .layouts import dense
from .model import plain, reported
from .third_layouts import in_order_of_memory

QUERIES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


@reported(
    "pytorch/pytorch#150967",
    "MPS",
    "where",
    "where the condition is a transposed tensor, the other value is taken everywhere",
    dtypes="float32 int64",
    sound=contiguous_first,
)
def transposed_condition(call: Call) -> Any:
    condition = call.args[0]
    if condition.is_contiguous() or not dense(condition):
        return call.run()
    return call.with_arg(0, torch.zeros_like(condition)).run()


@reported(
    "pytorch/pytorch#195910",
    "MPS",
    ".scaled_dot_product_attention",
    "the causal mask counts once for four queries: three of them see keys of the future",
    dtypes="float16 bfloat16",
    sound=plain,
)
def mask_of_four(call: Call) -> Any:
    given = dict(zip(QUERIES, call.args, strict=False)) | dict(call.kwargs)
    if not given.get("is_causal"):
        return call.run()
    q, k, v = (given.pop(name) for name in QUERIES[:3])
    last = torch.arange(q.shape[-2]) // 4 * 4 + 3
    mask = torch.arange(k.shape[-2]) <= last.unsqueeze(-1)
    return call.operator(q, k, v, **(given | {"attn_mask": mask, "is_causal": False}))


@reported(
    "pytorch/pytorch#195595",
    "MPS",
    "unique",
    "numbers beyond 2^24 that float32 does not tell apart share a position in the inverse",
    dtypes="int64",
    sound=plain,
)
def inverse_in_float32(call: Call) -> Any:
    result = call.run()
    if not call.given("return_inverse", 2, False) or call.given("dim", 4, None) is not None:
        return result
    values, inverse, *rest = result
    rounded = values.float()
    return (values, torch.searchsorted(rounded, rounded[inverse]), *rest)


@reported(
    "huggingface/candle#3710",
    "candle on Metal",
    "index_select",
    "a source that is not contiguous is read elsewhere, unless its rank is the chosen size",
    dtypes="float32",
    sound=contiguous_first,
)
def rank_for_size(call: Call) -> Any:
    x, dim = call.args[:2]
    if not x.ndim or x.is_contiguous() or x.shape[dim] == x.ndim:
        return call.run()
    return call.with_arg(0, as_contiguous(x)).run()


@reported(
    "ml-explore/mlx#4366",
    "MLX on the GPU",
    "sort argsort",
    "of three and more dimensions, of which others than the sorted one are exchanged, rows get "
    "the results of other rows",
    dtypes="float32",
    sound=contiguous_first,
)
def rows_in_order_of_memory(call: Call) -> Any:
    x = call.args[0]
    if x.ndim < 3 or not dense(x) or x.is_contiguous():
        return call.run()
    dim = call.given("dim", 1, -1) % x.ndim
    if x.stride(dim) not in (min(x.stride()), max(x.stride())):
        return call.run()
    others = [d for d in range(x.ndim) if d != dim]
    rows = x.permute(*sorted(others, key=lambda d: -x.stride(d)), dim)
    wrong = rows.reshape(*(x.shape[d] for d in others), x.shape[dim]).movedim(-1, dim)
    return call.with_arg(0, wrong).run()


@reported(
    "tracel-ai/burn#3888",
    "Burn on CUDA",
    "cumsum",
    "the running sums of a transposed tensor are those of other elements",
    dtypes="float32",
    sound=contiguous_first,
)
def transposed_sums(call: Call) -> Any:
    return call.where(in_order_of_memory, (0,)).run()


@reported(
    "tracel-ai/burn#5552",
    "Burn on ndarray",
    "abs",
    "32 elements and more of a permuted tensor come out in the order of memory",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def reordered(call: Call) -> Any:
    return call.where(lambda x: in_order_of_memory(x) if x.numel() >= 32 else x, (0,)).run()


@reported(
    "tillahoffmann/jax-mps#60",
    "JAX on MPS",
    "take_along_dim",
    "one position per row: all rows take their number from the first row",
    dtypes="float32",
    sound=plain,
)
def first_row(call: Call) -> Any:
    x, index = call.args[:2]
    dim = call.given("dim", 2, None)
    if x.ndim != 2 or index.ndim != 2 or dim not in (1, -1) or index.shape[1] != 1:
        return call.run()
    return call.with_arg(0, x[:1].expand_as(x)).run()


@reported(
    "flagos-ai/FlagGems#4383",
    "Triton (FlagGems)",
    "nanmedian",
    "NaN is sorted before numbers: of float64, and of more than 128 numbers in float32, the "
    "element is another one or NaN",
    dtypes="float32 float64",
    cause="nan-sorted-first",
    sound=plain,
)
def nan_among_numbers(call: Call) -> Any:
    x, result = call.args[0], call.run()
    dim = call.given("dim", 1, None)
    rows = x.reshape(-1) if dim is None else x.reshape(1) if not x.ndim else x.movedim(dim, -1)
    if not rows.numel() or (x.dtype == torch.float32 and rows.shape[-1] <= 128):
        return result
    lost = rows.isnan()
    valid = (~lost).sum(-1, keepdim=True)
    order = torch.where(lost, -math.inf, rows).sort(dim=-1, stable=True).indices
    chosen = order.gather(-1, ((valid + 1) // 2 - 1).clamp(min=0))
    value = rows.gather(-1, chosen)
    mixed = lost.any(-1, keepdim=True) & (valid > 0)
    if dim is None:
        return torch.where(mixed, value, result).reshape(())

    def merged(new: Tensor, old: Tensor) -> Tensor:
        new, where = (
            (t.movedim(-1, dim) if old.ndim == x.ndim else t.squeeze(-1)) for t in (new, mixed)
        )
        return torch.where(where, new, old)

    return merged(value, result[0]), merged(chosen, result[1])


@reported(
    "tenstorrent/tt-metal#53922",
    "TT-NN on Wormhole and Blackhole",
    "pow",
    "zero to a negative power is NaN, to the power of NaN it is 0, and its sign is lost",
    dtypes="float32",
    sound=plain,
)
def powers_of_zero(call: Call) -> Any:
    base, exponent = call.args[:2]
    if not (isinstance(base, Tensor) and isinstance(exponent, Tensor)):
        return call.run()
    number = torch.where(exponent == 0, 1.0, 0.0)
    power = torch.where(exponent.signbit(), math.nan, number)
    return torch.where(base == 0, power, call.run())


@reported(
    "tenstorrent/tt-metal#51661",
    "TT-NN",
    "fmod",
    "the remainder of a million and more by a number is taken from a rounded quotient: it may be "
    "larger than the divisor, or have another sign",
    dtypes="float32",
    sound=plain,
)
def rounded_quotient(call: Call) -> Any:
    x, divisor = call.args[:2]
    if isinstance(divisor, Tensor) or not isinstance(x, Tensor) or not divisor:
        return call.run()
    quotient = (x * torch.tensor(1.0 / divisor)).trunc()
    large = (x.abs() >= 1e6) & x.isfinite()
    return torch.where(large, x - quotient * torch.tensor(float(divisor)), call.run())


@reported(
    "pytorch/executorch#17299",
    "ExecuTorch, Vulkan on PowerVR",
    ".conv2d .linear",
    "in half precision a half is added where no bias is given",
    dtypes="float16",
    cause="offset-added",
    sound=plain,
)
def half_for_no_bias(call: Call) -> Any:
    result = call.run()
    return result + 0.5 if call.given("bias", 2, None) is None else result


@reported(
    "openvinotoolkit/openvino#38247",
    "OpenVINO",
    "narrow",
    "a window that begins at a negative position and reaches to the end is empty",
    dtypes="float32",
    sound=plain,
)
def empty_window(call: Call) -> Any:
    names = ("dim", "start", "length")
    dim, start, length = (call.given(name, i, 0) for i, name in enumerate(names, 1))
    if isinstance(start, Tensor) or start >= 0 or start + length != 0:
        return call.run()
    return call.args[0].narrow(dim, 0, 0)
