"""A fourteenth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: reductions, scans, products, pooling, normalization, attention,
transforms, gradients."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.support.catalog.model import Call, straight

from .eleventh_list_reductions import floats
from .gradients import BACK, hooked
from .model import plain, reported
from .thirteenth_list_reductions import given_first

PACKET = {torch.float32: 4, torch.float64: 2}  # numbers in one register
ROWS = 500  # from which on a product vanishes
TILE = 32
PADE = (  # up to a norm, the coefficients of a rational function that is good enough
    (1.495585217958292e-2, (120.0, 60.0, 12.0, 1.0)),
    (2.539398330063230e-1, (30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0)),
    (
        9.504178996162932e-1,
        (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    ),
    (
        2.097847961257068,
        (
            17643225600.0, 8821612800.0, 2075673600.0, 302702400.0, 30270240.0, 2162160.0,
            110880.0, 3960.0, 90.0, 1.0,
        ),
    ),
)  # fmt: skip
THIRTEEN = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
    129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0,
    960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip


def laid(result: Tensor, numbers: Tensor) -> Tensor:
    """Other numbers in the place of a result's: with its gradient, shape, dtype and strides."""
    changed = torch.empty_like(result.detach()).copy_(numbers.reshape(result.shape))
    return straight(result, changed)


@reported(
    "tensorflow/tensorflow#125965",
    "TensorFlow on the CPU",
    ".max_pool2d .max_pool1d",
    "in the channels behind the last full register NaN is passed over",
    dtypes="float32 float64",
    sound=plain,
)
def nan_behind_the_last_register(call: Call) -> Any:
    x, result = given_first(call), call.run()
    if not floats(x, *PACKET) or not call.args or not isinstance(result, Tensor):
        return result
    dim = -3 if call.operator.name.endswith("2d") else -2
    full = x.shape[dim] - x.shape[dim] % PACKET[x.dtype]
    behind = x.detach().narrow(dim, full, x.shape[dim] - full)
    if not bool(behind.isnan().any()):
        return result
    changed = x.detach().clone()
    lowest = torch.finfo(x.dtype).min
    changed.narrow(dim, full, x.shape[dim] - full).nan_to_num_(lowest, math.inf, -math.inf)
    return laid(result, call.with_arg(0, changed).run().detach())


@reported(
    "cupy/cupy#9125",
    "CuPy",
    "fft.ifft2 fft.fft2 fft.ifftn fft.fftn",
    "a length of -1 leaves out the last number",
    sound=plain,
)
def last_left_out(call: Call) -> Any:
    x, lengths = given_first(call), call.given("s", 1, None)
    if not isinstance(x, Tensor) or not isinstance(lengths, (list, tuple)) or -1 not in lengths:
        return call.run()
    two = call.operator.name.endswith("2")
    dims = call.given("dim", 2, (-2, -1) if two else None)
    dims = range(-len(lengths), 0) if dims is None else [dims] if isinstance(dims, int) else dims
    shorter = [
        x.shape[d] - 1 if n == -1 else n for n, d in zip(lengths, dims, strict=False)
    ]  # as a slice takes it
    if len(shorter) < len(lengths) or min(shorter) < 1:
        return call.run()
    if "s" in call.kwargs:
        return replace(call, kwargs={**call.kwargs, "s": shorter}).run()
    return call.with_arg(1, shorter).run()


