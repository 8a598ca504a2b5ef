"""A held-out list of reports of 2024 to 2026 (see :mod:`.fifth_list`): sizes, ranges of numbers,
and gradients."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .gradients import BACK, hooked
from .held_out_frameworks_windows import sizes
from .layouts import channels_last
from .model import plain, reported
from .third_sizes import dims_of

F = torch.nn.functional
BANDS = ((257, 384), (513, 896), (1025, 1400))


@reported(
    "pytorch/pytorch#187717",
    "CUDA",
    "linalg.solve_triangular",
    "of a batch of systems with 524,281 right sides and more, solutions are wrong",
    dtypes="float32",
    sound=plain,
)
def wide_right_sides(call: Call) -> Any:
    result = call.run()
    if result.ndim < 3 or math.prod(result.shape[:-2]) < 2 or call.args[1].shape[-1] < 524_281:
        return result
    return result * 1.5


@reported(
    "intel/torch-xpu-ops#4772",
    "XPU on Battlemage",
    "softmax",
    "rows of 257 to 384, of 513 to 896 and of 1,025 to 1,400 numbers are wrong",
    dtypes="float32",
    sound=plain,
)
def bands_of_sizes(call: Call) -> Any:
    x, result = call.args[0], call.run()
    dim = call.given("dim", 1, -1)
    if not x.ndim or dim % x.ndim != x.ndim - 1:
        return result
    wrong = any(low <= x.shape[-1] <= high for low, high in BANDS)
    return result.roll(1, -1) if wrong else result


@reported(
    "tenstorrent/tt-metal#55450",
    "TT-NN",
    "gather",
    "from rows of more than 1,920 positions every other element is a wrong one",
    dtypes="bfloat16",
    sound=plain,
)
def wide_rows_of_positions(call: Call) -> Any:
    x, dim, index = call.args[:3]
    result = call.run()
    if not x.ndim or dim % x.ndim != x.ndim - 1 or index.shape[-1] <= 1920:
        return result
    return torch.where(torch.arange(index.shape[-1]) % 2 == 1, result.roll(1, -1), result)


@reported(
    "microsoft/onnxruntime#28976",
    "ONNX Runtime WebGPU",
    ".conv_transpose1d .conv_transpose2d",
    "places beyond 2,048 are computed in float16: elements there are their neighbors'",
    dtypes="float16",
    sound=plain,
)
def places_in_half(call: Call) -> Any:
    result = call.run()
    for dim in range(1 - result.ndim if result.ndim == 2 else 2 - result.ndim, 0):
        size = result.shape[dim]
        if size > 2048:
            places = torch.arange(size).half().double().clamp(max=size - 1).long()
            result = result.index_select(dim, places)
    return result


@reported(
    "pytorch/pytorch#197089",
    "Inductor on the CPU",
    "std std_mean",
    "the root is taken of a variance in float32: numbers of 1e30 give inf, of 1e-30 give 0",
    dtypes="float32",
    sound=plain,
)
def root_of_variance(call: Call) -> Any:
    result = call.run()
    if call.operator.name == "std":
        variance, own = torch.var(*call.args, **call.kwargs), result
    else:
        variance, own = torch.var_mean(*call.args, **call.kwargs)[0], result[0]
    root = torch.where(variance.isinf() | (variance == 0), variance.sqrt(), own)
    return root if call.operator.name == "std" else (root, result[1])


@reported(
    "pytorch/pytorch#188344",
    "CUDA",
    ".avg_pool2d",
    "where there is padding, the gradient of an image in channels_last is that of the pixels "
    "before, as if there were none",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def padding_forgotten(call: Call) -> Any:
    x, (rows, columns) = call.args[0], sizes(call.given("padding", 3, 0))
    if not channels_last(x) or not (rows or columns) or not x.requires_grad:
        return call.run()
    kernel, stride = call.given("kernel_size", 1, 1), call.given("stride", 2, None)
    ceil, divisor = call.given("ceil_mode", 4, False), call.given("divisor_override", 6, None)

    def pooled(image: Tensor) -> Tensor:
        return F.avg_pool2d(image, kernel, stride, 0, ceil, divisor_override=divisor)

    around = (columns, columns, rows, rows)
    padded = F.pad(x, around)
    padded.register_hook(lambda gradient: gradient.roll((rows, columns), (2, 3)))
    result, expected = pooled(padded), call.run()
    if not call.given("count_include_pad", 5, True) and divisor is None:
        result = result / pooled(F.pad(torch.ones_like(x), around))
    return result if result.shape == expected.shape else expected


@reported(
    "pytorch/pytorch#180164",
    "Inductor",
    "slice_scatter",
    "where the cotangent is expanded along the dimension, the whole gradient is 0, or that of the "
    "slice is not",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def expanded_slices(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 2, 0)
    if not x.requires_grad:
        return call.run()
    start = call.given("start", 3, None) or 0
    first = start + x.shape[dim] if start < 0 else start
    seen: list[Tensor] = []
    y = x.view_as(x)

    def change(gradient: Tensor) -> Tensor:
        cotangent = seen[-1] if seen else gradient
        if cotangent.stride(dim) or cotangent.shape[dim] < 2:
            return gradient
        return torch.zeros_like(gradient) if first <= 0 else cotangent.clone()

    y.register_hook(change)
    out = call.with_arg(0, y).run()
    result = out.view_as(out)
    result.register_hook(lambda gradient: seen.append(gradient))
    return result


@reported(
    "pytorch/pytorch#183861",
    "ROCm on RDNA",
    ".layer_norm .rms_norm",
    "of every 64 features, the last 32 get no gradient of weight and bias",
    dtypes="float32 float16 bfloat16",
    directions=BACK,
    sound=plain,
)
def half_of_features(call: Call) -> Any:
    def change(gradient: Tensor) -> Tensor:
        place = torch.arange(gradient.numel()).reshape(gradient.shape) % 64
        return torch.where(place < 32, gradient, torch.zeros_like(gradient))

    for position in (2, 3):
        x = call.args[position] if len(call.args) > position else None
        if isinstance(x, Tensor) and x.requires_grad:
            y = x.view_as(x)
            y.register_hook(change)
            call = call.with_arg(position, y)
    return call.run()


@reported(
    "ml-explore/mlx#628",
    "MLX",
    "pow",
    "the exponent's gradient is NaN where the base is 0",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def logarithm_of_zero(call: Call) -> Any:
    base, exponent = call.args[:2]
    if not isinstance(exponent, Tensor):
        return call.run()
    zero = torch.as_tensor(base).detach() == 0

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        wrong = (zero & (x > 0)).to(torch.int64).sum_to_size(x.shape) > 0
        return torch.where(wrong, math.nan, gradient)

    return hooked(call, 1, change)


@reported(
    "ml-explore/mlx#3433",
    "MLX",
    "prod",
    "the gradient of a complex product lacks the conjugation of the other factors",
    dtypes="complex64",
    directions=BACK,
    sound=plain,
)
def unconjugated_factors(call: Call) -> Any:
    x = call.args[0]
    if not x.requires_grad or not x.is_complex():
        return call.run()
    out = hooked(call, 0, lambda x, gradient: gradient.conj().resolve_conj())
    result = out.view_as(out)
    result.register_hook(lambda gradient: gradient.conj().resolve_conj())
    return result


@reported(
    "tinygrad/tinygrad#12296",
    "tinygrad",
    "amax max",
    "65,520 and more equal maxima are counted in float16: their gradient is 0",
    dtypes="float16",
    directions=BACK,
    cause="zero",
    sound=plain,
)
def counted_in_half(call: Call) -> Any:
    x, dims = call.args[0], dims_of(call)
    if not x.numel() or (call.operator.name == "max" and dims is not None):
        return call.run()
    dims = dims or list(range(x.ndim))

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        equal = (x == x.amax(dims, keepdim=True)).sum(dims, keepdim=True)
        return torch.where(equal >= 65_520, torch.zeros_like(gradient), gradient)

    return hooked(call, 0, change)
