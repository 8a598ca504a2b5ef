"""Products of matrices and convolutions, checked without computing them once more: one random
combination of all rows is.

What a wrong element adds to the combination cannot vanish but by chance (Freivalds 1977: signs
decide), and the combination costs a fraction of the product: (A·B)·v is A·(B·v), and a convolution
of Σ v·image is Σ v·(its convolutions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..generate import bitstream

# (combination of what came out, the same in float64, L2 norm over what was combined, how many were
# added up in an element)
Combined = tuple[torch.Tensor, torch.Tensor, torch.Tensor, float]
SMALLEST = 1 << 16  # multiplications; below it float64 is as cheap
_COUNT = 1 << 13


def signs(count: int, turn: int) -> torch.Tensor:
    """±1 from the bitstream, as float64; others in every turn."""
    bits, _ = bitstream.window(count, _COUNT + count + 61 * (turn % 509))
    return torch.from_numpy((bits >> 40).astype("int64") & 1).to(torch.float64).mul_(2.0).sub_(1.0)


def combined(base: str, args: Sequence[Any], out: Any, turn: int) -> list[Combined] | None:
    """The combinations of a call's results; None for a call that is better computed as it is."""
    known = _KNOWN.get(base)
    return known(args, out, turn) if known is not None else None


def _matrices(at: int) -> Callable[..., list[Combined] | None]:
    """Of a product whose factors are arguments ``at`` and ``at + 1``; what is added to it comes
    first."""

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
    found: torch.Tensor = torch.linalg.vector_norm(tensor, 2, dim, keepdim=True)
    return found.to(torch.float64)


def _over(tensor: torch.Tensor, v: torch.Tensor, dim: int) -> torch.Tensor:
    """Σ v·slice along ``dim``, which stays with size 1. In the tensor's own precision, whose
    roundings the bound has room for."""
    found: torch.Tensor = torch.tensordot(tensor, v.to(tensor.dtype), ([dim], [0]))
    return found.unsqueeze(dim)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64)


def _convolution(args: Sequence[Any], out: Any, turn: int) -> list[Combined] | None:
    """Linear in the images, and in the filters: whichever leaves less to compute."""
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
        shifted = None if bias is None else (_wide(bias) @ v).reshape(1)
        want = call(
            _wide(x), _wide(_over(weight, v, 0)), shifted, *steps, transposed, padding, groups
        )
        return [(_wide(_over(out, v, 1)), want, _norm(out, 1), terms)]
    v = signs(x.shape[0], turn)
    shifted = None if bias is None else _wide(bias) * v.sum()
    want = call(_wide(_over(x, v, 0)), _wide(weight), shifted, *steps, transposed, padding, groups)
    return [(_wide(_over(out, v, 0)), want, _norm(out, 0), terms)]


def _convolution_backward(args: Sequence[Any], out: Any, turn: int) -> list[Combined] | None:
    """The input's gradient is linear in the images of the cotangent, and in the channels of the
    input, as the weight's is."""
    gradient, x, weight, _sizes, *steps, transposed, padding, groups, wanted = args
    if (
        x.ndim < 3
        or x.shape[0] < 2
        or transposed
        or groups != 1
        or gradient.numel() * weight[0].numel() < SMALLEST
    ):
        return None
    wide = _wide(gradient)
    call, rest = torch.ops.aten.convolution_backward, (*steps, transposed, padding, groups)
    found: list[Combined] = []
    images, channels = signs(x.shape[0], turn), signs(x.shape[1], turn + 1)
    few = torch.empty_like(x[:, :1], dtype=torch.float64)
    if wanted[0]:
        terms, pixels = float(weight[:, 0].numel()), math.prod(weight.shape[2:])
        if wide.numel() * pixels < wide.numel() // len(wide) * pixels + weight.numel():
            want = call(
                wide, few, _wide(_over(weight, channels, 1)), None, *rest, [True, False, False]
            )[0]
            found.append((_wide(_over(out[0], channels, 1)), want, _norm(out[0], 1), terms))
        else:
            like = torch.empty_like(x[:1], dtype=torch.float64)
            want = call(
                _over(wide, images, 0), like, _wide(weight), None, *rest, [True, False, False]
            )[0]
            found.append((_wide(_over(out[0], images, 0)), want, _norm(out[0], 0), terms))
    places = gradient.numel() / gradient.shape[1]
    if wanted[1]:
        like = torch.empty_like(weight[:, :1], dtype=torch.float64)
        want = call(wide, _wide(_over(x, channels, 1)), like, None, *rest, [False, True, False])[1]
        found.append((_wide(_over(out[1], channels, 1)), want, _norm(out[1], 1), places))
    if wanted[2]:
        dims = [d for d in range(gradient.ndim) if d != 1]
        got = _wide(out[2])
        size = wide.square().sum(dims).sqrt_()  # a bias in front of a batch norm has the gradient 0
        found.append((got, wide.sum(dims), torch.maximum(got.abs(), size), places))
    return found


_KNOWN: dict[str, Callable[..., list[Combined] | None]] = {
    "mm": _matrices(0), "bmm": _matrices(0), "addmm": _matrices(1), "baddbmm": _matrices(1),
    "convolution": _convolution, "convolution_backward": _convolution_backward,
}  # fmt: skip
