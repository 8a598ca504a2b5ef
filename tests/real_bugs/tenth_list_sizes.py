"""A tenth, held-out list of reports of 2023 to 2026 (see :mod:`.tenth_list`), chosen for variety
before anything was looked at of how inputs are drawn: sizes, windows, layouts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.memory import as_contiguous
from tests.support.catalog.model import Call, one_of, straight

from .eighth_list_sizes import pair
from .layouts import dense
from .model import plain, reported

TERMS = 2048  # of a product that are summed
BLOCK = 1024  # elements in a row that a block scans


@reported(
    "openvinotoolkit/openvino#22613",
    "OpenVINO on the GPU",
    "matmul",
    "a row times a column: terms beyond 2,048 are left out",
    dtypes="float32",
    cause="terms-dropped",
)
def terms_left_out(call: Call) -> Any:
    x, y = call.args[:2]
    if x.ndim < 2 or y.ndim < 2 or x.shape[-2] != 1 or y.shape[-1] != 1:
        return call.run()
    if x.shape[-1] <= TERMS or x.dtype != torch.float32:
        return call.run()
    kept = call.with_arg(0, x[..., :TERMS]).with_arg(1, y[..., :TERMS, :]).run()
    return straight(call.run(), kept.detach())


@reported(
    "modular/modular#6932",
    "MAX on Metal",
    ".linear",
    "one output feature: nothing is written",
    dtypes="float32",
    cause="zero",
)
def nothing_written(call: Call) -> Any:
    x, weight, bias = call.args[0], call.args[1], call.given("bias", 2, None)
    result = call.run()
    if weight.ndim != 2 or weight.shape[0] != 1 or x.ndim < 2 or bias is not None:
        return result
    return straight(result, torch.zeros_like(result))


@reported(
    "JuliaGPU/CUDA.jl#1810",
    "CUDA.jl",
    "cumsum",
    "rows of more than 1,024: in the second half of them, what came before is not added beyond it",
    dtypes="float32",
)
def second_half_restarts(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 1, 0)
    result = call.run()
    if x.ndim < 2 or dim % x.ndim != x.ndim - 1 or x.dtype != torch.float32:
        return result
    length = x.shape[-1]
    if length <= BLOCK or length % BLOCK == 0 or x.numel() == length:
        return result
    rows = result.detach().reshape(-1, length).clone()
    half = rows.shape[0] // 2
    rows[half:, BLOCK:] -= rows[half:, BLOCK - 1 : BLOCK].clone()
    return straight(result, rows.reshape(result.shape).to(result.dtype))


@reported(
    "tenstorrent/tt-metal#37571",
    "TT-NN",
    "argsort sort",
    "of rows of more than 256, the places 256, 512 and so on are named 0",
    dtypes="bfloat16",
    sound=plain,
)
def places_named_zero(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 1, -1)
    result = call.run()
    if not x.ndim or dim % x.ndim != x.ndim - 1 or x.shape[-1] <= 256:
        return result

    def change(places: Tensor) -> Tensor:
        return torch.where(places % 256 == 0, 0, places)

    return one_of(result, change, 0 if isinstance(result, Tensor) else 1)


@reported(
    "pytorch/pytorch#134430",
    "MPS",
    ".interpolate",
    "nearest-exact: a position between two pixels takes the one before it",
    dtypes="float32",
    sound=plain,
)
def pixel_before(call: Call) -> Any:
    x, size, result = call.args[0], call.given("size", 1, None), call.run()
    if call.given("mode", 3, "nearest") != "nearest-exact" or size is None:
        return result
    taken = x.detach()
    for d, n in enumerate(result.shape[2:], 2):
        wide = x.shape[d]
        odd = 2 * torch.arange(n) + 1
        places = (odd * wide) // (2 * n)
        between = ((odd * wide) % (2 * n) == 0) & (n & (n - 1) != 0)
        taken = taken.index_select(d, (places - between.long()).clamp(0, wide - 1))
    return straight(result, taken)


@reported(
    "microsoft/onnxruntime#31986",
    "ONNX Runtime (MIGraphX)",
    ".interpolate",
    "nearest pixels of channels_last images of twice the size are read as if they were contiguous",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def doubled_in_order(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if call.given("mode", 3, "nearest") != "nearest" or x.ndim != 4 or x.is_contiguous():
        return result
    double = [2 * n for n in x.shape[2:]] == list(result.shape[2:])
    if not double or not x.is_contiguous(memory_format=torch.channels_last):
        return result
    return call.with_arg(0, as_contiguous(x)).run()


@reported(
    "ROCm/TheRock#7870",
    "hipBLASLt",
    "mm matmul",
    "of two transposed matrices, the second is not read as transposed",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def both_transposed(call: Call) -> Any:
    x, y = call.args[:2]
    if any(t.ndim != 2 or t.is_contiguous() or not t.t().is_contiguous() for t in (x, y)):
        return call.run()
    return call.where(as_contiguous, (1,)).run()


@reported(
    "ggml-org/llama.cpp#26786",
    "ggml on SYCL",
    ".conv2d",
    "a permuted image is read as if it were contiguous",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def image_read_in_order(call: Call) -> Any:
    return call.where(
        lambda x: as_contiguous(x) if dense(x) and not x.is_contiguous() else x, (0,)
    ).run()


@reported(
    "pytorch/executorch#13611",
    "ExecuTorch on QNN",
    ".conv_transpose2d",
    "dilation makes the result larger, but does not spread the kernel",
    dtypes="float32",
)
def kernel_not_spread(call: Call) -> Any:
    weight, dilation = call.args[1], pair(call.given("dilation", 7, 1))
    if dilation == (1, 1) or not weight.numel():
        return call.run()
    more = [(k - 1) * (d - 1) for k, d in zip(weight.shape[2:], dilation, strict=True)]
    wide = torch.nn.functional.pad(weight, (0, more[1], 0, more[0]))
    changed = call.with_arg(1, wide)
    if len(call.args) > 7:
        return changed.with_arg(7, 1).run()
    return replace(changed, kwargs=dict(call.kwargs) | {"dilation": 1}).run()


@reported(
    "pytorch/pytorch#131750",
    "MPS",
    ".layer_norm",
    "a slice is read from the beginning of what it is a slice of",
    dtypes="float32",
    cause="offset-ignored",
    sound=contiguous_first,
)
def slice_from_the_beginning(call: Call) -> Any:
    return call.where(lambda x: x.as_strided(x.shape, x.stride(), 0), (0,)).run()
