"""S of gradients that are formed from a rounded result, such as 1 − tanh²."""

from __future__ import annotations

from typing import Any

import torch

from .declare import ErrorModel
from .hooks import Tensors, hook


def gradient_of(step: Any) -> Any:
    """S of a gradient |cotangent|·step(x)·|f'(x)|, where ``step(x)`` is the relative error of f'.

    Where all digits are lost, as in 1 − y at y = 1, S is 1: no cotangent is larger. A complex
    gradient has its own modulus in S, too: a part errs by roundings of the other one.
    """

    @hook
    def magnitude(outputs: Tensors, x: Any, *_: Any, **__: Any) -> torch.Tensor:
        relative = step(x.detach()).abs() + float(outputs[0].is_complex())
        size = torch.nan_to_num(outputs[0].abs() * relative, nan=0.0, posinf=0.0)
        return torch.where(outputs[0] == 0.0, 1.0, size)

    return magnitude


def from_output(step: Any) -> ErrorModel:
    """Functions whose gradient is formed from their own rounded result, such as 1 - tanh²."""
    return ErrorModel("rounded", "pointwise", backward=gradient_of(step))


def one_minus_sigmoid(x: torch.Tensor) -> torch.Tensor:
    """The relative error of y·(1 − y)."""
    return 1 + torch.exp(x.clamp(max=300)) + x.abs()


def one_more_than_expm1(x: torch.Tensor) -> torch.Tensor:
    """The relative error of y + 1."""
    return (1 - torch.exp(-x)).abs() + torch.exp(-x).abs() + x.abs()


def one_minus_tanh_squared(x: torch.Tensor) -> torch.Tensor:
    """The relative error of 1 − y²."""
    return torch.cosh(x.clamp(-300, 300)) ** 2 + x.abs()


def sloping(step: Any, magnitude: str = "output") -> ErrorModel:
    """Functions of complex numbers whose gradient is formed from their own rounded result;
    ``step(x)`` is its relative error."""
    return ErrorModel("rounded", magnitude, backward=gradient_of(step))