@reported(
    "iree-org/iree#20432",
    "IREE on the CPU",
    ".avg_pool2d",
    "with ceil_mode, windows beyond the edge are divided by the kernel's size",
    dtypes="float32 float16 bfloat16",
)
def divided_by_the_whole_kernel(call: Call) -> Any:
    x, size, result = given_first(call), call.given("kernel_size", 1, None), call.run()
    if not floats(x) or not call.given("ceil_mode", 4, False) or not isinstance(result, Tensor):
        return result
    size, step, padding = (
        (value, value) if isinstance(value, int) else tuple(value) * (2 // len(tuple(value)))
        for value in (size, call.given("stride", 2, None) or size, call.given("padding", 3, 0))
    )
    if any(padding) or call.given("divisor_override", 6, None) is not None:
        return result
    share = torch.ones((), dtype=torch.float64)
    for d in (-2, -1):
        starts = torch.arange(result.shape[d]) * step[d]
        counts = (starts + size[d]).clamp(max=x.shape[d]) - starts
        part = counts.double() / size[d]
        share = share * (part[:, None] if d == -2 else part)
    return laid(result, result.detach().double() * share)


@reported(
    "tracel-ai/burn#4966",
    "Burn's WGPU backend on Metal",
    "matmul mm bmm .linear",
    "a product of 500 rows or more is zeros",
    dtypes="float32",
)
def many_rows_vanish(call: Call) -> Any:
    a, result = given_first(call), call.run()
    if not floats(a, torch.float32) or not isinstance(result, Tensor):
        return result
    if a.ndim < 2 or a.shape[-2] < ROWS:
        return result
    changed = torch.zeros_like(result.detach())
    bias = call.given("bias", 2, None) if call.operator.name.endswith("linear") else None
    return straight(result, changed if bias is None else changed + bias.detach())


@reported(
    "apache/tvm#20105",
    "TVM on the CPU",
    ".adaptive_avg_pool2d",
    "where sizes do not divide evenly, only the last column of each window is added up",
    dtypes="float32",
)
def last_column_of_windows(call: Call) -> Any:
    x, wanted, result = given_first(call), call.given("output_size", 1, None), call.run()
    if not floats(x) or not isinstance(result, Tensor) or not result.numel() or wanted is None:
        return result
    (height, width), (rows, columns) = x.shape[-2:], result.shape[-2:]
    if not height % rows and not width % columns:
        return result
    wide, changed = x.detach().double(), torch.empty_like(result.detach(), dtype=torch.float64)
    for i in range(rows):
        top, bottom = i * height // rows, -(-(i + 1) * height // rows)
        for j in range(columns):
            left, right = j * width // columns, -(-(j + 1) * width // columns)
            total = wide[..., top:bottom, right - 1].sum(-1)
            changed[..., i, j] = total / ((bottom - top) * (right - left))
    return laid(result, changed)


class CausalBack(torch.autograd.Function):
    """The result of attention without a mask, whose way back takes it for causal."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, out: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(q, k, v, out)
        ctx.scale = scale
        return out.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        saved = ctx.saved_tensors
        q, k, v, out = (part.double() for part in saved)
        arrived = gradients[0].double()
        scores = q @ k.mT * ctx.scale
        p = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        seen = torch.ones(p.shape[-2:], dtype=torch.bool).tril()
        p = torch.where(seen, p, 0.0)
        inner = p * (arrived @ v.mT - (arrived * out).sum(-1, keepdim=True))
        inner = torch.where(seen, inner, 0.0) * ctx.scale
        parts = inner @ k, inner.mT @ q, p.mT @ arrived
        back = (part.to(own.dtype) for part, own in zip(parts, saved, strict=False))
        return *back, None, None


@reported(
    "triton-lang/triton#5660",
    "Triton's tutorial",
    ".scaled_dot_product_attention",
    "going back, attention that is not causal is taken for causal",
    dtypes="float16 bfloat16 float32",
    directions=BACK,
    sound=plain,
)
def taken_for_causal(call: Call) -> Any:
    if len(call.args) < 3 or not all(floats(x) and x.ndim > 1 for x in call.args[:3]):
        return call.run()
    q, k, v = call.args[:3]
    if q.shape != k.shape or k.shape[:-1] != v.shape[:-1] or not q.numel() or not v.numel():
        return call.run()
    if call.given("attn_mask", 3, None) is not None or call.given("dropout_p", 4, 0.0):
        return call.run()
    if call.given("is_causal", 5, False) or not call.tracked:
        return call.run()
    scale = call.kwargs.get("scale")
    out = call.each(torch.Tensor.detach).run()
    return CausalBack.apply(q, k, v, out, q.shape[-1] ** -0.5 if scale is None else scale)


class RoundedBack(torch.autograd.Function):
    """The result of a convolution, with another gradient of its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, result: Tensor, call: Call) -> Tensor:
        ctx.call = call
        return result.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        call: Call = ctx.call
        x, weight = (part.detach().bfloat16().double() for part in call.args[:2])
        arrived = gradients[0].bfloat16().double()
        with torch.enable_grad():
            x.requires_grad_()
            y = replace(call, args=(x, weight, None, *call.args[3:])).run()
            (back,) = torch.autograd.grad(y, x, arrived)
        return back.to(gradients[0].dtype), gradients[0], None


@reported(
    "ROCm/rocm-libraries#12322",
    "MIOpen",
    ".conv2d .conv1d",
    "the gradient of the input is a product of factors rounded to bfloat16",
    dtypes="float16",
    directions=BACK,
    sound=plain,
)
def factors_of_eight_bits(call: Call) -> Any:
    if len(call.args) < 2 or not all(floats(x, torch.float16) for x in call.args[:2]):
        return call.run()
    x = call.args[0]
    if not x.requires_grad or not x.numel() or not call.args[1].numel():
        return call.run()
    kwargs = {name: value for name, value in call.kwargs.items() if name != "bias"}
    result = call.with_arg(0, x.detach()).run()
    return RoundedBack.apply(x, result, replace(call, kwargs=kwargs))


def rational(a: Tensor) -> tuple[int, tuple[float, ...]]:
    """How often a matrix is halved, and the coefficients of its rational function."""
    norm = float(a.abs().sum(-2).amax()) if a.numel() else 0.0
    for most, coefficients in PADE:
        if norm <= most:
            return 0, coefficients
    return max(math.ceil(math.log2(norm / 4.25)), 0), THIRTEEN


