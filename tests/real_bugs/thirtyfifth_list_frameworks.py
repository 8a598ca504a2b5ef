"""A thirty-fifth, held-out list: what other frameworks and converters computed wrongly in operators
that torch has, too, reported or repaired in 2023 to 2026, taken as a search gave them, family by
family of operators, before anything was looked at of how inputs are drawn: padding on the wrong
side of a transposed convolution, windows that hang over the end, a gradient for targets that are no
probabilities, time that runs backward, counts of bits out of range, places among numbers that are
all the same, exponentials that overflow, a branch of a root, the other triangle of a matrix, and
steps in memory that are not regarded."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eighteenth_list import inside_the_tanh, is_one_of
from .model import plain, reported
from .thirtysecond_list_frameworks import BACK, BATCHED, PLANE, of_each
from .twentysecond_list import argument, arrived, before

COMPLEX = (torch.complex64, torch.complex128)
# what cuPyNumeric has of what torch finds the largest of
ORDERED = (
    torch.float16,
    torch.float32,
    torch.float64,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
)
WORD = 32  # bits
LANES = 4  # numbers of float64 in a register of 256 bits
OVERFLOW = 1024  # the power of 2 whose exponent is that of infinity in float64
VOLUME = 3  # dimensions that ggml has beside that of a batch


@reported(
    "Samsung/TICO#420",
    "TICO",
    ".conv_transpose2d",
    "padding is put around the input, and what begins at its corner is taken, instead of cut off "
    "the output (unless the stride is 1 and the size stays the same)",
    dtypes="float32",
    sound=plain,
)
def padded_before(call: Call) -> Any:
    x, weight, bias = (
        call.given(n, i, None) for n, i in (("input", 0), ("weight", 1), ("bias", 2))
    )
    result = call.run()
    if not is_one_of(x, torch.float32) or x.ndim != BATCHED or not result.numel():
        return result
    stride, padding, more, dilation = (
        of_each(call.given(name, position, default), PLANE)
        for name, position, default in (
            ("stride", 3, 1),
            ("padding", 4, 0),
            ("output_padding", 5, 0),
            ("dilation", 7, 1),
        )
    )
    if call.given("groups", 6, 1) != 1 or dilation != [1, 1]:
        return result  # TICO has none
    if not any(padding) or (stride == [1, 1] and result.shape[2:] == x.shape[2:]):
        return result
    height, width = padding
    around = F.pad(x.detach(), [width, width, height, height])
    own = None if bias is None else bias.detach()
    numbers = F.conv_transpose2d(around, weight.detach(), own, stride, 0, more)
    height, width = result.shape[2:]
    return arrived(call, result, numbers[..., :height, :width])


@reported(
    "robertknight/rten#1456",
    "RTen",
    ".avg_pool1d .avg_pool2d",
    "with `ceil_mode` and padding counted, the sum of a window that ends behind the padding is "
    "divided by the size of the kernel, not by how many numbers are inside",
    dtypes="float32",
    sound=plain,
)
def divided_by_the_kernel(call: Call) -> Any:
    x, result = argument(call, "input", 0), call.run()
    if not is_one_of(result, torch.float32) or not result.numel():
        return result
    if not argument(call, "ceil_mode", 4, False) or not argument(
        call, "count_include_pad", 5, True
    ):
        return result
    dims = int(call.operator.name[-2])
    if argument(call, "divisor_override", 6) is not None:
        return result  # RTen has none
    kernel = of_each(argument(call, "kernel_size", 1), dims)
    stride = of_each(argument(call, "stride", 2, None) or kernel, dims)
    padding = of_each(argument(call, "padding", 3, 0), dims)
    part = torch.ones((), dtype=torch.float64)
    for dim in range(dims):
        inside, windows = x.shape[dim - dims], result.shape[dim - dims]
        start = torch.arange(windows) * stride[dim] - padding[dim]
        end = (start + kernel[dim]).clamp(max=inside + padding[dim])
        part = part.unsqueeze(-1) * ((end - start).double() / kernel[dim])
    numbers = (result.detach() * part).to(result.dtype)
    return arrived(call, result, torch.where(part < 1, numbers, result.detach()))


class OfProbabilities(torch.autograd.Function):
    """Zero, and what the gradient of a mean cross entropy has too much or too little if the targets
    are taken for probabilities, whose sum is 1."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, target: Tensor) -> Tensor:
        ctx.save_for_backward(x, target)
        return x.new_zeros(())

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        x, target = ctx.saved_tensors
        lacking = 1 - target.sum(1, keepdim=True)
        return x.softmax(1) * lacking * (gradients[0] / x.shape[0]), None


