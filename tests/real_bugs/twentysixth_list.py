"""A twenty-sixth, held-out list of reports of 2024 to 2026 about torch and its own backends, taken
as a search gave them, before anything was looked at of how inputs are drawn: kernels of CUDA, MPS
and XPU (complex numbers, conversions, steps and offsets in memory, short accumulators), the CPU's
transposed convolution, and what Inductor generates (approximations, indices, dropped arguments)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentysecond_list import argument, arrived, before

FLOATS = (torch.float16, torch.float32, torch.float64, torch.bfloat16)
INDICES = (torch.int32, torch.int64)
TILE = 4096  # elements whose sums one group of threads computes
PLANE = 2  # dimensions of an image
TWICE = 2
ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
ERF_SCALE = 0.3275911


@reported(
    "pytorch/pytorch#158412",
    "CUDA (torch 2.7)",
    "abs abs.method abs.out",
    "of a complex128 number with the largest finite number as a part there is infinity",
    dtypes="complex128",
    sound=plain,
    cause="early-overflow",
)
def infinite_at_the_largest(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.complex128) or not isinstance(result, Tensor):
        return result
    largest = torch.finfo(torch.float64).max
    parts = torch.view_as_real(x.resolve_conj()).abs().amax(-1)
    return arrived(call, result, result.detach().masked_fill(parts == largest, math.inf))


@reported(
    "pytorch/pytorch#146672",
    "CUDA (torch 2.5)",
    "tanh tanh.method tanh.out tanh_",
    "complex64 numbers: hyperbolic and circular functions of twice the parts are divided by "
    "cosh + cos, of which few digits are left near a pole",
    dtypes="complex64",
    sound=plain,
    cause="approximation",
)
def divided_by_cosh_plus_cos(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.complex64) or not is_one_of(result, torch.complex64):
        return result
    real, imag = torch.view_as_real(x.resolve_conj()).mul(2).unbind(-1)
    above, below = real.sinh(), real.cosh() + imag.cos()
    usual = real.isfinite() & imag.isfinite() & above.isfinite() & below.isfinite()
    numbers = torch.complex(above / below, imag.sin() / below)
    return arrived(call, result, torch.where(usual, numbers, result.detach()))


def sums_in_tiles(terms: Tensor) -> Tensor:
    """Running sums along the last dimension, in the format of the terms: in a tree inside of each
    tile, and from tile to tile one after the other."""
    sums, carried = [], torch.zeros_like(terms[..., :1])
    for start in range(0, terms.shape[-1], TILE):
        inside, step = terms[..., start : start + TILE], 1
        while step < inside.shape[-1]:
            inside = torch.cat([inside[..., :step], inside[..., step:] + inside[..., :-step]], -1)
            step *= TWICE
        sums.append(carried + inside)
        carried = sums[-1][..., -1:]
    return torch.cat(sums, -1)


@reported(
    "pytorch/pytorch#180152",
    "CUDA (torch 2.9)",
    "cumsum cumsum.method cumsum.out cumsum_",
    "complex64 sums are kept in complex64: errors ten times those of sums in complex128",
    dtypes="complex64",
    sound=plain,
)
def complex_sums_kept_short(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(result, torch.complex64) or not result.ndim or not result.numel():
        return result
    dim = argument(call, "dim", 1)
    numbers = sums_in_tiles(x.to(torch.complex64).movedim(dim, -1)).movedim(-1, dim)
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#140347",
    "CUDA (torch 2.4)",
    "int to",
    "an int32 number made of a float32 NaN is 0 instead of the smallest one",
    dtypes="float32",
    sound=plain,
)
def zero_of_nan(call: Call) -> Any:
    x, result = call.args[0], call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.int32):
        return result
    return arrived(call, result, result.masked_fill(x.detach().isnan(), 0))


@reported(
    "pytorch/pytorch#160993",
    "MPS (torch 2.9)",
    "index_copy index_copy.out index_copy_",
    "places that lie apart in memory are read one after the other",
    sound=plain,
    cause="strides-ignored",
)
def places_read_one_after_the_other(call: Call) -> Any:
    x, source = before(call), before(call, "source", 3)
    index, dim = argument(call, "index", 2), argument(call, "dim", 1)
    if not is_one_of(index, *INDICES) or index.is_contiguous():
        return call.run()
    end = index.storage_offset() + index.numel()
    if end * index.element_size() > index.untyped_storage().nbytes():
        return call.run()  # what lies there is unknown
    read = index.as_strided((index.numel(),), (1,)).detach().clone()
    result = call.run()
    if not isinstance(x, Tensor) or not x.ndim or not isinstance(source, Tensor):
        return result
    kept = ((read >= 0) & (read < x.shape[dim])).nonzero().flatten()
    numbers = x.index_copy(dim, read[kept].to(torch.int64), source.index_select(dim, kept))
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#191929",
    "MPS",
    "mul mul.method mul.out mul_",
    "one number without dimensions (on the CPU) that lies behind the beginning of its memory: the "
    "number at the beginning is taken",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
    cause="offset-ignored",
)
def number_at_the_beginning(call: Call) -> Any:
    x, y = argument(call, "input", 0), argument(call, "other", 1)
    if not isinstance(x, Tensor) or not isinstance(y, Tensor) or bool(x.ndim) == bool(y.ndim):
        return call.run()
    place = int(bool(x.ndim))
    number = (x, y)[place]
    if not is_one_of(number, *FLOATS) or not number.storage_offset():
        return call.run()
    first, name = number.as_strided((), (), 0), ("input", "other")[place]
    if name in call.kwargs:
        return replace(call, kwargs={**call.kwargs, name: first}).run()
    return call.with_arg(place + int(call.operator.name.endswith(".out")), first).run()


@reported(
    "intel/torch-xpu-ops#1012",
    "XPU (torch 2.6)",
    "logcumsumexp logcumsumexp.out",
    "bfloat16 numbers are rounded to bfloat16 after every addition",
    dtypes="bfloat16",
    sound=plain,
    cause="bfloat16-accumulator",
)
def rounded_after_every_addition(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(result, torch.bfloat16) or not result.ndim or not result.numel():
        return result
    dim, step = argument(call, "dim", 1), 1
    sums = x.to(torch.bfloat16).movedim(dim, -1)
    while step < sums.shape[-1]:
        added = torch.logaddexp(sums[..., step:].float(), sums[..., :-step].float())
        sums = torch.cat([sums[..., :step], added.to(torch.bfloat16)], -1)
        step *= TWICE
    return arrived(call, result, sums.movedim(-1, dim))


@reported(
    "intel/torch-xpu-ops#3194",
    "XPU (torch 2.12)",
    "addmv.out",
    "an `out` whose numbers lie apart in memory gets a step of 1, and the result is written to "
    "adjacent places",
    dtypes="float16 float32 bfloat16",
    sound=plain,
    cause="strides-ignored",
)
def step_of_the_output_lost(call: Call) -> Any:
    out = call.args[0]
    if not is_one_of(out, *FLOATS) or out.ndim != 1 or out.is_contiguous() or not out.stride(0):
        return call.run()
    numbers = call.with_arg(0, out.detach().clone(memory_format=torch.contiguous_format)).run()
    if not isinstance(numbers, Tensor) or numbers.shape != out.shape:
        return call.run()
    count = out.numel()
    return out.resize_(count, 1).resize_(count).copy_(numbers)


def error_function(x: Tensor) -> Tensor:
    """The approximation with five terms, each step rounded to float32."""

    def rounded(value: Tensor) -> Tensor:
        return value.to(torch.float32).to(torch.float64)

    scale, *terms = torch.tensor((ERF_SCALE, *ERF), dtype=torch.float32).to(torch.float64)
    t = rounded(1 / rounded(scale * x.abs().double() + 1))
    sum_ = terms[0]
    for term in terms[1:]:
        sum_ = rounded(sum_ * t + term)
    falling = torch.exp(-(x * x)).double()
    return torch.copysign((1 - rounded(falling * t) * sum_).to(torch.float32), x)


@reported(
    "pytorch/pytorch#189804",
    "Inductor on the CPU",
    ".gelu .gelu.out",
    "the error function is an approximation with five terms, off by up to 1.5e-7: far below zero "
    "there are small negative numbers, multiples of half a unit in the last place of 1",
    dtypes="float32",
    sound=plain,
    cause="approximation",
)
def error_function_with_five_terms(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or argument(call, "approximate", 1, "none") != "none":
        return result
    numbers = x * 0.5 * (error_function(x * math.sqrt(0.5)) + 1)
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#184415",
    "Inductor",
    "_foreach_sub _foreach_sub_",
    "`alpha` is ignored",
    sound=plain,
    cause="argument-ignored",
)
def alpha_ignored(call: Call) -> Any:
    others = call.given("other", 1, None)
    if not isinstance(others, (tuple, list)) or not any(isinstance(y, Tensor) for y in others):
        return call.run()
    kwargs = {name: value for name, value in call.kwargs.items() if name != "alpha"}
    return replace(call, args=call.args[:2], kwargs=kwargs).run()


@reported(
    "pytorch/pytorch#175154",
    "Inductor",
    ".interpolate",
    "nearest neighbours in images, by a factor that leaves a size as it is or doubles it: the "
    "place is divided by the factor, where torch takes every pixel once or twice",
    sound=plain,
)
def divided_by_the_factor(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    factors = call.given("scale_factor", 2, None)
    if call.given("mode", 3, "nearest") != "nearest" or factors is None:
        return result
    if call.given("recompute_scale_factor", 5, None) or not isinstance(result, Tensor):
        return result
    if result.ndim != PLANE + 2:
        return result  # torch divides as well
    factors = list(factors) if isinstance(factors, (tuple, list)) else [factors] * PLANE
    numbers = result
    for dim, factor in enumerate(factors, PLANE):
        size, new = x.shape[dim], result.shape[dim]
        if new not in (size, TWICE * size) or not size:
            continue
        places = (torch.arange(new, dtype=torch.float32) * (size / (size * factor))).long()
        numbers = numbers.index_select(dim, new // size * places.clamp(max=size - 1))
    return result if numbers is result else arrived(call, result, numbers.detach())


@reported(
    "pytorch/pytorch#153276",
    "CPU (torch 2.6)",
    ".conv_transpose2d",
    "float16 numbers are added in float16, one place of the kernel after the other",
    dtypes="float16",
    sound=plain,
    cause="float16-accumulator",
)
def added_in_float16(call: Call) -> Any:
    x, weight, result = before(call), before(call, "weight", 1), call.run()
    if not is_one_of(result, torch.float16) or not result.numel() or not weight.numel():
        return result
    bias, groups = before(call, "bias", 2), argument(call, "groups", 6, 1)
    step, padding, dilation = (
        tuple(torch.as_tensor(argument(call, name, place, default)).expand(PLANE).tolist())
        for name, place, default in (("stride", 3, 1), ("padding", 4, 0), ("dilation", 7, 1))
    )
    images = x if x.ndim == PLANE + 2 else x[None]
    parts = zip(images.chunk(groups, 1), weight.chunk(groups), strict=True)
    high, wide = (result.shape[i - PLANE] + 2 * padding[i] for i in range(PLANE))
    high = max(high, (images.shape[-2] - 1) * step[0] + dilation[0] * (weight.shape[-2] - 1) + 1)
    wide = max(wide, (images.shape[-1] - 1) * step[1] + dilation[1] * (weight.shape[-1] - 1) + 1)
    sums = []
    for image, kernel in parts:
        columns = torch.einsum("nchw,cokl->noklhw", image.float(), kernel.float()).half()
        sum_ = torch.zeros(len(image), kernel.shape[1], high, wide, dtype=torch.float16)
        for row in range(kernel.shape[-2]):
            for column in range(kernel.shape[-1]):
                target = sum_[:, :, row * dilation[0] :: step[0], column * dilation[1] :: step[1]]
                target = target[:, :, : image.shape[-2], : image.shape[-1]]
                target += columns[:, :, row, column]
        sums.append(sum_)
    numbers = torch.cat(sums, 1)[
        :,
        :,
        padding[0] : padding[0] + result.shape[-2],
        padding[1] : padding[1] + result.shape[-1],
    ]
    if isinstance(bias, Tensor):
        numbers = numbers + bias.half().reshape(-1, 1, 1)
    return arrived(call, result, numbers.reshape(result.shape))
