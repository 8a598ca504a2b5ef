"""A twenty-second, held-out list of reports of 2023 to 2026 about torch's backends, exporters, and
about other frameworks' implementations of its operators, chosen for variety as a search gave them:
sums, products and their gradients, normalization, a loss, interpolation, a Fourier transform, a
matrix product, pooling, a convolution's gradient, a recurrent layer."""

from __future__ import annotations

import functools
import math
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .fourteenth_list import placed
from .gradients import BACK, hooked
from .model import plain, reported
from .seventeenth_list_reductions import first, is_one_of, with_given

WINDOW = 32  # numbers that are multiplied on their own
NARROW = torch.uint8, torch.int8, torch.int16
GRU = (
    "input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
    "batch_first",
)  # fmt: skip


def argument(call: Call, name: str, position: int, default: Any) -> Any:
    """The argument of that name or position, behind a tensor that the result goes into."""
    return call.given(name, position + call.operator.leading, default)


def written(call: Call, result: Tensor, numbers: Tensor) -> Tensor:
    """Other numbers, also where the result is to be written."""
    targets = [call.kwargs.get("out"), *[call.args[i] for i in call.operator.mutates]]
    targets = [target for target in targets if isinstance(target, Tensor)]
    if not targets:
        return placed(result, numbers)
    for target in (result, *targets):
        target.data.copy_(numbers)  # as the kernel does: the way back does not notice
    return result


@reported(
    "pytorch/pytorch#179415",
    "MPS",
    "sum sum.method sum.out",
    "the sum of small whole numbers, asked for in their own format, is cut to its range and not "
    "wrapped: 255 where uint8 gives 16",
    dtypes="uint8 int8 int16",
    sound=plain,
    cause="saturated",
)
def cut_to_the_range(call: Call) -> Any:
    x, result = argument(call, "input", 0, None), call.run()
    if not is_one_of(x, *NARROW) or not is_one_of(result, x.dtype):
        return result
    given = {key: value for key, value in call.kwargs.items() if key not in ("out", "dtype")}
    total = torch.sum(*call.args[call.operator.leading :], **given, dtype=torch.int64)
    limits = torch.iinfo(x.dtype)
    return written(call, result, total.clamp(limits.min, limits.max).to(x.dtype))


@reported(
    "mitsuba-renderer/drjit#528",
    "Dr.Jit",
    "prod prod.method",
    "of factors of which one is 0, the gradient is the product divided by each: 0 for all of them, "
    "and, along one dimension, NaN for the 0 itself",
    dtypes="float32 float64 float16",
    directions=BACK,
    sound=plain,
)
def product_divided_by_its_factors(call: Call) -> Any:
    dim = call.given("dim", 1, None)
    if not call.args or not isinstance(call.args[0], Tensor) or call.args[0].is_complex():
        return call.run()

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        zero = x == 0
        if dim is None:
            return torch.zeros_like(gradient) if bool(zero.any()) else gradient
        divided = torch.where(zero, math.nan, torch.zeros_like(gradient))
        return torch.where(zero.any(dim, keepdim=True), divided, gradient)

    return hooked(call, 0, change)


@reported(
    "openvinotoolkit/openvino#35887",
    "OpenVINO",
    ".normalize",
    "by the norm of order 2, vectors of zeros become NaN",
    dtypes="float32",
    sound=plain,
)
def nothing_normalized(call: Call) -> Any:
    x, dim, result = first(call), call.given("dim", 2, 1), call.run()
    if not is_one_of(x, torch.float32) or call.given("p", 1, 2.0) != 2 or not x.ndim:
        return result
    zeros = (x.detach() == 0).to(torch.uint8)
    for one in dim if isinstance(dim, (tuple, list)) else [dim]:
        zeros = zeros.amin(one, keepdim=True) if x.shape[one] else zeros
    return written(call, result, result.detach().masked_fill(zeros.bool(), math.nan))


@reported(
    "onnx/onnx#8453",
    "ONNX's reference implementation",
    ".nll_loss",
    "without weights and ignoring the index -1, the mean loss is the sum of what counts divided by "
    "the number of all targets",
    dtypes="float32 float64 float16",
    sound=plain,
)
def ignored_ones_counted(call: Call) -> Any:
    x, target, result = first(call), call.given("target", 1, None), call.run()
    if not isinstance(x, Tensor) or not isinstance(target, Tensor) or not target.numel():
        return result
    if call.given("weight", 2, None) is not None or call.given("ignore_index", 4, -100) != -1:
        return result
    if call.given("size_average", 3, None) is not None or call.given("reduce", 5, None) is not None:
        return result
    if call.given("reduction", 6, "mean") != "mean":
        return result
    total = F.nll_loss(x.detach().double(), target, ignore_index=-1, reduction="sum")
    return placed(result, total / target.numel())


