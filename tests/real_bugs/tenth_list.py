"""A tenth, held-out list of reports of 2023 to 2026, chosen for variety before anything was looked
at of how inputs are drawn: values and integers. Sizes and layouts are in :mod:`.tenth_list_sizes`,
reductions and gradients in :mod:`.tenth_list_reductions`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .model import plain, reported


@reported(
    "tensorflow/tensorflow#97125",
    "TensorFlow on CUDA",
    "pow",
    "of an exponent beyond 63, only the last six bits count",
    dtypes="int64",
    sound=plain,
)
def six_bits_of_an_exponent(call: Call) -> Any:
    x, y = call.args[:2]
    result = call.run()
    if any(not isinstance(t, Tensor) or t.dtype != torch.int64 for t in (x, y)):
        return result
    return torch.where(y > 63, torch.pow(x, y.clamp_min(0) % 64), result)


@reported(
    "pytorch/pytorch#144190",
    "MPS",
    "bitwise_right_shift",
    "bytes from 128 on are shifted as negative numbers",
    dtypes="uint8",
    sound=plain,
)
def shifted_with_a_sign(call: Call) -> Any:
    x, y = call.args[:2]
    result = call.run()
    if result.dtype != torch.uint8:
        return result
    wide = torch.as_tensor(x, dtype=torch.int16)
    distance = torch.as_tensor(y, dtype=torch.int16)
    signed = torch.where(wide > 127, wide - 256, wide) >> distance.clamp(0, 7)
    return torch.where(distance < 8, signed, result).to(torch.uint8)


@reported(
    "jax-ml/jax#22137",
    "JAX",
    "kthvalue topk",
    "among the least bytes, 0 counts as the largest",
    dtypes="uint8",
    sound=plain,
)
def zero_is_the_largest(call: Call) -> Any:
    x = call.args[0]
    if x.dtype != torch.uint8 or (call.operator.name == "topk" and call.given("largest", 3, True)):
        return call.run()
    values, places = call.with_arg(0, x - 1).run()
    return values + 1, places


@reported(
    "IntelPython/dpnp#2270",
    "dpnp",
    "tensordot",
    "whole numbers are multiplied as float64",
    dtypes="int64",
    sound=plain,
)
def whole_numbers_as_doubles(call: Call) -> Any:
    result = call.run()
    if result.dtype != torch.int64:
        return result
    product = call.each(lambda t: t.double() if t.dtype == torch.int64 else t).run()
    exact = product.abs() <= 2.0**53
    return torch.where(exact, result, product.clamp(-(2.0**62), 2.0**62).to(torch.int64))


@reported(
    "apache/tvm#15394",
    "TVM",
    ".pad",
    "the number that fills float64 is rounded to float32",
    dtypes="float64",
    sound=plain,
)
def filled_with_a_float(call: Call) -> Any:
    value = call.given("value", 3, None)
    if call.given("mode", 2, "constant") != "constant" or not isinstance(value, float):
        return call.run()
    rounded = torch.tensor(value, dtype=torch.float64).to(torch.float32).item()
    if len(call.args) > 3:
        return call.with_arg(3, rounded).run()
    return replace(call, kwargs=dict(call.kwargs) | {"value": rounded}).run()


@reported(
    "PaddlePaddle/Paddle#57753",
    "PaddlePaddle on the CPU",
    ".cross_entropy",
    "a logit more than 64 below the largest counts as 64 below",
    dtypes="float32",
    sound=plain,
)
def loss_is_bounded(call: Call) -> Any:
    x = call.args[0]
    classes = 1 if x.ndim > 1 else 0
    if not x.numel() or x.dtype != torch.float32:
        return call.run()
    largest = x.amax(classes, keepdim=True)
    below = torch.where(largest.isfinite(), (x - largest).clamp_min(-64), x)
    return call.with_arg(0, below).run() if bool((below != x - largest).any()) else call.run()


@reported(
    "tenstorrent/tt-metal#46331",
    "TT-NN",
    "argsort sort",
    "the places of whole numbers beyond 256 are those of their bfloat16",
    dtypes="int64 int32 int16",
    sound=plain,
)
def sorted_as_bfloat16(call: Call) -> Any:
    x, dim, down = call.args[0], call.given("dim", 1, -1), call.given("descending", 2, False)
    result = call.run()
    if x.is_floating_point() or not x.numel() or not bool((x.abs() > 256).any()):
        return result
    places = torch.argsort(x.to(torch.bfloat16), dim=dim, descending=down, stable=True)
    return places if isinstance(result, Tensor) else (result[0], places)


@reported(
    "IntelPython/mkl_fft#115",
    "mkl_fft",
    "fft.irfftn",
    "with a size for every dimension, the first is never cut",
    dtypes="float32 complex64",
    sound=plain,
)
def first_never_cut(call: Call) -> Any:
    x, sizes = call.args[0], call.given("s", 1, None)
    if sizes is None or call.given("dim", 2, None) is not None or x.ndim < 2:
        return call.run()
    if len(sizes) != x.ndim or not 0 < sizes[0] < x.shape[0]:
        return call.run()
    uncut = [x.shape[0], *sizes[1:]]
    if len(call.args) > 1:
        return call.with_arg(1, uncut).run()
    return replace(call, kwargs=dict(call.kwargs) | {"s": uncut}).run()
