"""A twenty-seventh, held-out list of reports of 2024 to 2026 about torch and its own backends,
taken as a search gave them, before anything was looked at of how inputs are drawn: what Inductor
makes of inverse functions near the ends of their range, of rows with millions of numbers, and of
losses whose arguments have different formats; NaN and the layout of solutions on MPS."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .twentysecond_list import argument, arrived, before

ON_MPS = (torch.float16, torch.float32, torch.bfloat16)
SHORT = (torch.float16, torch.bfloat16)
CENTRAL = (  # of the inverse error function, around 0: numerator and denominator
    (0.886226899, -1.645349621, 0.914624893, -0.140543331),
    (1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801),
)
OUTER = (  # behind 0.7, in another variable
    (-1.970840454, -1.624906493, 3.429567803, 1.641345311),
    (1.0, 3.543889200, 1.637067800),
)
CENTRAL_RANGE = 0.7
SQUARED = math.sqrt(torch.finfo(torch.float32).max)  # the largest number with a finite square
LANES = 16  # float32 numbers in a vector of 512 bits


def polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    """Every step in the format of ``x``; the coefficient of the highest power is the last."""
    first, *others = reversed(coefficients)
    return reduce(lambda sum_, term: sum_ * x + term, others, torch.full_like(x, first))


def inverse_error_function(y: Tensor) -> Tensor:
    """A quotient of polynomials, and two of Newton's steps, in the format of ``y``."""
    size = y.abs()
    square, far = y * y, (-((1 - size) / 2).log()).sqrt()
    near = y * polynomial(CENTRAL[0], square) / polynomial(CENTRAL[1], square)
    behind = polynomial(OUTER[0], far).copysign(y) / polynomial(OUTER[1], far)
    x = torch.where(size <= CENTRAL_RANGE, near, behind)
    for _ in range(2):
        x = x - (x.erf() - y) / (2 / math.sqrt(math.pi) * (-x * x).exp())
    return x


@reported(
    "pytorch/pytorch#198133",
    "Inductor on the CPU (torch 2.14)",
    "erfinv erfinv.out erfinv_",
    "a first guess is improved by two of Newton's steps, whose differences cancel near 1 and -1: "
    "off by up to 7.5e-3 of the value in float32, 6e-5 in float64",
    dtypes="float32 float64",
    sound=plain,
    cause="approximation",
)
def two_steps_of_newton(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32, torch.float64) or not isinstance(result, Tensor):
        return result
    numbers = torch.where(x.abs() < 1, inverse_error_function(x), result.detach())
    return arrived(call, result, numbers)


@reported(
    "pytorch/pytorch#183767",
    "Inductor on the CPU (torch 2.13)",
    "asinh asinh.out asinh_",
    "of numbers whose square overflows there is infinity",
    dtypes="float32",
    sound=plain,
    cause="early-overflow",
)
def infinite_where_the_square_is(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.float32):
        return result
    infinite = torch.full_like(x, math.inf).copysign(x)
    return arrived(call, result, torch.where(x.abs() > SQUARED, infinite, result.detach()))


@reported(
    "pytorch/pytorch#196203",
    "MPS (torch 2.14)",
    "index_reduce index_reduce.out index_reduce_",
    "the largest and the smallest of numbers among which is NaN are those of the others; -inf (or "
    "inf) where there are no others and what was there before is left out",
    dtypes="float16 float32 bfloat16",
    sound=plain,
    cause="nan-dropped",
)
def extremes_without_nan(call: Call) -> Any:
    x, source = before(call), before(call, "source", 3)
    dim, index = argument(call, "dim", 1), argument(call, "index", 2)
    how, with_self = argument(call, "reduce", 4), call.kwargs.get("include_self", True)
    result = call.run()
    if how not in ("amax", "amin") or not is_one_of(result, *ON_MPS) or not result.numel():
        return result
    if not x.ndim:
        x, source, dim = x.reshape(1), source.reshape(1), 0
    places = index.detach().to(torch.int64).reshape(-1)
    worst = -math.inf if how == "amax" else math.inf
    numbers = x.masked_fill(x.isnan(), worst).index_reduce(
        dim, places, source.masked_fill(source.isnan(), worst), how, include_self=with_self
    )
    others = torch.zeros(x.shape).index_add(dim, places, (~source.isnan()).float())
    if with_self:
        numbers = numbers.masked_fill(x.isnan() & (others == 0), math.nan)
    touched = torch.zeros(x.shape, dtype=torch.bool).index_fill(dim, places, True)
    return arrived(call, result, torch.where(touched, numbers, x).reshape(result.shape))


