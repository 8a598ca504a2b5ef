"""S of gradients that are formed from a rounded result, such as 1 − tanh²."""

from __future__ import annotations

from typing import Any

import torch

from .declare import ErrorModel
from .hooks import Tensors, hook


def gradient_of(step: Any) -> Any:
    """S of a gradient |cotangent|·step(x)·|f'(x)|, with ``step(x)`` what was lost on the way,
    relative to f'.

    Where all of it was lost, as of 1 − y for a y of 1, S is 1: no cotangent is larger.
    """

    @hook
    def magnitude(outputs: Tensors, x: Any, *_: Any, **__: Any) -> torch.Tensor:
        size = torch.nan_to_num(outputs[0].abs() * step(x.detach()).abs(), nan=0.0, posinf=0.0)
        return torch.where(outputs[0] == 0.0, 1.0, size)

    return magnitude


def from_output(step: Any) -> ErrorModel:
    """Functions whose gradient is formed from their own rounded result, such as 1 - tanh²."""
    return ErrorModel("rounded", "pointwise", backward=gradient_of(step))


def one_minus_sigmoid(x: torch.Tensor) -> torch.Tensor:
    """What is lost of y·(1 − y), relative to it."""
    return 1 + torch.exp(x.clamp(max=300)) + x.abs()


def one_minus_tanh_squared(x: torch.Tensor) -> torch.Tensor:
    """What is lost of 1 − y², relative to it."""
    return torch.cosh(x.clamp(-300, 300)) ** 2 + x.abs()


def sloping(step: Any, magnitude: str = "output") -> ErrorModel:
    """Functions of complex numbers whose gradient is formed from their own rounded result, with
    ``step(x)`` what is lost on the way."""
    return ErrorModel("rounded", magnitude, backward=gradient_of(step))
