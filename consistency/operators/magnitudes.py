"""Closed forms of S that several families share."""

from __future__ import annotations

from typing import Any

import torch

from .hooks import Args, Kwargs, Magnitude, Tensors, hook

_MANY = 1 << 10  # terms of a sum
_FEW_NUMBERS = 8  # of which √n and n hardly differ
FEW = 1 << 13  # numbers up to which the number of calls decides the time, not memory


def peak(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
    """For gradients that add up a few cotangents of at most 1, where moving an input may change
    which: twice the largest of all."""
    return tuple(2.0 * (largest(output) + 1.0) for output in outputs)


def of_cancelled(moduli: torch.Tensor, total: torch.Tensor) -> torch.Tensor:
    """Σ|eᶻ| ÷ |Σ eᶻ| of the logarithms of both: what a sum of complex exponentials loses by
    cancellation; 1 of real ones."""
    return torch.nan_to_num(torch.exp(moduli - total.real), nan=0.0, posinf=0.0)


def part_of_sum(share: bool = False) -> Magnitude:
    """Less than the S of a sum, or with ``share`` of a mean: that of the first half of its longest
    dim, of many terms the first quarter."""

    @hook
    def size(
        outputs: Tensors, x: torch.Tensor, dim: Any = None, keepdim: bool = False, **kwargs: Any
    ) -> torch.Tensor:
        dims = range(x.ndim) if dim is None or dim in ([], ()) else dim
        dims = [each % x.ndim for each in ([dims] if isinstance(dims, int) else dims)]
        longest = max(dims, key=lambda each: x.shape[each])
        terms = x.shape[longest]
        part = x.narrow(longest, 0, max(terms // (4 if terms >= _MANY else 2), 1))
        total = part.abs().sum(dims, keepdim)
        return total.mul_(total.numel() / x.numel()) if share else total

    return size


def joint_maximum(args: Args, kwargs: Kwargs, outputs: Tensors) -> Any:
    """Twice the largest element of all outputs together: for gradients of which one may vanish
    although its parts do not."""
    return 2.0 * max((largest(output) for output in outputs), default=0.0)


def largest(tensor: torch.Tensor) -> float:
    """The largest finite magnitude; 0 for an empty tensor."""
    return float(finite(tensor.abs()).max()) if tensor.numel() else 0.0


def repeats(x: torch.Tensor) -> bool:
    """Whether one of many numbers is more than a tenth of all, or fewer than a quarter are
    distinct: their roundings repeat, and add up."""
    if x.numel() <= _FEW_NUMBERS:
        return False
    parts = torch.view_as_real(x.resolve_conj()) if x.is_complex() else x
    counts = torch.unique(parts, return_counts=True)[1]
    return bool(counts.max() * 10 > x.numel() or 4 * counts.numel() < x.numel())


def finite(tensor: torch.Tensor) -> torch.Tensor:
    """Zeros in place of NaN and infinities, which are compared by kind and need no S."""
    return torch.nan_to_num(tensor, nan=0.0, posinf=0.0, neginf=0.0)