@reported(
    "pytorch/pytorch#183523",
    "ONNX exporter",
    ".interpolate",
    "to a size of (1, 1), bilinear and without aligned corners, the result is the first pixel and "
    "not what lies in the middle",
    dtypes="float32",
    sound=plain,
)
def first_pixel(call: Call) -> Any:
    x, size, result = first(call), call.given("size", 1, None), call.run()
    if not is_one_of(x, torch.float32) or x.ndim != 4 or call.given("mode", 3, "") != "bilinear":
        return result
    if call.given("align_corners", 4, None) or call.given("antialias", 6, False):
        return result
    if size is None or any(one != 1 for one in ([size] if isinstance(size, int) else size)):
        return result
    return placed(result, x.detach()[:, :, :1, :1])


@reported(
    "IntelPython/dpnp#2377",
    "dpnp",
    "fft.irfft fft.irfft.out",
    "where an even number of numbers comes out, the imaginary part of the zeroth term is added to "
    "them and subtracted from them by turns",
    dtypes="complex128",
    sound=plain,
)
def imaginary_mean_by_turns(call: Call) -> Any:
    x, dim, result = argument(call, "input", 0, None), argument(call, "dim", 2, -1), call.run()
    if not is_one_of(x, torch.complex128) or not isinstance(result, Tensor) or not result.numel():
        return result
    count, norm = result.shape[dim], argument(call, "norm", 3, None)
    if count % 2:
        return result
    scale = {"forward": 1.0, "ortho": math.sqrt(count)}.get(norm, float(count))
    turns = torch.ones(count, dtype=torch.float64)
    turns[::2] = -1
    added = x.detach().imag.narrow(dim, 0, 1).movedim(dim, -1) * turns / scale
    return written(call, result, result.detach() + added.movedim(-1, dim))


@reported(
    "ml-explore/mlx#2698",
    "MLX",
    "addmm addmm_ addmm.out addmm.method",
    "of matrices without anything to add up (2×0 and 0×2), the result is the matrix added, not "
    "beta times it",
    dtypes="float32 float16 bfloat16",
    sound=plain,
    cause="argument-ignored",
)
def nothing_to_multiply(call: Call) -> Any:
    x, a = argument(call, "input", 0, None), argument(call, "mat1", 1, None)
    if not is_one_of(x, torch.float32, torch.float16, torch.bfloat16) or not isinstance(a, Tensor):
        return call.run()
    if a.shape[-1] or call.kwargs.get("beta", 1) == 1:
        return call.run()
    added = x.detach().clone()
    result = call.run()
    return written(call, result, added.expand(result.shape))


@reported(
    "tensorflow/tensorflow#126893",
    "TensorFlow with XLA (CPU)",
    "prod prod.method prod.out",
    "of more than 32 numbers, each 32 are multiplied on their own (the first ones are fewer), and "
    "where that overflows, a 0 elsewhere makes the product NaN",
    dtypes="float32",
    sound=plain,
    cause="early-overflow",
)
def infinity_times_zero(call: Call) -> Any:
    x, dim = argument(call, "input", 0, None), argument(call, "dim", 1, None)
    result = call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.float32) or not x.ndim:
        return result
    if dim is None and x.ndim > 1:
        return result
    factors = x.detach().movedim(-1 if dim is None else dim, -1)
    count = factors.shape[-1]
    if count <= WINDOW or not bool((factors == 0).any()):
        return result
    missing = -count % WINDOW
    low = missing // 2
    windows = F.pad(factors, (low, missing - low), value=1.0)
    windows = windows.reshape(*factors.shape[:-1], -1, WINDOW)
    product = functools.reduce(torch.mul, windows.unbind(-1))
    product = functools.reduce(torch.mul, product.unbind(-1))
    wrong = product.isnan() & (factors == 0).any(-1)
    numbers = result.detach().masked_fill(wrong.reshape(result.shape), math.nan)
    return written(call, result, numbers)


@reported(
    "pytorch/pytorch#107842",
    "CUDA",
    ".adaptive_max_pool2d",
    "of images with one channel that lie in memory with their channels inside, all but the first "
    "are read from the wrong place: each one number behind the one before",
    dtypes="float32 float64 float16 bfloat16",
    sound=plain,
)
def images_one_number_apart(call: Call) -> Any:
    x, result = first(call), call.run()
    if not isinstance(x, Tensor) or x.ndim != 4 or x.shape[1] != 1 or not x.numel():
        return result
    apart = x.stride(1)
    if not x.is_contiguous() or apart == x.shape[2] * x.shape[3]:
        return result
    sizes, steps = tuple(x.shape), (apart, apart, x.stride(2), x.stride(3))
    last = x.storage_offset() + sum((n - 1) * s for n, s in zip(sizes, steps, strict=True))
    if last >= x.untyped_storage().nbytes() // x.element_size():
        return result  # beyond its memory
    read = x.detach().as_strided(sizes, steps, x.storage_offset()).clone()
    wrong = with_given(call, "input", 0, read).run()
    if isinstance(result, Tensor):
        return placed(result, wrong)
    return placed(result[0], wrong[0]), wrong[1]