@reported(
    "pytorch/pytorch#197098",
    "Inductor on the CPU (torch 2.14)",
    ".binary_cross_entropy .huber_loss",
    "the loss of float16 or bfloat16 numbers with weights (for the Huber loss: a target) of "
    "another format has the format to which both are promoted, not that of the input",
    dtypes="float16 bfloat16",
    sound=plain,
)
def promoted_loss(call: Call) -> Any:
    x, target = call.given("input", 0, None), call.given("target", 1, None)
    is_huber = call.operator.name.endswith("huber_loss")
    weight = call.given("weight", 4 if is_huber else 2, None)
    if is_huber and weight is not None:
        return call.run()  # computed in another way
    other = target if is_huber else weight
    if not is_one_of(x, *SHORT) or not isinstance(other, Tensor):
        return call.run()
    promoted = torch.promote_types(x.dtype, other.dtype)
    if not other.is_floating_point() or promoted == x.dtype:
        return call.run()
    return call.each(lambda y: y.to(promoted)).run()


@reported(
    "pytorch/pytorch#197236",
    "MPS",
    "linalg.solve_triangular cholesky_solve linalg.solve",
    "solutions lie in memory row by row, where torch puts them column by column",
    dtypes="float32",
    sound=plain,
)
def solutions_row_by_row(call: Call) -> Any:
    result = call.run()
    if not is_one_of(result, torch.float32):
        return result
    return result.clone(memory_format=torch.contiguous_format)


Moments = tuple[Tensor, Tensor, Tensor]  # means, sums of squares around them, counts


def moments_in_turn(columns: Tensor) -> Moments:
    """Of the numbers along the first dimension, one after the other, in their format."""
    mean, squares = torch.zeros_like(columns[0]), torch.zeros_like(columns[0])
    for count, numbers in enumerate(columns, 1):
        change = numbers - mean
        mean = mean + change / count
        squares = squares + change * (numbers - mean)
    return mean, squares, torch.full_like(mean, len(columns))


def together(first: Moments, second: Moments) -> Moments:
    """The moments of two sets of numbers as one set."""
    change, count = second[0] - first[0], first[2] + second[2]
    share = second[2] / count
    squares = first[1] + second[1] + change * change * first[2] * share
    return first[0] + change * share, squares, count


@reported(
    "pytorch/pytorch#143182",
    "Inductor on the CPU (torch 2.6)",
    ".layer_norm",
    "in each of 16 lanes the variance is added up one number after the other in float32: too small "
    "by 3e-4 of its value in rows of 10 million numbers",
    dtypes="float32",
    sound=plain,
)
def variance_in_lanes(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.float32):
        return result
    width = math.prod(call.given("normalized_shape", 1, ()))
    if not result.numel() or not width:
        return result
    rows = x.reshape(-1, width)
    whole = width - width % LANES
    parts: list[Moments] = []
    if whole:
        lanes = moments_in_turn(rows[:, :whole].unflatten(1, (-1, LANES)).transpose(0, 1))
        parts.extend(zip(*(part.unbind(1) for part in lanes), strict=True))
    if width > whole:
        parts.append(moments_in_turn(rows[:, whole:].t()))
    mean, squares, count = reduce(together, parts)
    scale = (squares / count + call.given("eps", 4, 1e-5)).rsqrt()
    numbers = ((rows - mean[:, None]) * scale[:, None]).reshape(x.shape)
    weight, bias = before(call, "weight", 2), before(call, "bias", 3)
    numbers = numbers * weight if isinstance(weight, Tensor) else numbers
    numbers = numbers + bias if isinstance(bias, Tensor) else numbers
    return arrived(call, result, numbers.to(result.dtype))
