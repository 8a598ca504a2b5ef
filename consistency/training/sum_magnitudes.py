"""Magnitudes of sums, which scale the perturbation of replicas beyond half an ulp of the result.

A sum with cancellation errs by more than half an ulp of itself, such as the gradient of a bias in
front of a batch norm, which is 0. One number for all elements of a result suffices: n · mean|a| ·
mean|b| for sums of n products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..core.trees import flatten

# × u·Σ|terms|: the error of a sequential sum in random order (reference.rounding_variance); a
# blocked sum has a smaller one.
SHARE = 0.2


def _mean(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor, 1)) / max(tensor.numel(), 1)


def _product(a: int) -> Callable[..., list[float]]:
    """For a matrix product of arguments ``a`` and ``a + 1``."""

    def size(args: Sequence[Any], out: Any) -> list[float]:
        left, right = args[a], args[a + 1]
        return [left.shape[-1] * _mean(left) * _mean(right)]

    return size


def _convolution(args: Sequence[Any], out: Any) -> list[float]:
    x, weight, transposed, groups = args[0], args[1], args[6], args[8]
    terms = weight[:, 0].numel() / groups if transposed else weight[0].numel()
    return [terms * _mean(x) * _mean(weight)]


def _convolution_backward(args: Sequence[Any], out: Any) -> list[float]:
    gradient, x, weight = args[:3]
    mean_gradient, positions = _mean(gradient), gradient.numel() / max(gradient.shape[1], 1)
    return [
        weight[:, 0].numel() * mean_gradient * _mean(weight),
        positions * mean_gradient * _mean(x),
        positions * mean_gradient,
    ]


def _sum(args: Sequence[Any], out: Any) -> list[float]:
    x = args[0]
    if not isinstance(x, torch.Tensor) or not isinstance(out, torch.Tensor) or not out.numel():
        return [0.0]
    return [x.numel() / out.numel() * _mean(x)]


def _mean_of(args: Sequence[Any], out: Any) -> list[float]:
    return [_mean(args[0])]


_SIZES: dict[str, Callable[..., list[float]]] = {
    "mm": _product(0), "bmm": _product(0), "mv": _product(0), "dot": _product(0),
    "addmm": _product(1), "baddbmm": _product(1),
    "addmv": _product(1), "convolution": _convolution,
    "convolution_backward": _convolution_backward, "sum": _sum, "mean": _mean_of,
}  # fmt: skip


def sizes(base: str, args: Sequence[Any], out: Any) -> list[float] | None:
    """Σ|terms| of each returned tensor; None if nothing is known to be summed."""
    size_function = _SIZES.get(base)
    if size_function is None or not all(
        t.is_floating_point() for t in flatten([args, out]) if isinstance(t, torch.Tensor)
    ):
        return None
    return size_function(args, out)