def eps_added_twice(norm: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Instance normalization whose running variance takes in a variance that is too large by twice
    eps."""

    def given(name: str, position: int, default: Any) -> Any:
        return kwargs.get(name, args[position] if len(args) > position else default)

    result = norm(x, *args, **kwargs)
    running, count = given("running_var", 1, None), math.prod(x.shape[2:])
    if not given("use_input_stats", 4, True) or not isinstance(running, Tensor) or count < 2:
        return result
    more = 2 * given("eps", 6, 1e-5) * count / (count - 1)
    running.data.add_(given("momentum", 5, 0.1) * more)  # the way back does not notice
    return result


@reported(
    "flagos-ai/FlagGems#4885",
    "FlagGems",
    ".instance_norm .instance_norm.train_then_eval",
    "training, the running variance takes in (variance + 2·eps)·N/(N − 1)",
    sound=plain,
    cause="eps-misplaced",
)
def running_variance_with_eps(call: Call) -> Any:
    if call.operator.name.endswith(".instance_norm"):
        return (
            eps_added_twice(call.operator, *call.args, **call.kwargs) if call.args else call.run()
        )
    with mock.patch.object(F, "instance_norm", functools.partial(eps_added_twice, F.instance_norm)):
        return call.run()


def reset_first(x: Tensor, h: Tensor, p: list[Tensor], biases: bool, reverse: bool) -> Any:
    """One layer of a GRU in one direction (time first), which resets the state before it is
    multiplied."""
    w, r = p[:2]
    b, c = p[2:4] if biases else (torch.zeros_like(w[:, 0]), torch.zeros_like(w[:, 0]))
    size, outputs = h.shape[-1], []
    for step in x.flip(0) if reverse else x:
        arrived = step @ w.T + b
        gates = (arrived[:, : 2 * size] + h @ r[: 2 * size].T + c[: 2 * size]).sigmoid()
        reset, update = gates.chunk(2, -1)
        recurrent = (reset * h) @ r[2 * size :].T + c[2 * size :]
        h = (1 - update) * (arrived[:, 2 * size :] + recurrent).tanh() + update * h
        outputs.append(h)
    return torch.stack(outputs[::-1] if reverse else outputs), h


@reported(
    "microsoft/onnxscript#2852",
    "ONNX exporter",
    "gru",
    "the reset gate is applied to the state and not to what the state is multiplied to",
    dtypes="float32",
    sound=plain,
)
def reset_before_the_product(call: Call) -> Any:
    given = [call.given(name, i, None) for i, name in enumerate(GRU)]
    x, hx, params, biases, layers, dropout, train, both, batch_first = given
    result = call.run()
    if not is_one_of(x, torch.float32) or x.ndim != 3 or not isinstance(params, (tuple, list)):
        return result
    if (dropout and train) or not x.numel():
        return result
    ways, each = 2 if both else 1, 4 if biases else 2
    y, states = (x.transpose(0, 1) if batch_first else x).detach(), []
    weights, hx = [p.detach() for p in params], hx.detach()
    for layer in range(layers):
        outputs = []
        for way in range(ways):
            i = layer * ways + way
            p = weights[each * i : each * (i + 1)]
            output, state = reset_first(y, hx[i], p, bool(biases), bool(way))
            outputs.append(output)
            states.append(state)
        y = torch.cat(outputs, -1)
    output = y.transpose(0, 1) if batch_first else y
    return placed(result[0], output), placed(result[1], torch.stack(states))


class OtherWeights(torch.autograd.Function):
    """A convolution with the gradients of weights that an upstream gradient makes which is read as
    if its channels were inside."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, weight: Tensor, again: Any) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.again = again
        return out.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        upstream = gradients[0]
        batch, channels, length = upstream.shape
        read = upstream.contiguous().reshape(batch, length, channels).transpose(1, 2)
        with torch.enable_grad():
            weight = ctx.saved_tensors[0].detach().requires_grad_()
            (wrong,) = torch.autograd.grad(ctx.again(weight), weight, read)
        return upstream, wrong, None


@reported(
    "intel/torch-xpu-ops#4906",
    "XPU",
    ".conv1d",
    "of one channel a group and one number a channel, with a stride other than 1, the gradient of "
    "the weights is that of an upstream gradient which is read as if its channels were inside",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def upstream_gradient_with_channels_inside(call: Call) -> Any:
    x, weight = first(call), call.given("weight", 1, None)
    if not is_one_of(x, torch.float32) or x.ndim != 3 or not isinstance(weight, Tensor):
        return call.run()
    groups = call.given("groups", 6, 1)
    if groups == 1 or groups != x.shape[1] or x.shape[2] != 1 or x.stride(2) == 1:
        return call.run()
    if not weight.requires_grad or not x.numel():
        return call.run()

    def again(other: Tensor) -> Any:
        return with_given(with_given(call, "input", 0, x.detach()), "weight", 1, other).run()

    result = with_given(call, "weight", 1, weight.detach()).run()
    return OtherWeights.apply(result, weight, again)
