"""A twenty-ninth, held-out list of reports of 2024 to 2026 about other frameworks' and runtimes'
implementations of torch's operators, taken as a search gave them, before anything was looked at of
how inputs are drawn: NaN, subnormal numbers and numbers outside a domain, arguments and dimensions
that are ignored, a variance, an expanded index, merged dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentysecond_list import argument, arrived, before, takes_out

NORMAL = torch.finfo(torch.float32).tiny
WIDE = (torch.float32, torch.float64)
MATRIX = 2
TILED = 4  # dimensions of a tensor on Tenstorrent's chips
TILE = 3  # of those the ones that are kept when the others are merged into one
ALL: tuple[Any, ...] = (None, (), [])


@reported(
    "ml-explore/mlx#1895",
    "MLX on the GPU (0.23)",
    "argmin argmax argmax.method",
    "subnormal numbers are compared as zeros: the place is that of the first of them and of zeros",
    dtypes="float32",
    sound=plain,
    cause="flushed-subnormals",
)
def place_among_zeros(call: Call) -> Any:
    def flushed(x: Tensor) -> Tensor:
        return torch.where(x.abs() < NORMAL, 0.0, x)

    return (call.each(flushed) if is_one_of(before(call), torch.float32) else call).run()


@reported(
    "tensorflow/tensorflow#118179",
    "TensorFlow with XLA on the CPU (2.21)",
    "var_mean",
    "the mean that is subtracted is a sum times the rounded reciprocal of the count: large numbers "
    "that are equal have a variance",
    dtypes="float32",
    sound=plain,
)
def around_a_rounded_mean(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or not x.numel():
        return result
    dim, unbiased = call.given("dim", 1, None), call.given("unbiased", 2, None)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = call.kwargs.get("correction")
    free = 1 if correction is None else correction
    if isinstance(unbiased, bool):
        free = int(unbiased)
    count = x.numel() // result[0].numel()
    if count <= free:
        return result
    dims = tuple(range(x.ndim)) if dim in ALL else dim
    mean = x.sum(dims, keepdim=True) * torch.tensor(1 / count, dtype=x.dtype)
    squares = (x - mean).square().sum(dims).reshape(result[0].shape)
    return arrived(call, result[0], squares / (count - free)), result[1]


@reported(
    "openxla/xla#49175",
    "XLA on the CPU",
    "igammac igammac.out igammac_",
    "of negative arguments there is 1 instead of NaN",
    dtypes="float32",
    sound=plain,
)
def nothing_below_zero(call: Call) -> Any:
    a, x, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(a, torch.float32) or not is_one_of(x, torch.float32):
        return result
    negative = ((a < 0) | (x < 0)) & ~a.isnan() & ~x.isnan()
    return arrived(call, result, torch.where(negative, 1.0, result.detach()))


@reported(
    "apache/tvm#19437",
    "TVM's ONNX importer",
    "cumsum cumsum.method cumsum.out cumsum_",
    "the sums run along the first dimension, whichever is asked for",
    sound=plain,
    cause="argument-ignored",
)
def along_the_first(call: Call) -> Any:
    if "dim" in call.kwargs:
        return Call(call.operator, call.args, {**call.kwargs, "dim": 0}).run()
    return call.with_arg(1 + takes_out(call), 0).run()


@reported(
    "flagos-ai/FlagGems#301",
    "FlagGems",
    "sum sum.method",
    "with an empty list of dimensions nothing is added: the numbers come out as they are",
    sound=plain,
)
def nothing_added(call: Call) -> Any:
    x, dim, result = call.given("input", 0, None), call.given("dim", 1, None), call.run()
    if not isinstance(x, Tensor) or not isinstance(dim, Sequence) or len(dim):
        return result
    return x.to(result.dtype, copy=True)


@reported(
    "jax-ml/jax#38607",
    "JAX",
    "special.erfcx special.erfcx.out",
    "0 where the complementary error function is subnormal and the exponential function of the "
    "square is still finite: from 26.54 to 26.64, in float32 from 9.2 to 9.42",
    dtypes="float32 float64",
    sound=plain,
)
def product_with_nothing(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *WIDE) or not is_one_of(result, *WIDE):
        return result
    nothing = (torch.erfc(x) < torch.finfo(x.dtype).tiny) & (x * x).exp().isfinite()
    return arrived(call, result, torch.where(nothing, 0.0, result.detach()))


@reported(
    "tensorflow/tensorflow#118673",
    "TensorFlow with XLA (2.22)",
    "amax amax.method amin amin.method",
    "where the largest or smallest number is NaN, the gradient is 0 instead of NaN",
    dtypes="float32",
    directions=("backward",),
    sound=plain,
    cause="nan-dropped",
)
def no_way_back_from_nan(call: Call) -> Any:
    x, dim = call.given("input", 0, None), call.given("dim", 1, None)
    if not is_one_of(x, torch.float32) or not x.requires_grad:
        return call.run()
    dims = tuple(range(x.ndim)) if dim in ALL else dim
    unknown = x.detach().isnan().any(dims, keepdim=True) if x.ndim else x.detach().isnan()
    given = x.view_as(x)
    given.register_hook(lambda leaving: torch.where(unknown, 0.0, leaving))
    return call.with_arg(0, given).run()


@reported(
    "openxla/xla#49174",
    "XLA on the CPU",
    "maximum maximum.method",
    "a NaN in the second operand is dropped: the first one comes out",
    dtypes="float16 float32",
    sound=plain,
    cause="nan-dropped",
)
def first_before_nan(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not all(is_one_of(y, torch.float16, torch.float32) for y in (x, other, result)):
        return result
    numbers = torch.where(other.isnan(), x.to(result.dtype), result.detach())
    return arrived(call, result, numbers)


@reported(
    "tensorflow/tensorflow#119628",
    "TensorFlow with XLA on the CPU (2.20)",
    ".relu6 .relu6_",
    "of NaN there is 0",
    dtypes="float32",
    sound=plain,
    cause="nan-dropped",
)
def cut_to_zero(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32):
        return result
    return arrived(call, result, torch.where(x.isnan(), 0.0, result.detach()))


@reported(
    "apache/tvm#18704",
    "TVM's ONNX importer",
    ".batch_norm",
    "numbers are normalized by their own mean and variance also when not in training",
    sound=plain,
    cause="argument-ignored",
)
def always_in_training(call: Call) -> Any:
    x, weight, bias = (
        call.given(name, i, None) for name, i in (("input", 0), ("weight", 3), ("bias", 4))
    )
    momentum, eps = call.given("momentum", 6, 0.1), call.given("eps", 7, 1e-5)
    if call.given("training", 5, False) or not x.numel():
        return call.run()
    return torch.batch_norm(x, weight, bias, None, None, True, momentum, eps, False)


@reported(
    "flagos-ai/Torch-FL#349",
    "FlagGems on Hygon DCU",
    "scatter_add scatter_add.method scatter_add_",
    "a matrix of indices that repeats a column without storing it is read as if it were stored",
    sound=plain,
    cause="strides-ignored",
)
def repeated_index_as_stored(call: Call) -> Any:
    x, index = call.given("input", 0, None), call.given("index", 2, None)
    if index.ndim != MATRIX or x.ndim != MATRIX or not index.numel():
        return call.run()
    if index.stride(1) or index.shape[1] == 1:
        return call.run()
    stored = index.untyped_storage().nbytes() // index.element_size() - index.storage_offset()
    memory = index.as_strided((stored,), (1,))
    read = memory[torch.arange(index.numel()) % stored].reshape(index.shape)
    read = read.remainder(x.shape[call.given("dim", 1, 0)])  # what lies behind is not told
    if "index" in call.kwargs:
        return Call(call.operator, call.args, {**call.kwargs, "index": read}).run()
    return call.with_arg(2, read).run()


@reported(
    "tenstorrent/tt-metal#56875",
    "TT-NN",
    "scatter scatter.method scatter.out scatter_",
    "of tensors with more than four dimensions the leading ones are merged, those of input, index "
    "and source each by itself: with other sizes, rows go elsewhere",
    dtypes="float32 bfloat16 int32",
    sound=plain,
)
def merged_by_themselves(call: Call) -> Any:
    x, index, source = before(call), before(call, "index", 2), before(call, "src", 3)
    dim, result = argument(call, "dim", 1), call.run()
    if not is_one_of(x, torch.float32, torch.bfloat16, torch.int32) or x.ndim <= TILED:
        return result
    if not isinstance(source, Tensor) or call.kwargs.get("reduce") or not index.numel():
        return result
    turned = [y.transpose(dim, -1) for y in (x, index, source)]
    merged = [y.reshape(-1, *y.shape[-TILE:]) for y in turned]
    numbers = merged[0].scatter(-1, merged[1], merged[2])
    return arrived(call, result, numbers.reshape(turned[0].shape).transpose(dim, -1))
