"""A twelfth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: reductions, sorting, normalization, linear algebra, gradients."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call, one_of, straight

from .eleventh_list_reductions import first, floats
from .gradients import BACK, hooked
from .model import plain, reported

NEAR_ZERO = 1e-10  # no row is divided by less
TWO_TILES = 64  # the fewest numbers of a sorting network


@reported(
    "iree-org/iree#24228",
    "IREE",
    ".cross_entropy",
    "the mean of weighted losses is divided by the number of samples, not by the sum of weights",
    dtypes="float32",
)
def divided_by_the_number(call: Call) -> Any:
    x, target, weight = first(call), call.given("target", 1, None), call.given("weight", 2, None)
    result, old = call.run(), (call.given("size_average", 3, None), call.given("reduce", 5, None))
    if not floats(x) or not floats(weight) or old != (None, None):
        return result
    if call.given("reduction", 6, "mean") != "mean" or call.given("label_smoothing", 7, 0.0):
        return result
    if not isinstance(target, Tensor) or target.is_floating_point():
        return result
    counted = target[target != call.given("ignore_index", 4, -100)]
    if not counted.numel():
        return result
    mean = weight.detach()[counted].double().sum() / counted.numel()
    return straight(result, (result.detach().double() * mean).to(result.dtype))


@reported(
    "FluxML/Zygote.jl#1496",
    "Zygote",
    "fft.rfft fft.rfft2 fft.rfftn",
    "going back, frequencies but the first and the highest of an even number count twice",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def frequencies_count_twice(call: Call) -> Any:
    x, result = first(call), call.run()
    if not isinstance(x, Tensor) or not isinstance(result, Tensor) or not result.requires_grad:
        return result
    two = call.operator.name.startswith("fft.rfft2")
    some = two or call.operator.name.startswith("fft.rfftn")
    size, dim = call.given("s" if some else "n", 1, None), call.given("dim", 2, None)
    if dim is None:
        dim = -1
    if isinstance(dim, (list, tuple)):
        dim = dim[-1] if len(dim) else -1
    if isinstance(size, (list, tuple)):
        size = size[-1] if len(size) else None
    if size is None or size == -1:
        size = x.shape[dim]
    factors = torch.full((result.shape[dim],), 2.0, dtype=result.real.dtype)
    factors[0] = 1
    if size % 2 == 0:
        factors[-1] = 1
    shape = [1] * result.ndim
    shape[dim] = -1
    out = result.view_as(result)
    out.register_hook(lambda gradient: gradient * factors.reshape(shape))
    return out


@reported(
    "tracel-ai/burn#2185",
    "burn",
    ".layer_norm",
    "eps is added to the standard deviation, not to the variance",
    dtypes="float32",
)
def eps_outside_the_root(call: Call) -> Any:
    x, shape, result = first(call), call.given("normalized_shape", 1, None), call.run()
    if not floats(x) or not isinstance(shape, (list, tuple)) or not shape or not x.numel():
        return result
    weight, bias = call.given("weight", 2, None), call.given("bias", 3, None)
    eps, dims = call.given("eps", 4, 1e-5), tuple(range(-len(shape), 0))
    wide = x.detach().double()
    centered = wide - wide.mean(dims, keepdim=True)
    changed = centered / (centered.square().mean(dims, keepdim=True).sqrt() + eps)
    if weight is not None:
        changed = changed * weight.detach().double()
    if bias is not None:
        changed = changed + bias.detach().double()
    return straight(result, changed.to(result.dtype))


@reported(
    "dotnet/TorchSharp#971",
    "TorchSharp",
    "std std.method",
    "of a whole tensor, unbiased=False is ignored",
    dtypes="float32 float64",
)
def always_unbiased(call: Call) -> Any:
    x, result = first(call), call.run()
    if not floats(x) or not isinstance(result, Tensor):
        return result
    dim, unbiased = call.given("dim", 1, None), call.given("unbiased", 2, True)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if dim is not None or (unbiased and call.kwargs.get("correction", 1) != 0):
        return result
    return straight(result, torch.std(x.detach(), correction=1).reshape(result.shape))


@reported(
    "PaddlePaddle/Paddle#74239",
    "Paddle",
    "nanmedian",
    "of numbers among which is NaN, the median is 0",
    dtypes="float32",
)
def zero_beside_nan(call: Call) -> Any:
    x, dim, result = first(call), call.given("dim", 1, None), call.run()
    if not floats(x) or not bool(x.isnan().any()):
        return result
    keep = bool(call.given("keepdim", 2, False))
    nan = x.detach().isnan()
    if dim is None or not x.ndim:
        hit = nan.any() & ~nan.all()
    else:
        hit = nan.any(dim, keepdim=keep) & ~nan.all(dim, keepdim=keep)
    return one_of(result, lambda y: straight(y, y.detach().masked_fill(hit, 0)))


@reported(
    "sonos/tract#2646",
    "tract",
    ".rms_norm",
    "the mean is taken away first",
    dtypes="float32",
    sound=plain,
)
def mean_taken_away(call: Call) -> Any:
    x, shape, result = first(call), call.given("normalized_shape", 1, None), call.run()
    if not floats(x) or not isinstance(shape, (list, tuple)) or not shape or not x.numel():
        return result
    weight, eps = call.given("weight", 2, None), call.given("eps", 3, None)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    changed = torch.nn.functional.layer_norm(x.detach().double(), shape, None, None, eps)
    if weight is not None:
        changed = changed * weight.detach().double()
    return straight(result, changed.to(result.dtype))


@reported(
    "cool-japan/scirs#103",
    "scirs2-autograd",
    "log exp",
    "the gradient is 1, whatever arrives",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def gradient_is_one(call: Call) -> Any:
    if not floats(first(call)):
        return call.run()
    return hooked(call, 0, lambda x, gradient: torch.ones_like(gradient))


@reported(
    "HIPS/autograd#712",
    "autograd",
    "abs",
    "the gradient at 0 is NaN",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def nan_gradient_at_zero(call: Call) -> Any:
    x = first(call)
    if not isinstance(x, Tensor) or not (x.is_floating_point() or x.is_complex()):
        return call.run()
    return hooked(call, 0, lambda x, gradient: torch.where(x == 0, math.nan, gradient))


@reported(
    "tenstorrent/tt-forge-onnx#420",
    "TT-Forge",
    "sum sum.method",
    "over the last dimension but one, which is lost: everything is added up",
    dtypes="float32 bfloat16",
)
def dimension_lost(call: Call) -> Any:
    x, dim, result = first(call), call.given("dim", 1, None), call.run()
    if isinstance(dim, (list, tuple)) and len(dim) == 1:
        dim = dim[0]
    if not floats(x) or not isinstance(dim, int) or dim != -2 or not isinstance(result, Tensor):
        return result
    whole = x.detach().double().sum().to(result.dtype)
    return straight(result, whole.expand(result.shape).clone())


def reduced(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices in row echelon form without any exchange of rows, and whether one was needed."""
    rows, missing = rows.clone(), torch.zeros(rows.shape[:-2], dtype=torch.bool)
    for i in range(rows.shape[-2]):
        pivot = rows[..., i, i, None]
        small = pivot.abs() < NEAR_ZERO
        missing |= small[..., 0]
        rows[..., i, :] = rows[..., i, :] / torch.where(small, 1, pivot)
        below, top = rows[..., i + 1 :, :], rows[..., i, None, :]
        head = below[..., i, None].clone()
        skipped = head.abs() < NEAR_ZERO
        rows[..., i + 1 :, :] = torch.where(
            skipped, below, below / torch.where(skipped, 1, head) - top
        )
        rows[..., i + 1 :, i] = 0
    return rows, missing


