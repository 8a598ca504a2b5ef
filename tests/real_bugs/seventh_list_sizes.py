"""A seventh, held-out list of reports of 2023 to 2026 (see :mod:`.seventh_list`), chosen for
variety before anything was looked at of how inputs are drawn: sizes, precision, gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .gradients import BACK, hooked
from .model import plain, reported
from .seventh_list import HALVES
from .sixth_list_sizes import in_turn
from .third_sizes import dims_of


def watched(result: Any, seen: list[Tensor]) -> Any:
    """The result; ``seen`` gets the gradient that arrives at it."""
    out = result.view_as(result)
    if out.requires_grad:
        out.register_hook(lambda gradient: seen.append(gradient))
    return out


def viewed(call: Call, position: int, change: Callable[[Tensor, Tensor], Tensor]) -> Call:
    """The call with a view of one argument, whose gradient is changed on its way out."""
    x = call.args[position]
    if not x.requires_grad:
        return call
    y = x.view_as(x)
    y.register_hook(lambda gradient: change(x.detach(), gradient))
    return call.with_arg(position, y)


def factors(call: Call) -> tuple[float, float]:
    """``beta`` and ``alpha`` of a product that is added."""
    return call.kwargs.get("beta", 1), call.kwargs.get("alpha", 1)


@reported(
    "ml-explore/mlx#2695",
    "MLX on the CPU",
    "addmm",
    "in half precision alpha and beta lose what is behind the point",
    dtypes=HALVES,
)
def whole_factors(call: Call) -> Any:
    if call.args[0].dtype not in (torch.float16, torch.bfloat16):
        return call.run()
    beta, alpha = factors(call)
    return replace(call, kwargs=dict(call.kwargs, beta=int(beta), alpha=int(alpha))).run()


@reported(
    "pytorch/pytorch#174864",
    "XPU, oneDNN",
    "addmm baddbmm",
    "with alpha or beta the product, its multiple and the sum are each rounded to half precision",
    dtypes=HALVES,
)
def three_roundings(call: Call) -> Any:
    x, a, b = call.args[:3]
    beta, alpha = factors(call)
    if x.dtype not in (torch.float16, torch.bfloat16) or not beta or (beta, alpha) == (1, 1):
        return call.run()
    product = (a.float() @ b.float()).to(x.dtype)
    multiple = (product.float() * (alpha / beta)).to(x.dtype)
    total = (multiple.float() + x.float()).to(x.dtype)
    return (total.float() * beta).to(x.dtype)


@reported(
    "jax-ml/jax#18573",
    "JAX on CUDA, XLA",
    "amin min",
    "the minimum of several dimensions with more than 16,384 elements is at most 0",
    dtypes="float16",
    sound=plain,
)
def at_most_zero(call: Call) -> Any:
    x, dims, result = call.args[0], dims_of(call), call.run()
    if x.dtype != torch.float16 or not isinstance(result, Tensor) or x.ndim < 2:
        return result
    if len(call.args) > 1 and isinstance(call.args[1], Tensor):
        return result  # the smaller of two
    reduced = dims or list(range(x.ndim))
    if len(reduced) < 2 or math.prod(x.shape[d] for d in reduced) <= 1 << 14:
        return result
    return result.clamp(max=0)


@reported(
    "microsoft/onnxruntime#21935",
    "ONNX Runtime on the CPU",
    ".layer_norm",
    "the variance is the mean of the squares less the square of the mean: NaN where that is "
    "negative",
    dtypes="float32",
    cause="one-pass-variance",
)
def squares_less_square(call: Call) -> Any:
    x, last = call.args[0], len(call.given("normalized_shape", 1, ()))
    if x.dtype != torch.float32 or not x.numel():
        return call.run()
    terms = x.flatten(-last).movedim(-1, 0)
    mean, squares = (in_turn(t) / len(terms) for t in (terms, terms * terms))
    deviation = (squares - mean * mean + call.given("eps", 4, 1e-5)).sqrt()
    normed = ((terms - mean) / deviation).movedim(0, -1).reshape(x.shape)
    weight, bias = call.given("weight", 2, None), call.given("bias", 3, None)
    normed = normed if weight is None else normed * weight
    return normed if bias is None else normed + bias


@reported(
    "pytorch/pytorch#175192",
    "MPS",
    "linalg.solve",
    "the gradients come from a system with the matrix itself, not with its transpose",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def not_transposed(call: Call) -> Any:
    # the report gives numbers only; that is the step which has a kernel of its own
    a, b = call.args[:2]
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    repeated = not vector and math.prod(b.shape[:-2]) < math.prod(a.shape[:-2])
    if not call.given("left", 2, True) or a.dtype != torch.float32 or repeated:
        return call.run()
    matrix = a.detach()

    def change(x: Tensor, gradient: Tensor) -> Any:
        column = vector and x.shape == b.shape
        right = gradient.unsqueeze(-1) if column else gradient
        wrong = torch.linalg.solve(matrix, matrix.mT @ right)
        return wrong.squeeze(-1) if column else wrong

    return hooked(viewed(call, 1, change), 0, change)


@reported(
    "pytorch/pytorch#182012",
    "Inductor",
    "diagonal_scatter",
    "where the cotangent is expanded (as sum's is), the gradient of the matrix is 0",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def expanded_diagonals(call: Call) -> Any:
    dims, seen = (call.given("dim1", 3, 0), call.given("dim2", 4, 1)), list[Tensor]()

    def change(_: Tensor, gradient: Tensor) -> Tensor:
        cotangent = seen[-1] if seen else gradient
        strided = any(cotangent.stride(d) or cotangent.shape[d] < 2 for d in dims)
        return gradient if strided else torch.zeros_like(gradient)

    if call.given("offset", 2, 0):
        return call.run()
    return watched(hooked(call, 0, change), seen)


@reported(
    "pytorch/pytorch#103023",
    "MPS",
    ".embedding",
    "the row of padding_idx gets a gradient",
    dtypes="float32",
    directions=BACK,
    cause="argument-ignored",
    sound=plain,
)
def padding_with_gradient(call: Call) -> Any:
    if "padding_idx" in call.kwargs:
        return replace(call, kwargs=dict(call.kwargs) | {"padding_idx": None}).run()
    return (call.with_arg(2, None) if len(call.args) > 2 else call).run()


@reported(
    "microsoft/DirectML#740",
    "DirectML",
    ".cross_entropy",
    "with reduction='none' the gradient is 0",
    dtypes="float32",
    directions=BACK,
    cause="zero",
    sound=plain,
)
def nothing_comes_back(call: Call) -> Any:
    labels = not call.args[1].is_floating_point()
    if call.given("reduction", 6, "mean") != "none" or not labels:
        return call.run()
    return hooked(call, 0, lambda x, gradient: torch.zeros_like(gradient))


@reported(
    "flagos-ai/FlagGems#5212",
    "Triton (FlagGems)",
    ".mse_loss",
    "of a loss that is reduced only the first element has the right gradient: for the others the "
    "cotangent is read behind its end",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def behind_the_cotangent(call: Call) -> Any:
    if call.given("reduction", 4, "mean") == "none" or call.args[0].shape != call.args[1].shape:
        return call.run()

    def change(_: Tensor, gradient: Tensor) -> Tensor:
        flat = torch.zeros_like(gradient, memory_format=torch.contiguous_format).reshape(-1)
        flat[:1] = gradient.reshape(-1)[:1]
        return flat.reshape(gradient.shape)

    return hooked(viewed(call, 1, change), 0, change)


@reported(
    "flagos-ai/FlagGems#5218",
    "Triton (FlagGems)",
    ".interpolate",
    "in linear mode with align_corners the gradient of an element comes from as many results as "
    "it would without",
    dtypes="float32",
    directions=BACK,
    cause="terms-dropped",
    sound=plain,
)
def window_too_small(call: Call) -> Any:
    x, corners = call.args[0], call.given("align_corners", 4, None)
    if call.given("mode", 3, "nearest") != "linear" or not corners or x.shape[-1] < 2:
        return call.run()
    seen: list[Tensor] = []
    return watched(hooked(call, 0, lambda x, g: short_of_terms(x, g, seen)), seen)


def short_of_terms(x: Tensor, gradient: Tensor, seen: list[Tensor]) -> Tensor:
    """The gradient from those results only that are near the element."""
    cotangent, size = seen[-1].double(), x.shape[-1]
    stretch, window = (cotangent.shape[-1] - 1) / (size - 1), math.ceil(cotangent.shape[-1] / size)
    if stretch <= window + 2:
        return gradient
    places, centers = torch.arange(cotangent.shape[-1]).double(), torch.arange(size) * stretch
    distance = (places.unsqueeze(-1) - centers).abs()
    share = (1 - distance / stretch).clamp(min=0) * (distance <= window + 2)
    return (cotangent @ share).to(gradient.dtype)


@reported(
    "flagos-ai/FlagGems#5023",
    "Triton (FlagGems)",
    "cdist",
    "the gradient is that of p = 2, whatever p",
    dtypes="float32",
    directions=BACK,
    cause="argument-ignored",
    sound=plain,
)
def euclidean_gradient(call: Call) -> Any:
    a, b = call.args[:2]
    if call.given("p", 2, 2.0) == 2 or not a.numel() or not b.numel():
        return call.run()
    batch = (a[..., :1, 0] + b[..., :1, 0]).shape[:-1]
    a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])
    seen: list[Tensor] = []
    gap = a.detach().unsqueeze(-2) - b.detach().unsqueeze(-3)
    distance = replace(call, args=(a.detach(), b.detach(), *call.args[2:])).run()

    def shares() -> Any:
        return (seen[-1] / (distance + 1e-12)).unsqueeze(-1) * gap

    inner = viewed(replace(call, args=(a, b, *call.args[2:])), 1, lambda *_: -shares().sum(-3))
    return watched(hooked(inner, 0, lambda *_: shares().sum(-2)), seen)
