"""Products of matrices and convolutions, checked by one random combination of all rows instead of
recomputing them.

A wrong element vanishes from the combination only by chance (Freivalds 1977, with random signs),
and the combination costs a fraction of the product: (A·B)·v is A·(B·v), and a convolution of Σ
v·image is Σ v·convolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..generate import bitstream

# (combination of the results, the same in float64, L2 norm over combined elements, terms per
# element)
Combined = tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]
SMALLEST = 1 << 16  # multiplications; below this float64 is as cheap
_COUNT = 1 << 13


def signs(count: int, turn: int) -> torch.Tensor:
    """±1 from the bitstream as float64; they vary with ``turn``."""
    bits, _ = bitstream.window(count, _COUNT + count + 61 * (turn % 509))
    return torch.from_numpy((bits >> 40).astype("int64") & 1).to(torch.float64).mul_(2.0).sub_(1.0)


def combined(base: str, args: Sequence[Any], out: Any, turn: int) -> list[Combined] | None:
    """Random combinations of a call's results; None if direct computation is better."""
    check = _CHECKS.get(base)
    return check(args, out, turn) if check is not None else None


def _matrix_product(at: int) -> Callable[..., list[Combined] | None]:
    """For a product of arguments ``at`` and ``at + 1``; an addend comes first."""

    def check(args: Sequence[Any], out: Any, turn: int) -> list[Combined] | None:
        left, right = args[at], args[at + 1]
        if left.shape[-1] * out.numel() < SMALLEST or out.shape[-1] < 8 or len(args) > at + 2:
            return None
        v = signs(out.shape[-1], turn)
        got = out.to(torch.float64)
        want = left.to(torch.float64) @ (right.to(torch.float64) @ v).unsqueeze(-1)
        if at:
            want = want + (args[0].to(torch.float64).expand(out.shape) @ v).unsqueeze(-1)
        return [((got @ v).unsqueeze(-1), want, _norm(got, -1), float(left.shape[-1]))]

    return check


def _norm(tensor: torch.Tensor, dim: int) -> torch.Tensor:
    norm: torch.Tensor = torch.linalg.vector_norm(tensor, 2, dim, keepdim=True)
    return norm.to(torch.float64)


def _combine(tensor: torch.Tensor, v: torch.Tensor, dim: int) -> torch.Tensor:
    """Σ v·slice along ``dim``, which keeps size 1. In the tensor's own precision, for which the
    bound has room."""
    combination: torch.Tensor = torch.tensordot(tensor, v.to(tensor.dtype), ([dim], [0]))
    return combination.unsqueeze(dim)


def _double(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64)


def _convolution(args: Sequence[Any], out: Any, turn: int) -> list[Combined] | None:
    """Linear in the images and in the filters: combines whichever is cheaper."""
    x, weight, bias, *steps, transposed, padding, groups = args
    if x.ndim < 3 or x.shape[0] < 2 or out.numel() * weight[0].numel() < SMALLEST:
        return None
    call, terms = torch.ops.aten.convolution, float(weight[0].numel())
    pixels = math.prod(weight.shape[2:])
    if (
        not transposed
        and groups == 1
        and x.numel() * pixels < x.numel() // x.shape[0] * pixels + weight.numel()
    ):
        v = signs(weight.shape[0], turn)
        shifted = None if bias is None else (_double(bias) @ v).reshape(1)
        want = call(
            _double(x),
            _double(_combine(weight, v, 0)),
            shifted,
            *steps,
            transposed,
            padding,
            groups,
        )
        return [(_double(_combine(out, v, 1)), want, _norm(out, 1), terms)]
    v = signs(x.shape[0], turn)
    shifted = None if bias is None else _double(bias) * v.sum()
    want = call(
        _double(_combine(x, v, 0)), _double(weight), shifted, *steps, transposed, padding, groups
    )
    return [(_double(_combine(out, v, 0)), want, _norm(out, 0), terms)]


def _convolution_backward(args: Sequence[Any], out: Any, turn: int) -> list[Combined] | None:
    """The input's gradient is linear in the images of the cotangent and in the input channels,
    the weight's in the latter."""
    gradient, x, weight, _sizes, *steps, transposed, padding, groups, output_mask = args
    if (
        x.ndim < 3
        or x.shape[0] < 2
        or transposed
        or groups != 1
        or gradient.numel() * weight[0].numel() < SMALLEST
    ):
        return None
    grad = _double(gradient)
    call, rest = torch.ops.aten.convolution_backward, (*steps, transposed, padding, groups)
    result: list[Combined] = []
    images, channels = signs(x.shape[0], turn), signs(x.shape[1], turn + 1)
    channel = torch.empty_like(x[:, :1], dtype=torch.float64)
    if output_mask[0]:
        terms, pixels = float(weight[:, 0].numel()), math.prod(weight.shape[2:])
        if grad.numel() * pixels < grad.numel() // len(grad) * pixels + weight.numel():
            want = call(
                grad,
                channel,
                _double(_combine(weight, channels, 1)),
                None,
                *rest,
                [True, False, False],
            )[0]
            result.append((_double(_combine(out[0], channels, 1)), want, _norm(out[0], 1), terms))
        else:
            template = torch.empty_like(x[:1], dtype=torch.float64)
            want = call(
                _combine(grad, images, 0),
                template,
                _double(weight),
                None,
                *rest,
                [True, False, False],
            )[0]
            result.append((_double(_combine(out[0], images, 0)), want, _norm(out[0], 0), terms))
    positions = gradient.numel() / gradient.shape[1]
    if output_mask[1]:
        template = torch.empty_like(weight[:, :1], dtype=torch.float64)
        want = call(
            grad, _double(_combine(x, channels, 1)), template, None, *rest, [False, True, False]
        )[1]
        result.append((_double(_combine(out[1], channels, 1)), want, _norm(out[1], 1), positions))
    if output_mask[2]:
        dims = [d for d in range(gradient.ndim) if d != 1]
        got = _double(out[2])
        size = grad.square().sum(dims).sqrt_()  # 0 for a bias before a batch norm
        result.append((got, grad.sum(dims), torch.maximum(got.abs(), size), positions))
    return result


_CHECKS: dict[str, Callable[..., list[Combined] | None]] = {
    "mm": _matrix_product(0), "bmm": _matrix_product(0),
    "addmm": _matrix_product(1), "baddbmm": _matrix_product(1),
    "convolution": _convolution, "convolution_backward": _convolution_backward,
}  # fmt: skip
