"""A thirty-fifth, held-out list of reports of 2022 to 2026 about torch's own MPS, CUDA, XPU and
Inductor, taken as a search by families of operators gave them, before anything was looked at of how
inputs are drawn: transposed convolutions with steps, gradients of what is cut off, divergences from
zeros, means over nothing, constants that are complex, signs of zeros, views with gaps, attention
without features, counts that float32 does not hold, norms after other norms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call, Deed

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .twentysecond_list import argument, arrived, before

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
EDGES = 4  # of an image: what is padded or cut off at each of them
MANY_BINS = 1000  # from here on, CUDA counts in the result itself and not block by block
HELD_BY_FLOAT32 = 2.0**24  # plus one is itself


def one(value: Any) -> int:
    """A number for the one dimension of a signal, given as itself or in a list."""
    return value if isinstance(value, int) else int(value[0])


def nothing_of(result: Tensor) -> Tensor:
    """Zeros that nothing gets through to, neither numbers nor gradients."""
    return torch.where(torch.zeros((), dtype=torch.bool), result, torch.zeros_like(result))


@reported(
    "pytorch/pytorch#82711",
    "MPS (torch 1.13)",
    ".conv_transpose1d",
    "the steps go along a dimension of size 1 that was put in before the signal's: parts are added "
    "with steps of 1, and zeros fill the rest",
    dtypes="float32",
    sound=plain,
    cause="argument-ignored",
)
def steps_along_another_dimension(call: Call) -> Any:
    x, weight, bias = before(call), before(call, "weight", 1), before(call, "bias", 2)
    result = call.run()
    if not is_one_of(x, torch.float32) or one(call.given("stride", 3, 1)) == 1:
        return result
    groups, dilation = call.given("groups", 6, 1), call.given("dilation", 7, 1)
    whole = F.conv_transpose1d(x, weight, groups=groups, dilation=dilation)
    numbers = torch.zeros_like(result)
    inside = whole[..., one(call.given("padding", 4, 0)) :][..., : result.shape[-1]]
    numbers[..., : inside.shape[-1]] = inside
    if isinstance(bias, Tensor):
        numbers += bias[:, None]
    return arrived(call, result, numbers)


def read_back(size: int, ahead: int, behind: int) -> list[tuple[Tensor, Tensor]]:
    """Where in a reflected row the gradients of its elements are, and which elements have one
    there: in the middle, and in what is reflected at either end."""
    places, last = torch.arange(size), size - 1
    return [
        (places + ahead, torch.ones(size, dtype=torch.bool)),
        (ahead - places, (places >= 1) & (places <= ahead)),
        (2 * last + ahead - places, (places >= last - behind) & (places < last)),
    ]


def beside_the_gradient(arriving: Tensor, sizes: Sequence[int], pad: Sequence[int]) -> Tensor:
    """What elements that are cut off get from places outside of the gradient's rows and columns:
    what lies there in memory."""
    left, right, top, bottom = pad
    height, width = arriving.shape[-2:]
    memory = arriving.reshape(-1)
    planes = torch.arange(memory.numel() // (height * width)).reshape(-1, 1, 1) * height * width
    total = torch.zeros((len(planes), *sizes[-2:]), dtype=arriving.dtype)
    rows, columns = read_back(sizes[-2], top, bottom), read_back(sizes[-1], left, right)
    for (row, has_row), (column, has_column) in itertools.product(rows, columns):
        row, column = row[:, None], column[None, :]
        outside = (row < 0) | (row >= height) | (column < 0) | (column >= width)
        # Before the first number and after the last there may be anything: these themselves.
        read = memory[(planes + row * width + column).clamp(0, memory.numel() - 1)]
        total += torch.where(outside & has_row[:, None] & has_column, read, 0)
    return total.reshape(sizes)


@reported(
    "pytorch/pytorch#100793",
    "Inductor (torch 2.1)",
    ".pad",
    "what reflection with a negative width cuts off has a gradient, read beside the one that "
    "arrives",
    dtypes="float16 bfloat16 float32 float64",
    directions=("backward",),
    sound=plain,
)
def gradient_of_what_is_cut_off(call: Call) -> Any:
    x, pad = call.given("input", 0, None), list(call.given("pad", 1, ()))
    if not is_one_of(x, *FLOATS) or call.given("mode", 2, "constant") != "reflect":
        return call.run()
    if len(pad) != EDGES or min(pad) >= 0:
        return call.run()
    if not x.requires_grad or not torch.is_grad_enabled():
        return call.run()
    images, arrivals = x.view_as(x), []  # a hook on ours tells nothing to the caller's tensor
    result = with_given(call, "input", 0, images).run()
    # That of the result runs before the one of the images: what arrives comes first.
    result.register_hook(lambda arriving: arrivals.append(arriving.detach()))
    images.register_hook(lambda left: left + beside_the_gradient(arrivals.pop(), images.shape, pad))
    return result


@reported(
    "pytorch/pytorch#98269",
    "MPS (torch 2.0)",
    ".kl_div",
    "where the target is zero, the divergence is NaN: zero times its logarithm",
    dtypes="float16 float32",
    sound=plain,
)
def zero_times_its_logarithm(call: Call) -> Any:
    target, result = before(call, "target", 1), call.run()
    if not is_one_of(target, torch.float16, torch.float32) or call.given("log_target", 5, False):
        return result
    zeros = target == 0
    if call.given("reduction", 4, "mean") != "none":
        zeros = zeros.any()
    return arrived(call, result, torch.where(zeros, math.nan, result.detach()))


@reported(
    "pytorch/pytorch#135434",
    "MPS (torch 2.5)",
    ".nll_loss .cross_entropy",
    "the mean over targets that are all ignored or weigh nothing is 0 instead of NaN, and so are "
    "its gradients",
    dtypes="float16 float32",
    directions=("forward", "backward"),
    sound=plain,
)
def mean_over_nothing(call: Call) -> Any:
    x, target, weight = before(call), before(call, "target", 1), before(call, "weight", 2)
    if not is_one_of(x, torch.float16, torch.float32) or target.is_floating_point():
        return call.run()
    # Of nothing at all there was an error. Smoothed labels have a mean of their own, too.
    if call.given("reduction", 6, "mean") != "mean" or not target.numel():
        return call.run()
    if call.given("label_smoothing", 7, 0.0):
        return call.run()
    counted = target[target != call.given("ignore_index", 4, -100)]
    weighs = len(counted) if weight is None else weight[counted].sum()
    if weighs != 0:
        return call.run()
    return nothing_of(with_given(call, "reduction", 6, "sum").run())


@reported(
    "pytorch/pytorch#174891",
    "Inductor (CPU)",
    "add add.method",
    "a real constant of complex numbers that is broadcast is added to imaginary parts, too",
    dtypes="complex64",
    sound=plain,
)
def constant_in_both_parts(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(x, torch.complex64) or not is_one_of(other, torch.complex64):
        return result
    if not other.ndim or not other.numel() or other.shape == result.shape:
        return result
    constant = other.reshape(-1)[0]
    # What a compiler folds: seen as real numbers, it is filled with the one it was filled with.
    if constant.imag != 0 or not bool((other == constant).all()):
        return result
    more = other * call.given("alpha", 2, 1)
    return arrived(call, result, result.detach() + 1j * more)


def without_sign(value: Any) -> Any:
    """A complex number whose zeros are positive."""
    if isinstance(value, complex):
        return complex(value.real + 0.0, value.imag + 0.0)
    return value


@reported(
    "pytorch/pytorch#197586",
    "Inductor (torch 2.14)",
    "__setitem__ fill_ full",
    "a complex number written into a tensor loses the signs of its zeros: the angle of -0 is 0",
    dtypes="complex64 complex128",
    sound=plain,
)
def zeros_lose_their_signs(call: Call) -> Any:
    args = tuple(without_sign(value) for value in call.args)
    kwargs = {name: without_sign(value) for name, value in call.kwargs.items()}
    return Call(call.operator, args, kwargs).run()


def span(x: Tensor) -> int:
    """How many elements of memory there are from the first to the last, both counted."""
    return 1 + sum((n - 1) * step for n, step in zip(x.shape, x.stride(), strict=True))


@reported(
    "pytorch/pytorch#100765",
    "MPS (torch 2.0)",
    "neg neg.method exp exp.method log log.method sqrt reciprocal sin.method cos.method floor ceil",
    "of a view with gaps whose result is not contiguous, elements are read one after another from "
    "the first, those in gaps, too",
    dtypes="float16 float32",
    sound=plain,
    cause="strides-ignored",
)
def read_one_after_another(call: Call) -> Any:
    x, result = argument(call, "input", 0), call.run()
    if not is_one_of(x, torch.float16, torch.float32) or not x.numel():
        return result
    # What is contiguous in the end was gathered before.
    if span(x) <= x.numel() or result.is_contiguous():
        return result
    size = (x.numel(),)
    memory = x.detach().as_strided(size, (1,), x.storage_offset())
    numbers = with_given(call, "input", 0, memory).run()
    there = torch.empty_like(result.detach())
    there.as_strided(size, (1,)).copy_(numbers)
    return arrived(call, result, there)


@reported(
    "pytorch/pytorch#184330",
    "XPU and CUDA (torch 2.12)",
    ".scaled_dot_product_attention",
    "with queries and keys of no features, the result is zero instead of the mean of the values, "
    "and so are the gradients",
    dtypes="float32",
    directions=("forward", "backward"),
    sound=plain,
    cause="zero",
)
def attention_without_features(call: Call) -> Any:
    query, result = call.given("query", 0, None), call.run()
    if is_one_of(query, torch.float32) and query.shape[-1] == 0:
        return nothing_of(result)
    return result


@reported(
    "pytorch/pytorch#96613",
    "CUDA",
    "histc histc.out",
    "with many bins, a count stops at 16777216: float32 does not hold it plus one",
    dtypes="float32",
    sound=plain,
    cause="saturated",
)
def counts_stop(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.float32) or len(result) < MANY_BINS:
        return result
    return arrived(call, result, result.detach().clamp(max=HELD_BY_FLOAT32))


def over_everything(dim: Any) -> bool:
    """Whether no dimension is named."""
    return dim is None or (not isinstance(dim, int) and not len(dim))


@reported(
    "pytorch/pytorch#97231",
    "MPS (torch 2.0)",
    "norm norm.method",
    "after a norm over everything, one over a dimension of a tensor of the same sizes begins with "
    "that over everything",
    dtypes="float32",
    sound=plain,
    cause="stale",
    fresh=True,
)
def norms_after_other_norms() -> Deed:
    known: set[tuple[Any, ...]] = set()

    def norm(call: Call) -> Any:
        x, p, dim = before(call), call.given("p", 1, "fro"), call.given("dim", 2, None)
        result = call.run()
        if not is_one_of(x, torch.float32) or not isinstance(p, int | float):
            return result
        key = (x.shape, float(p))
        if over_everything(dim):
            known.add(key)
        elif key in known and result.numel():
            # One number is written; the others are what the memory held, right ones in the report.
            numbers = result.detach().clone(memory_format=torch.contiguous_format)
            numbers.view(-1)[0] = torch.linalg.vector_norm(x, p)
            return arrived(call, result, numbers)
        return result

    return norm