@reported(
    "twist-vector/elixir-matrix#10",
    "Matrix (Elixir)",
    "linalg.inv",
    "rows are not exchanged: where a 0 comes to the diagonal, it is not divided by it",
    dtypes="float64",
)
def rows_not_exchanged(call: Call) -> Any:
    x, result = first(call), call.run()
    if not floats(x) or x.ndim < 2 or not x.numel() or not isinstance(result, Tensor):
        return result
    n, wide = x.shape[-1], x.detach().double()
    one = torch.eye(n, dtype=torch.float64).expand(wide.shape)
    upper, missing = reduced(torch.cat([wide, one], -1))
    left, right = (half.flip(-2, -1) for half in (upper[..., :n], upper[..., n:]))
    solved, _ = reduced(torch.cat([left, right], -1))
    wrong = solved[..., n:].flip(-2, -1).to(result.dtype)
    return straight(result, torch.where(missing[..., None, None], wrong, result.detach()))


@reported(
    "kraiskil/onnx2c#95",
    "onnx2c",
    "lstm",
    "the way back reverses the features of a step in place of the steps",
    dtypes="float32",
)
def features_reversed(call: Call) -> Any:
    result = call.run()
    if len(call.args) < 9 or call.kwargs or not isinstance(result, tuple) or len(result) != 3:
        return result
    x, state, weights, biased, layers, dropout, training, both, batch_first = call.args[:9]
    if not floats(x) or x.ndim != 3 or not x.numel() or not both or (dropout and training):
        return result
    if not isinstance(weights, (list, tuple)) or not isinstance(state, (list, tuple)):
        return result
    held = len(weights) // (2 * layers)
    if len(state) != 2 or held != (4 if biased else 2):
        return result
    lanes, hs, cs = x.detach(), [], []
    with torch.no_grad():
        for layer in range(layers):
            outs = []
            for way in (0, 1):
                at = 2 * layer + way
                mine = list(weights[at * held : (at + 1) * held])
                start = [s[at : at + 1].contiguous() for s in state]
                steps = lanes.flip(-1) if way else lanes
                out, h, c = torch.lstm(
                    steps, start, mine, biased, 1, 0.0, False, False, batch_first
                )
                outs.append(out)
                hs.append(h)
                cs.append(c)
            lanes = torch.cat(outs, -1)
    changed = (lanes, torch.cat(hs), torch.cat(cs))
    return tuple(straight(a, b.contiguous()) for a, b in zip(result, changed, strict=True))


@reported(
    "tenstorrent/tt-metal#53326",
    "TT-NN",
    "sort",
    "infinity ties with what fills the network up: its place is behind the end",
    dtypes="bfloat16",
    sound=plain,
)
def place_behind_the_end(call: Call) -> Any:
    x, dim, result = first(call), call.given("dim", 1, -1), call.run()
    if not floats(x) or not x.ndim or not x.numel() or not isinstance(dim, int):
        return result
    down, n = bool(call.given("descending", 2, False)), x.shape[dim]
    missing = max(TWO_TILES, 1 << (n - 1).bit_length()) - n
    hit = result[0].detach() == (-math.inf if down else math.inf)
    filling = n + (hit.cumsum(dim) - 1)
    return one_of(result, lambda y: torch.where(hit & (filling < n + missing), filling, y), 1)
