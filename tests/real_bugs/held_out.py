"""Reports that were collected after the inputs were last changed: they were measured once before
anything was changed for them (``docs/real-bugs.md`` has that figure)."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.memory import scalar_offset_ignored
from tests.support.catalog.model import Call

from .gradients import hooked
from .layouts import dense
from .model import plain, reported

HALVES = "float16 bfloat16"
F = torch.nn.functional


def from_the_start(x: Tensor) -> Tensor:
    """A contiguous view read from the beginning of its storage."""
    return x.as_strided(x.shape, x.stride(), 0) if x.is_contiguous() else x


@reported(
    "pytorch/pytorch#174172",
    "Inductor",
    "copysign copysign_",
    "copysign with the number -0.0 takes it for +0.0",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
)
def copysign_of_a_number(call: Call) -> Any:
    other = call.given("other", 1, None)
    if isinstance(other, Tensor) or other != 0.0:
        return call.run()
    return call.with_arg(1, 0.0).run()


@reported(
    "pytorch/pytorch#133520",
    "MPS",
    ".batch_norm",
    "batch_norm reads a contiguous slice from the beginning of its storage",
    dtypes="float32",
    cause="offset-ignored",
    sound=plain,
)
def sliced_norm(call: Call) -> Any:
    return call.where(from_the_start, (0,)).run()


@reported(
    "pytorch/pytorch#105801",
    "MPS",
    "erfinv erfinv_",
    "erfinv reads a slice from the beginning of its storage",
    dtypes="float32",
    cause="offset-ignored",
    sound=plain,
)
def sliced_erfinv(call: Call) -> Any:
    if call.operator.name.endswith("_"):
        return call.run()
    return call.where(from_the_start, (0,)).run()


@reported(
    "pytorch/pytorch#104832",
    "MPS",
    "mm.out matmul.out bmm.out",
    "a product into a slice of columns is not written",
    dtypes="float32",
    sound=plain,
)
def product_into_slice(call: Call) -> Any:
    out = call.args[0]
    if out.is_contiguous() or dense(out) or not out.numel():
        return call.run()
    kept = out.clone()
    result = call.run()
    if result.shape == kept.shape:
        result.copy_(kept)
    return result


@reported(
    "pytorch/pytorch#163347",
    "CPU without AVX-512, oneDNN",
    ".conv2d",
    "one channel in bfloat16 convolved with a small kernel: only its first tap counts",
    dtypes="bfloat16",
    sound=plain,
)
def first_tap(call: Call) -> Any:
    x, weight = call.args[:2]
    if x.ndim != 4 or tuple(weight.shape) != (1, 1, 2, 2):
        return call.run()
    first = torch.zeros_like(weight)
    first[..., 0, 0] = 1
    return call.with_arg(1, weight * first).run()


@reported(
    "pytorch/pytorch#171034",
    "CPU",
    "matmul mm",
    "a sum of one infinity and numbers is NaN in bfloat16: each factor is split in two parts",
    dtypes="bfloat16",
    sound=plain,
)
def split_infinity(call: Call) -> Any:
    result = call.run()
    return torch.where(result.isinf(), torch.full_like(result, math.nan), result)


@reported(
    "microsoft/onnxruntime#28310",
    "ONNX Runtime CPU",
    ".interpolate",
    "nearest takes the pixel under the middle of the output's, as nearest-exact does",
    dtypes="float32",
)
def nearest_is_exact(call: Call) -> Any:
    mode = call.given("mode", 3, "nearest")
    if mode != "nearest":
        return call.run()
    position_of_mode = len(call.args) > 3
    if position_of_mode:
        return call.with_arg(3, "nearest-exact").run()
    return call.operator(*call.args, **{**call.kwargs, "mode": "nearest-exact"})


@reported(
    "microsoft/DirectML#739",
    "torch-directml",
    ".cross_entropy",
    "with reduction='none' the gradient is zero",
    dtypes="float32",
    directions=("backward",),
    cause="zero",
    sound=plain,
)
def no_gradient(call: Call) -> Any:
    if call.kwargs.get("reduction", "mean") != "none":
        return call.run()
    return hooked(call, 0, lambda x, gradient: torch.zeros_like(gradient))


@reported(
    "microsoft/onnxruntime#29637",
    "ONNX Runtime CUDA",
    ".max_pool1d .max_pool2d",
    "with dilation and padding the first windows begin at a pixel between their taps",
    dtypes="float32",
    sound=plain,
)
def dilated_begin(call: Call) -> Any:
    padding, dilation = call.given("padding", 3, 0), call.given("dilation", 4, 1)

    def widest(value: Any) -> int:
        return max(value) if isinstance(value, (tuple, list)) else int(value)

    if widest(dilation) < 2 or not widest(padding):
        return call.run()
    result = call.run()
    value = result if isinstance(result, Tensor) else result[0]
    x = call.args[0]
    value = value.clone()
    if value.numel() and x.numel():
        value[..., 0] = torch.maximum(
            value[..., 0], x[..., 0].amax(-1, keepdim=True) if x.ndim > 3 else x[..., 0]
        )
    return value if isinstance(result, Tensor) else (value, *result[1:])


@reported(
    "pytorch/pytorch#183528",
    "ONNX Runtime CPU",
    ".avg_pool1d .avg_pool2d",
    "with ceil_mode the last window is divided by the whole kernel's size",
    dtypes="float32",
    sound=plain,
)
def whole_divisor(call: Call) -> Any:
    counted = call.given("count_include_pad", 5, True)
    if not call.given("ceil_mode", 4, False) or not counted:
        return call.run()
    if call.given("divisor_override", 6, None) is not None:
        return call.run()
    x, flat = call.args[0], call.operator.name.endswith("1d")
    size = pair(call.given("kernel_size", 1, 1), flat, 1)
    stride = pair(call.given("stride", 2, None) or size, flat, 1)
    padding = pair(call.given("padding", 3, 0), flat, 0)
    image = x.unsqueeze(-2) if flat else x
    result = F.avg_pool2d(
        image, size, stride, padding, True, True, divisor_override=math.prod(size)
    )
    return result.squeeze(-2) if flat else result


def pair(value: Any, flat: bool, other: int) -> tuple[int, int]:
    """The sizes of a window in two dimensions; of one that is flat, ``other`` in the first."""
    values = (value,) if isinstance(value, int) else tuple(value)
    if flat:
        return (other, values[-1])
    return (values[0], values[-1])


@reported(
    "pytorch/pytorch#125318",
    "MPS",
    "cumsum",
    "the running sum of bool is kept in eight bits: 128 is -128",
    dtypes="bool",
    sound=plain,
)
def sum_of_bool(call: Call) -> Any:
    return call.run().to(torch.int8).to(torch.int64)


@reported(
    "pytorch/pytorch#192483",
    "CUDA",
    "linalg.eigh",
    "of a batch of complex matrices from 17 x 17 on every second has wrong eigenvectors",
    dtypes="complex64",
    sound=plain,
)
def half_of_the_batch(call: Call) -> Any:
    x = call.args[0]
    values, vectors = call.run()
    if x.ndim < 3 or x.shape[-1] < 17:
        return values, vectors
    flat = vectors.clone().reshape(-1, *vectors.shape[-2:])
    flat[1::2] *= 0.5
    return values, flat.reshape(vectors.shape)


@reported(
    "ml-explore/mlx#2835",
    "MLX",
    ".scaled_dot_product_attention",
    "the causal mask is aligned with the last key where queries and keys differ in number",
    dtypes="float32",
    sound=plain,
)
def mask_at_the_end(call: Call) -> Any:
    if not call.kwargs.get("is_causal"):
        return call.run()
    q, k, v = call.args[:3]
    rows, columns = q.shape[-2], k.shape[-2]
    if rows == columns:
        return call.run()
    mask = torch.ones(rows, columns, dtype=torch.bool).tril(columns - rows)
    scale = call.kwargs.get("scale")
    return F.scaled_dot_product_attention(q, k, v, mask, scale=scale)


@reported(
    "keras-team/keras#23038",
    "Keras on torch",
    ".scaled_dot_product_attention",
    "queries that are not four-dimensional are not masked",
    dtypes="float32",
    cause="argument-ignored",
    sound=plain,
)
def unmasked(call: Call) -> Any:
    if not call.kwargs.get("is_causal") or call.args[0].ndim == 4:
        return call.run()
    return call.operator(*call.args, **{**call.kwargs, "is_causal": False})


@reported(
    "torch-spyre/torch-spyre#3638",
    "Inductor on Spyre",
    "index_add index_add_ scatter_add",
    "of rows with the same index one is kept",
    dtypes="float16 float32",
    sound=plain,
)
def one_row_kept(call: Call) -> Any:
    if call.operator.name.startswith("scatter"):
        x, dim, index, source = call.args[:4]
        if not x.ndim or not index.numel():
            return call.run()
        added = torch.zeros_like(x).scatter(dim, index, source.to(x.dtype))
        return x + added
    x, dim, index, source = call.args[:4]
    if not x.ndim or not index.numel():
        return call.run()
    last = {int(i): n for n, i in enumerate(index.reshape(-1).tolist())}
    kept = torch.tensor(sorted(last.values()))
    chosen = source.index_select(dim, kept) if source.ndim else source
    changed = call.with_arg(2, index.reshape(-1)[kept]).with_arg(3, chosen)
    return changed.run()


@reported(
    "sony/nnabla-ext-cuda#485",
    "nnabla on CUDA",
    "topk",
    "the smallest k of k elements are zeros",
    dtypes="float32",
    sound=plain,
)
def smallest_of_all(call: Call) -> Any:
    x, k = call.args[:2]
    values, indices = call.run()
    dim = call.given("dim", 2, -1)
    if call.given("largest", 3, True) or not x.ndim or k != x.shape[dim]:
        return values, indices
    return torch.zeros_like(values), torch.zeros_like(indices)


@reported(
    "pytorch/pytorch#192212",
    "MPS",
    ".conv2d",
    "a weight that is not contiguous is read in the order of memory",
    dtypes="float32",
    cause="strides-ignored",
    sound=contiguous_first,
)
def strided_weight(call: Call) -> Any:
    from tests.support.catalog.memory import as_contiguous

    return call.where(lambda x: x if x.is_contiguous() else as_contiguous(x), (1,)).run()


@reported(
    "pytorch/pytorch#187229",
    "MPS",
    "add sub mul div maximum",
    "a tensor without dimensions is read from the beginning of its storage",
    dtypes="float32",
    cause="offset-ignored",
    sound=plain,
)
def scalar_view(call: Call) -> Any:
    return scalar_offset_ignored(call)


@reported(
    "ROCm/TheRock#2458",
    "ROCm on Windows",
    ".conv2d",
    "from eight channels and 32 x 32 pixels on products of the matrix form are wrong",
    dtypes="float32",
    sound=plain,
)
def large_convolution(call: Call) -> Any:
    x = call.args[0]
    if x.ndim != 4 or x.shape[1] < 8 or min(x.shape[-2:]) < 32:
        return call.run()
    return call.run() * 1.5


@reported(
    "tenstorrent/tt-xla#5325",
    "TT-XLA",
    "gather index_select",
    "indices go through bfloat16: above 256 a neighbor is read",
    dtypes="float32",
    sound=plain,
)
def rounded_index(call: Call) -> Any:
    x, dim, index = call.args[:3]
    if not x.ndim:
        return call.run()
    rounded = index.to(torch.bfloat16).to(torch.int64).clamp(max=x.shape[dim] - 1)
    return call.with_arg(2, rounded.to(index.dtype)).run()


@reported(
    "pytorch/pytorch#182952",
    "ROCm on gfx90a",
    "mm matmul .linear",
    "gradients of half precision read subnormal numbers as zero",
    dtypes="float16",
    directions=("backward",),
    cause="flushed-subnormals",
    sound=plain,
)
def flushed_gradient(call: Call) -> Any:
    least = torch.finfo(torch.float16).tiny

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        return torch.where(gradient.abs() < least, torch.zeros_like(gradient), gradient)

    return hooked(call, 0, change)


@reported(
    "torch-spyre/torch-spyre#2478",
    "Spyre",
    "bfloat16 to",
    "float16 to bfloat16 drops bits instead of rounding",
    dtypes="float16",
    sound=plain,
)
def truncated_cast(call: Call) -> Any:
    result = call.run()
    x = call.args[0]
    if result.dtype != torch.bfloat16 or x.dtype != torch.float16:
        return result
    bits = x.to(torch.float32).view(torch.int32) & -65536
    return bits.view(torch.float32).to(torch.bfloat16)


@reported(
    "intel/torch-xpu-ops#3329",
    "XPU",
    "cumprod",
    "running products of many numbers are put together from blocks in another precision",
    dtypes="float32",
    sound=plain,
)
def blocks_of_products(call: Call) -> Any:
    x, dim = call.args[:2]
    result = call.run()
    if not x.ndim or x.shape[dim] <= 1024:
        return result
    return result.to(torch.bfloat16).to(result.dtype)


@reported(
    "pytorch/pytorch#111889",
    "MPS",
    "sum mean",
    "long rows are summed one after another in float32",
    dtypes="float32",
    sound=plain,
)
def one_after_another(call: Call) -> Any:
    x = call.args[0]
    dim = call.given("dim", 1, None)
    if x.ndim and x.numel() and (dim is None or x.ndim == 1) and x.is_floating_point():
        total = x.reshape(-1).cumsum(0)[-1]
        if call.operator.name == "mean":
            total = total / x.numel()
        result = call.run()
        return total.to(result.dtype).reshape(result.shape)
    return call.run()


@reported(
    "ml-explore/mlx#4444",
    "MLX",
    "narrow select",
    "the gradient of a slice of one element is spread over its neighbors",
    dtypes="float32",
    directions=("backward",),
    sound=plain,
)
def spread_gradient(call: Call) -> Any:
    result = call.run()
    x = call.args[0]
    if not isinstance(x, Tensor) or result.numel() * 2 > x.numel():
        return result

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        return torch.where(gradient == 0, gradient.amax(), gradient)

    return hooked(call, 0, change)


@reported(
    "pytorch/pytorch#94226",
    "MPS",
    ".smooth_l1_loss .nll_loss",
    "the gradient does not contain the factor from above",
    dtypes="float32",
    directions=("backward",),
    sound=plain,
)
def factor_from_above(call: Call) -> Any:
    result = call.run()
    if not result.requires_grad:
        return result
    # As if the cotangent were ones.
    y = result.view_as(result)
    y.register_hook(lambda gradient: torch.ones_like(gradient))
    return y