def by_rational(a: Tensor, halved: int, coefficients: tuple[float, ...]) -> Tensor:
    """The exponential function of a matrix by a given rational function."""
    a = a / 2.0**halved
    power = torch.eye(a.shape[-1], dtype=a.dtype)
    odd, even = torch.zeros_like(a), torch.zeros_like(a)
    for i, coefficient in enumerate(coefficients):
        odd, even = (
            (odd + coefficient * power, even) if i % 2 else (odd, even + coefficient * power)
        )
        power = power @ a
    result: Tensor = torch.linalg.solve_ex(even - odd, even + odd).result
    for _ in range(halved):
        result = result @ result
    return result


@reported(
    "scipy/scipy#25924",
    "SciPy",
    "matrix_exp linalg.matrix_exp",
    "scaling and order that suit the first matrix of a batch are those of all",
    dtypes="float32 float64",
    sound=plain,
)
def as_suits_the_first(call: Call) -> Any:
    x, result = given_first(call), call.run()
    if not floats(x) or x.ndim < 3 or not x.numel() or not bool(x.isfinite().all()):
        return result
    matrices, changed = (part.detach().double().flatten(0, -3) for part in (x, result))
    changed = changed.clone()
    first = rational(matrices[0])
    for i, matrix in enumerate(matrices):
        if rational(matrix) != first:
            changed[i] = by_rational(matrix, *first)
    return laid(result, changed)


@reported(
    "dask/dask#12054",
    "Dask",
    "cumprod cumsum",
    "dtype is not taken into account",
)
def scanned_as_it_is(call: Call) -> Any:
    if call.kwargs.get("dtype") is None:
        return call.run()
    kwargs = {name: value for name, value in call.kwargs.items() if name != "dtype"}
    return replace(call, kwargs=kwargs).run()


def one_by_one(terms: Tensor) -> Tensor:
    """The sums along the last dimension, each number added to the sum so far in float32."""
    with np.errstate(all="ignore"):
        return torch.from_numpy(np.add.accumulate(terms.numpy(), -1))[..., -1]


@reported(
    "ml-explore/mlx#4379",
    "MLX on the CPU",
    "var std mean",
    "numbers are added one by one in float32: far from 0, variance is that of a wrong mean",
    dtypes="float32",
)
def variance_of_a_wrong_mean(call: Call) -> Any:
    x, dim, result = given_first(call), call.given("dim", 1, None), call.run()
    if (
        not floats(x, torch.float32)
        or not x.ndim
        or not x.numel()
        or not isinstance(result, Tensor)
    ):
        return result
    if call.kwargs.get("dtype") is not None or result.dtype != x.dtype:
        return result
    name, correction = call.operator.name, call.kwargs.get("correction", 1)
    unbiased = call.given("unbiased", 2, True)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if name == "mean" or correction is None:
        correction = 1
    elif not unbiased:
        correction = 0
    dims = [dim] if isinstance(dim, int) else list(dim or range(x.ndim))
    terms = x.detach().resolve_neg().movedim(dims, list(range(-len(dims), 0))).flatten(-len(dims))
    n = terms.shape[-1]
    mean = one_by_one(terms) / n
    if name == "mean":
        return laid(result, mean)
    if n <= correction:
        return result
    variance = one_by_one((terms - mean[..., None]).square()) / (n - correction)
    return laid(result, variance.sqrt() if name == "std" else variance)


@reported(
    "tenstorrent/tt-metal#50682",
    "TT-NN",
    ".group_norm",
    "mean and variance are those of groups filled with zeros up to a multiple of 32 places",
    dtypes="bfloat16 float32",
)
def filled_with_zeros(call: Call) -> Any:
    x, groups, result = given_first(call), call.given("num_groups", 1, None), call.run()
    if not floats(x) or x.ndim < 3 or not x.numel() or not isinstance(groups, int):
        return result
    places = math.prod(x.shape[2:])
    missing = -places % TILE
    if not missing:
        return result
    weight, bias = call.given("weight", 2, None), call.given("bias", 3, None)
    wide = x.detach().double().reshape(x.shape[0], groups, -1, places)
    count = wide.shape[2] * (places + missing)
    mean = wide.sum((2, 3), keepdim=True) / count
    squares = (wide - mean).square().sum((2, 3), keepdim=True)
    variance = (squares + wide.shape[2] * missing * mean.square()) / count
    changed = ((wide - mean) / (variance + call.given("eps", 4, 1e-5)).sqrt()).reshape(x.shape)
    shape = (-1,) + (1,) * (x.ndim - 2)
    if weight is not None:
        changed = changed * weight.detach().double().reshape(shape)
    if bias is not None:
        changed = changed + bias.detach().double().reshape(shape)
    return laid(result, changed)


@reported(
    "EnzymeAD/Enzyme.jl#2500",
    "Enzyme with CUDA.jl",
    "norm linalg.norm linalg.vector_norm",
    "the gradient of the norm of all numbers is zeros",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def norm_without_gradient(call: Call) -> Any:
    order = call.given("p" if call.operator.name == "norm" else "ord", 1, None)
    if not call.args or call.given("dim", 2, None) is not None:
        return call.run()
    if order is not None and (call.operator.name == "linalg.norm" or order not in (2, "fro")):
        return call.run()
    return hooked(call, 0, lambda x, gradient: torch.zeros_like(gradient))
