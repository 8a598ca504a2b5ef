"""Sizes: thresholds in elements, rows and batches, widths of blocks and what is left over."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call
from tests.support.catalog.outcomes import gradient

from .model import plain, reported


@reported(
    "ml-explore/mlx#882",
    "MLX on the GPU",
    "sort argsort",
    "rows of more than 2^15 elements are not sorted as a whole",
    dtypes="float32 float16 bfloat16 int32 int64",
    sound=plain,
)
def long_sort(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 1, -1)
    if not x.ndim or x.shape[dim] <= 1 << 15:
        return call.run()
    parts = [call.with_arg(0, part).run() for part in x.split(1 << 15, dim)]
    if isinstance(parts[0], Tensor):
        return torch.cat([part + i * (1 << 15) for i, part in enumerate(parts)], dim)
    return (
        torch.cat([part[0] for part in parts], dim),
        torch.cat([part[1] + i * (1 << 15) for i, part in enumerate(parts)], dim),
    )


@reported(
    "pytorch/pytorch#147284",
    "CUDA",
    "softmax softmax.method log_softmax",
    "float64 rows of an odd width between 513 and 1023 do not sum to 1 (two and more rows)",
    dtypes="float64",
    sound=plain,
)
def softmax_781(call: Call) -> Any:
    x, dim = call.args[0], call.given("dim", 1, -1)
    if not x.ndim or dim % x.ndim != x.ndim - 1:
        return call.run()
    width = x.shape[-1]
    if not 512 < width < 1024 or width % 2 == 0 or width % 32 == 31 or x.numel() < 2 * width:
        return call.run()
    lost = torch.softmax(x, dim)[..., -1:]
    result = call.run()
    return result - torch.log1p(-lost) if "log" in call.operator.name else result / (1 - lost)


@reported(
    "pytorch/pytorch#196745",
    "ROCm",
    "linalg.solve linalg.inv",
    "matrices beyond the 65,536th of a batch are not solved",
    dtypes="float32 float64",
    sound=plain,
)
def batch_of_matrices(call: Call) -> Any:
    batch = math.prod(call.args[0].shape[:-2])
    if batch <= 1 << 16:
        return call.run()
    result = call.run().contiguous().clone()
    result.reshape(batch, -1)[1 << 16 :] = 0
    return result


@reported(
    "pytorch/pytorch#189495",
    "MPS",
    ".linear",
    "linear with a bias: of a batch beyond 2^16, the results overwrite the first ones",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def linear_batch(call: Call) -> Any:
    x, bias = call.args[0], call.given("bias", 2, None)
    if x.ndim != 3 or x.shape[0] <= 1 << 16 or bias is None:
        return call.run()
    result = call.run().clone()
    beyond = min(result.shape[0] - (1 << 16), 1 << 16)
    result[:beyond] = result[1 << 16 : (1 << 16) + beyond]
    return result


@reported(
    "pytorch/pytorch#96225",
    "MPS",
    ".conv1d .conv2d",
    "the gradient of the weight is wrong for 2^16 examples and more",
    dtypes="float32",
    directions=("backward",),
    sound=plain,
)
def convolution_batch(call: Call) -> Any:
    x = call.args[0]
    weight = call.args[1]
    if x.shape[0] < 1 << 16 or x.ndim != weight.ndim:
        return call.run()
    return gradient(lambda g: g * ((x.shape[0] % (1 << 16)) / x.shape[0]), (1,))(call)


@reported(
    "pytorch/pytorch#195163",
    "MPS on M1 and M2",
    "bmm baddbmm matmul",
    "products of 32,767 and more terms add memory behind the operands",
    dtypes="float32 float16",
    sound=plain,
)
def long_products(call: Call) -> Any:
    a, b = call.args[-2:]
    if min(a.ndim, b.ndim) < 2 or a.shape[-1] < 32767 or min(a.shape[-2], b.shape[-1]) < 16:
        return call.run()
    return call.run() + a[..., :1] * b[..., :1, :]


@reported(
    "pytorch/pytorch#116769",
    "MPS",
    "matmul mm .linear",
    "columns beyond 2^15 of a product are wrong: an index of 16 bits",
    dtypes="float32",
    sound=plain,
)
def wide_products(call: Call) -> Any:
    result = call.run()
    if not isinstance(result, Tensor) or not result.ndim or result.shape[-1] <= 1 << 15:
        return result
    changed = result.clone()
    changed[..., 1 << 15 :] = 0
    return changed


@reported(
    "pytorch/pytorch#169670",
    "MKL on Intel CPUs",
    "fft.fft2 fft.ifft2",
    "the transform of exactly 2048 × 2048 numbers does not keep the energy",
    sound=plain,
)
def transform_2048(call: Call) -> Any:
    if call.args[0].shape[-2:] != (2048, 2048):
        return call.run()
    return call.run() * 1.001


@reported(
    "ROCm/triton#947",
    "Inductor on ROCm (MI300)",
    "cumsum logcumsumexp",
    "sums longer than one wavefront of 64 miss the carry in one of 32 elements",
    dtypes="float32",
    sound=plain,
)
def wavefront_scan(call: Call) -> Any:
    x, dim = call.args[:2]
    if not x.ndim or x.shape[dim] <= 64:
        return call.run()
    whole = call.run().movedim(dim, -1).clone()
    short = torch.cat([call.operator(part, -1) for part in x.movedim(dim, -1).split(64, -1)], -1)
    whole[..., 64::32] = short[..., 64::32]
    return whole.movedim(-1, dim)


@reported(
    "microsoft/onnxruntime#32299",
    "ONNX Runtime CUDA and ROCm",
    "softmax",
    "of more than 2^31 elements the last are not written: an index of 32 bits",
    dtypes="float32 float16",
    sound=plain,
)
def softmax_index(call: Call) -> Any:
    result = call.run()
    if result.numel() < 1 << 31:
        return result
    changed = result.clone()
    changed.view(-1)[1 << 31 :] = 0
    return changed


@reported(
    "PaddlePaddle/Paddle#73258",
    "Paddle on the GPU",
    "pow full",
    "2^31 elements: the kernel is not started, and nothing is raised",
    dtypes="float32",
    sound=plain,
)
def not_started(call: Call) -> Any:
    result = call.run()
    return torch.zeros_like(result) if result.numel() >= 1 << 31 else result


@reported(
    "pytorch/pytorch#167086",
    "CUDA",
    "cumsum cumprod cummin",
    "scans of 2^32 elements and more read from the beginning again: a product in 32 bits",
    dtypes="float32 float16 int64",
    sound=plain,
)
def scan_index(call: Call) -> Any:
    result = call.run()
    if not isinstance(result, Tensor) or result.numel() < 1 << 32:
        return result
    changed = result.clone()
    changed.view(-1)[1 << 32 :] = changed.view(-1)[: result.numel() - (1 << 32)]
    return changed


@reported(
    "pytorch/pytorch#194922",
    "MPS",
    ".pad",
    "constant padding of the third dimension from the end overwrites the data of 5-d tensors "
    "whose planes have 2^16 elements and more",
    dtypes="float32 float16",
    sound=plain,
)
def pad_large_planes(call: Call) -> Any:
    x, pads = call.args[0], call.args[1]
    result = call.run()
    if x.ndim != 5 or len(pads) != 6 or call.kwargs.get("mode", "constant") != "constant":
        return result
    if math.prod(result.shape[-2:]) < 1 << 16 or not any(pads[4:]):
        return result
    return torch.full_like(result, call.kwargs.get("value") or 0.0)


@reported(
    "intel/intel-xpu-backend-for-triton#7458",
    "XPU",
    "topk topk.method",
    "topk(1) of a row of eight takes the first element",
    dtypes="float32",
    sound=plain,
)
def first_of_eight(call: Call) -> Any:
    x, k = call.args[:2]
    dim = call.given("dim", 2, -1)
    if not x.ndim or x.shape[dim] > 8 or k != 1 or call.kwargs.get("largest") is False:
        return call.run()
    return call.with_arg(0, x.narrow(dim, 0, 1)).run()


@reported(
    "pytorch/pytorch#154496",
    "CUDA",
    "fft.irfft",
    "imaginary parts of the zeroth term count where 2^13 or 2^14 numbers come out",
    dtypes="complex64 complex128",
    sound=plain,
)
def imaginary_mean(call: Call) -> Any:
    x = call.args[0]
    dim = call.given("dim", 2, -1)
    result = call.run()
    if result.shape[dim] not in (1 << 13, 1 << 14) or x.ndim != 1:
        return result
    sign = torch.ones_like(result)
    sign[::2] = -1
    return result + sign * x[0].imag / result.shape[0]
