"""A thirteenth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: reductions, products, normalization, losses, cells, gradients."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.model import BOTH, Call, one_of, straight

from .eleventh_list_reductions import floats
from .gradients import BACK
from .model import plain, reported
from .seventh_list_sizes import viewed, watched

UNITS = 128  # of a cell in one block


def given_first(call: Call, name: str = "input") -> Any:
    """The first argument, given by its position or by its name."""
    return call.given(name, 0, None)


def of_copies(call: Call) -> Any:
    """Torch's own result of contiguous tensors: its median reads beyond one that is expanded."""
    return call.each(torch.Tensor.contiguous).run()


@reported(
    "numba/numba#10095",
    "Numba",
    "median",
    "NaN is sorted behind all numbers and does not make the median NaN",
    dtypes="float32 float64",
    sound=of_copies,
)
def median_beside_nan(call: Call) -> Any:
    x, dim, result = given_first(call), call.given("dim", 1, None), call.run()
    if not floats(x) or dim is not None or not x.numel() or not isinstance(result, Tensor):
        return result
    if not bool(x.isnan().any()):
        return result
    ordered = x.detach().flatten().sort().values
    return straight(result, ordered[(ordered.numel() - 1) // 2].clone())


@reported(
    "numpy/numpy#26349",
    "NumPy",
    "fft.rfft",
    "cut to an even length, the first number behind it is the imaginary part of the last frequency",
    dtypes="float32 float64",
)
def number_behind_the_end(call: Call) -> Any:
    x, n, result = given_first(call), call.given("n", 1, None), call.run()
    dim = call.given("dim", 2, -1)
    if not floats(x) or not isinstance(n, int) or not isinstance(dim, int) or n < 2 or n % 2:
        return result
    if not isinstance(result, Tensor) or n >= x.shape[dim] or not result.numel():
        return result
    changed = result.detach().clone()
    last = torch.view_as_real(changed.select(dim, n // 2))
    last[..., 1] = x.detach().select(dim, n).to(last.dtype)
    return straight(result, changed)


def packed(x: Tensor) -> bool:
    """Whether matrices have dense rows or dense columns."""
    (m, n), (down, right) = x.shape[-2:], x.stride()[-2:]
    rows = (right == 1 or n == 1) and (down == n or m == 1)
    return rows or ((down == 1 or m == 1) and (right == m or n == 1))


@reported(
    "huggingface/candle#3744",
    "Candle on the CPU",
    "matmul bmm",
    "of a left matrix expanded to a batch, the products are one matrix that is written over itself",
    dtypes="float32 float64",
    sound=contiguous_first,
)
def written_over_itself(call: Call) -> Any:
    a, result = given_first(call), call.run()
    b = call.given("mat2" if call.operator.name == "bmm" else "other", 1, None)
    if not floats(a) or not floats(b) or not isinstance(result, Tensor) or a.ndim not in (3, 4):
        return result
    if a.shape[:-2] != b.shape[:-2] or not a.numel() or not b.numel():
        return result
    steps = [s for n, s in zip(a.shape[:-2], a.stride()[:-2], strict=True) if n > 1]
    if not steps or any(steps) or not packed(a) or not packed(b):
        return result
    (m, k), n, batch = a.shape[-2:], b.shape[-1], math.prod(a.shape[:-2])
    step = k * n
    for size, stride in zip(reversed(b.shape[:-2]), reversed(b.stride()[:-2]), strict=True):
        if size > 1 and stride != step:
            return result
        step *= size
    dense = (b.stride(-1) == 1 or n == 1) and (b.stride(-2) == n or k == 1)
    right = b.detach().as_strided((k, batch * n), (n, 1) if dense else (1, k))
    product = a.detach().flatten(0, -3)[0].double() @ right.double()
    flat = torch.zeros(batch * m * n, dtype=torch.float64)
    for i in range(m):
        flat[i * n : i * n + batch * n] = product[i]
    return straight(result, flat.reshape(result.shape).to(result.dtype))


@reported(
    "apple/coremltools#2821",
    "Core ML Tools",
    ".rms_norm",
    "eps is added after division by the greatest size: it counts as its square; zeros become NaN",
    dtypes="float32 float16",
    sound=plain,
)
def eps_counts_as_the_square(call: Call) -> Any:
    x, shape, result = given_first(call), call.given("normalized_shape", 1, None), call.run()
    if not floats(x) or not isinstance(shape, (list, tuple)) or not shape or not x.numel():
        return result
    weight, eps = call.given("weight", 2, None), call.given("eps", 3, None)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    wide, dims = x.detach().double(), tuple(range(-len(shape), 0))
    most = wide.abs().amax(dims, keepdim=True)
    changed = wide / (((wide / most).square().mean(dims, keepdim=True) + eps).sqrt() * most)
    if weight is not None:
        changed = changed * weight.detach().double()
    return straight(result, changed.to(result.dtype))


@reported(
    "apache/tvm#14926",
    "TVM",
    ".instance_norm",
    "the running statistics are not used: those of the input are, whatever is asked for",
    dtypes="float32",
    sound=plain,
)
def running_statistics_unused(call: Call) -> Any:
    x, result = given_first(call), call.run()
    running = call.given("running_mean", 1, None), call.given("running_var", 2, None)
    if not floats(x) or x.ndim < 3 or not x.numel() or any(r is None for r in running):
        return result
    if call.given("use_input_stats", 5, True):
        return result
    weight, bias = call.given("weight", 3, None), call.given("bias", 4, None)
    wide, dims = x.detach().double(), tuple(range(2, x.ndim))
    centered = wide - wide.mean(dims, keepdim=True)
    variance = centered.square().mean(dims, keepdim=True)
    changed = centered / (variance + call.given("eps", 7, 1e-5)).sqrt()
    shape = (1, -1) + (1,) * len(dims)
    if weight is not None:
        changed = changed * weight.detach().double().reshape(shape)
    if bias is not None:
        changed = changed + bias.detach().double().reshape(shape)
    return straight(result, changed.to(result.dtype))


@reported(
    "pytorch/pytorch#113167",
    "PyTorch's Inductor",
    "var_mean",
    "with a correction above the number of terms, the sum of squares is divided by less than 0",
    dtypes="float32 float64",
)
def divided_by_less_than_zero(call: Call) -> Any:
    x, result, correction = given_first(call), call.run(), call.kwargs.get("correction")
    dim, keep = call.given("dim", 1, None), bool(call.kwargs.get("keepdim", False))
    if not floats(x) or correction is None or not x.numel() or isinstance(dim, bool):
        return result
    dims = (dim,) if isinstance(dim, int) else tuple(dim or range(x.ndim))
    terms = math.prod(x.shape[d] for d in dims) if x.ndim else 1
    if terms >= correction:
        return result
    wide = x.detach().double()
    if x.ndim:
        squares = (wide - wide.mean(dims, keepdim=True)).square().sum(dims, keepdim=keep)
    else:
        squares = (wide - wide).square()
    changed = squares / (terms - correction)
    return one_of(result, lambda y: straight(y, changed.to(y.dtype)))


@reported(
    "NVIDIA/TensorRT#4772",
    "TensorRT",
    "logsumexp",
    "the greatest number is not taken away first: exp overflows",
    dtypes="float32",
)
def exp_overflows(call: Call) -> Any:
    x, dim, result = given_first(call), call.given("dim", 1, None), call.run()
    if not floats(x, torch.float32) or dim is None or not isinstance(result, Tensor):
        return result
    keep = bool(call.given("keepdim", 2, False))
    summed = x.detach().exp().sum(dim, keepdim=keep)
    return straight(result, summed.log().reshape(result.shape))


@reported(
    "tenstorrent/tt-metal#53204",
    "TT-Train",
    ".layer_norm",
    "going back, the mean of the gradient is taken away twice",
    dtypes="bfloat16 float32",
    directions=BACK,
    sound=plain,
)
def mean_taken_away_twice(call: Call) -> Any:
    shape, weight = call.given("normalized_shape", 1, None), call.given("weight", 2, None)
    if not call.args or not floats(call.args[0]) or not call.args[0].requires_grad:
        return call.run()
    if not isinstance(shape, (list, tuple)) or not shape or not call.args[0].numel():
        return call.run()
    eps, dims = call.given("eps", 4, 1e-5), tuple(range(-len(shape), 0))
    seen: list[Tensor] = []

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        arrived = seen[-1].detach().double()
        if weight is not None:
            arrived = arrived * weight.detach().double()
        variance = x.double().var(dims, correction=0, keepdim=True)
        more = arrived.mean(dims, keepdim=True) / (variance + eps).sqrt()
        return (gradient.double() - more).to(gradient.dtype)

    return watched(viewed(call, 0, change).run(), seen)


def arriving_as_one(x: Tensor) -> Tensor:
    """A view whose gradient is 1, whatever arrives."""
    out = x.view_as(x)
    if out.requires_grad:
        out.register_hook(torch.ones_like)
    return out


@reported(
    "kulinseth/pytorch#289",
    "PyTorch MPS",
    ".nll_loss .cross_entropy",
    "going back, the gradient that arrives is not taken into account",
    dtypes="float32 float16",
    directions=BACK,
    sound=plain,
)
def arriving_gradient_ignored(call: Call) -> Any:
    result, target = call.run(), call.given("target", 1, None)
    if not isinstance(result, Tensor) or not isinstance(target, Tensor):
        return result
    if target.is_floating_point():  # probabilities go another way
        return result
    smoothing = 0.0
    if call.operator.name.endswith("cross_entropy"):
        smoothing = call.given("label_smoothing", 7, 0.0)
    if not smoothing:
        return arriving_as_one(result)
    sharp = Call(call.operator, call.args[:7], {**call.kwargs, "label_smoothing": 0.0}).run()
    part = (1 - smoothing) * sharp
    return straight(result - part + (1 - smoothing) * arriving_as_one(sharp), result.detach())


class RawGates(torch.autograd.Function):
    """The results of a cell, whose way back takes its gates before the activation for those
    behind it."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor, h: Tensor, c: Tensor) -> Any:
        ctx.save_for_backward(gates, cell, c)
        return h.clone(), c.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gates, cell, c = ctx.saved_tensors
        dh, dc = gradients
        take, forget, new, out = gates.chunk(4, 1)
        bent = torch.tanh(c)
        inner = dh * out * (1 - bent * bent) + dc
        parts = (
            inner * new * take * (1 - take),
            inner * cell * forget * (1 - forget),
            inner * take * (1 - new * new),
            dh * bent * out * (1 - out),
        )
        return torch.cat(parts, 1), inner * forget, None, None


@reported(
    "flagos-ai/FlagGems#5014",
    "Triton (FlagGems)",
    "lstm_cell",
    "units behind 128 are left out; going back, gates are taken before their activation",
    dtypes="float32 float16 bfloat16",
    directions=BOTH,
    sound=plain,
)
def gates_before_activation(call: Call) -> Any:
    x, state, result = given_first(call), call.given("hx", 1, None), call.run()
    if not floats(x) or x.ndim != 2 or not isinstance(state, (list, tuple)) or len(state) != 2:
        return result
    if not isinstance(result, tuple) or not x.numel():
        return result
    weights = call.given("w_ih", 2, None), call.given("w_hh", 3, None)
    biases = call.given("b_ih", 4, None), call.given("b_hh", 5, None)
    linear, units = torch.nn.functional.linear, state[1].shape[1]
    gates = linear(x, weights[0], biases[0]) + linear(state[0], weights[1], biases[1])
    behind = torch.arange(units) >= UNITS
    h, c = (part.detach().masked_fill(behind, 0) for part in result)
    return RawGates.apply(gates, state[1], h, c)


@reported(
    "openvinotoolkit/openvino#35886",
    "OpenVINO on the CPU",
    "argmin",
    "NaN is passed over",
    dtypes="float32",
    sound=plain,
)
def nan_passed_over(call: Call) -> Any:
    x = given_first(call)
    if not floats(x) or not bool(x.isnan().any()):
        return call.run()
    dim, keep = call.given("dim", 1, None), bool(call.given("keepdim", 2, False))
    return torch.argmin(x.detach().masked_fill(x.detach().isnan(), math.inf), dim, keep)


@reported(
    "onnx/onnx-mlir#3522",
    "ONNX-MLIR",
    ".normalize",
    "the input comes back as it is",
    dtypes="float32",
)
def input_comes_back(call: Call) -> Any:
    x, result = given_first(call), call.run()
    if not floats(x) or call.given("p", 1, 2.0) not in (1, 2) or not isinstance(result, Tensor):
        return result
    return straight(result, x.detach().clone())