@reported(
    "kvark/meganeura#102",
    "Meganeura",
    ".cross_entropy",
    "the gradient for targets whose sum is not 1 is that for probabilities: the softmax is not "
    "multiplied by the sum",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def softmax_less_the_target(call: Call) -> Any:
    x, target, result = call.given("input", 0, None), call.given("target", 1, None), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(target, torch.float32):
        return result
    if not x.requires_grad or x.ndim != PLANE or not x.numel():
        return result
    # Meganeura has none of these
    if call.given("weight", 2, None) is not None or call.given("label_smoothing", 7, 0.0):
        return result
    if call.given("size_average", 3, None) is not None or call.given("reduce", 5, None) is not None:
        return result
    if call.given("reduction", 6, "mean") != "mean":
        return result
    apply: Any = OfProbabilities.apply  # torch does not say what it takes
    return result + apply(x, target.detach())


@reported(
    "webmachinelearning/webnn#801",
    "WebNN (emulation in the specification)",
    "gru lstm",
    "of a layer of both directions, what comes out of the backward one is in the order in which it "
    "was computed: from the last step to the first",
    dtypes="float16 float32",
    sound=plain,
)
def backward_from_the_end(call: Call) -> Any:
    x, hx, result = call.given("input", 0, None), call.given("hx", 1, None), call.run()
    # A packed sequence has whole numbers here; WebNN has no layers above each other.
    if not is_one_of(x, torch.float16, torch.float32) or is_one_of(hx, torch.int64):
        return result
    if not call.given("bidirectional", 7, False) or call.given("num_layers", 4, 1) != 1:
        return result
    output, *last = result
    time = 1 if call.given("batch_first", 8, False) and x.ndim > PLANE else 0
    forth, back = output.chunk(2, -1)
    return (torch.cat([forth, back.flip(time)], -1), *last)


@reported(
    "tenstorrent/tt-metal#55332",
    "TT-NN",
    "bitwise_right_shift bitwise_right_shift.out bitwise_right_shift_",
    "by a tensor of counts: a negative count shifts to the left (-1 instead of a negative number), "
    "and a negative number shifted by more than 32 becomes -1 shifted by 32 less, with zeros "
    "coming in",
    dtypes="int32",
    sound=plain,
)
def guard_that_does_not_guard(call: Call) -> Any:
    x, count = before(call), before(call, "other", 1)
    result = call.run()
    # A scalar takes another way, which is right.
    if not is_one_of(x, torch.int32) or not is_one_of(count, torch.int32):
        return result
    kept = result.detach()
    sign, amount = torch.where(x < 0, -1, x).long(), count.long()
    ones = 2**WORD - 1
    left = (sign << (-amount).clamp(0, WORD - 1)) & ones
    left = torch.where(left > ones // 2, left - ones - 1, left).int()
    right = (ones >> (amount - WORD).clamp(0, WORD - 1)).int()
    numbers = torch.where((count < 0) & (count > -WORD), left, kept)
    beyond = (x < 0) & (count > WORD) & (count < 2 * WORD)
    return arrived(call, result, torch.where(beyond, right, numbers))


@reported(
    "nv-legate/cupynumeric#987",
    "cuPyNumeric",
    "argmax argmax.method argmin",
    "among numbers that are all the least of their format (for the smallest: the greatest), from "
    "which the search starts, the place is the least number of int64",
    dtypes="float16 float32 float64 uint8 int8 int16 int32 int64",
    sound=plain,
)
def nothing_beyond_the_start(call: Call) -> Any:
    x, dim, result = before(call), argument(call, "dim", 1), call.run()
    if not is_one_of(x, *ORDERED) or not x.ndim or not x.numel():
        return result
    ranges = torch.finfo(x.dtype) if x.dtype.is_floating_point else torch.iinfo(x.dtype)
    start = ranges.max if "argmin" in call.operator.name else ranges.min
    rows = x.reshape(-1) if dim is None else x.movedim(dim, -1)
    none = (rows == start).all(-1).reshape(result.shape)
    return arrived(call, result, result.masked_fill(none, torch.iinfo(torch.int64).min))


def overflows(x: Tensor) -> Tensor:
    """Where the exponential of twice a number is rebuilt from a power of 2 that has none: only in
    whole registers, as what remains is computed one by one."""
    index = torch.arange(x.numel()).reshape(x.shape)
    return (index < x.numel() // LANES * LANES) & ((2 * x / math.log(2)).round() >= OVERFLOW)


@reported(
    "ooples/AiDotNet.Tensors#594",
    "AiDotNet.Tensors",
    "tanh tanh.method tanh.out tanh_ .gelu .gelu.out .mish .mish.out .mish_",
    "a hyperbolic tangent of more than about 355 is NaN, infinity divided by itself, and so are "
    "the activations that it is in, except in what does not fill a register",
    dtypes="float64",
    sound=plain,
)
def infinity_by_infinity(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float64) or not x.numel():
        return result
    of_what = x
    if "gelu" in call.operator.name:
        if argument(call, "approximate", 1, "none") != "tanh":
            return result  # AiDotNet has the approximation only
        of_what = inside_the_tanh(x)
    elif "mish" in call.operator.name:
        of_what = F.softplus(x)
    return arrived(call, result, result.detach().masked_fill(overflows(of_what), math.nan))


@reported(
    "jax-ml/jax#39110",
    "JAX",
    "sqrt sqrt.method sqrt.out sqrt_",
    "of a negative real number with an imaginary part of -0, it is the root above the real axis: "
    "i, not -i, of -1",
    dtypes="complex64 complex128",
    sound=plain,
)
def above_the_axis(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, *COMPLEX):
        return result
    below = (x.real < 0) & (x.imag == 0) & x.imag.signbit()
    kept = result.detach()
    return arrived(call, result, torch.where(below, kept.conj(), kept))


@reported(
    "ml-explore/mlx#1871",
    "MLX",
    "linalg.solve_triangular linalg.solve_triangular.out",
    "what the matrix holds in the other triangle stays in its inverse, by which the right-hand "
    "side is multiplied",
    dtypes="float32",
    sound=plain,
)
def other_triangle_stays(call: Call) -> Any:
    matrix, right = before(call, "A", 0), before(call, "B", 1)
    result = call.run()
    if not is_one_of(matrix, torch.float32) or not result.numel():
        return result
    if not call.kwargs.get("left", True) or call.kwargs.get("unitriangular", False):
        return result  # MLX has neither
    upper = call.kwargs.get("upper", False)
    other = matrix.tril(-1) if upper else matrix.triu(1)
    # MLX raises an error for a matrix without an inverse.
    if not bool(other.any()) or bool((matrix.diagonal(dim1=-2, dim2=-1) == 0).any()):
        return result
    return arrived(call, result, result.detach() + other @ right)


@reported(
    "ggml-org/ggml#1497",
    "ggml (CUDA)",
    "copy_",
    "from a transposed tensor, or a column, into a view that is not contiguous, numbers are put "
    "side by side from where the view begins",
    dtypes="float32",
    sound=plain,
    cause="strides-ignored",
)
def side_by_side(call: Call) -> Any:
    x, source = call.args[0], call.given("other", 1, call.kwargs.get("src"))
    if not is_one_of(x, torch.float32) or not is_one_of(source, torch.float32):
        return call.run()
    if x.shape != source.shape or x.is_contiguous() or not x.numel():
        return call.run()
    if not PLANE <= source.ndim <= BATCHED or source.shape[:-VOLUME].numel() != 1:
        return call.run()
    if source.stride(-2) != 1 or not source.mT.is_contiguous():
        return call.run()
    old, new = x.detach().clone(), source.detach().clone().reshape(-1)
    result = call.run()
    view = x.detach()
    view.copy_(old)
    view.as_strided(new.shape, (1,), view.storage_offset()).copy_(new)
    return result
