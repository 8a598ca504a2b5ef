"""One step of ``torch.optim``'s optimizers, by the algorithms in its documentation.

Arguments are those of ``step`` in :mod:`consistency.operators.optimizers`; ``foreach`` and
``fused`` choose an implementation, not the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor
Lists = list[list[Tensor]]


def _number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _gradient(parameter: Tensor, gradient: Tensor, weight_decay: float, maximize: bool) -> Tensor:
    g = -gradient if maximize else gradient
    return g + weight_decay * parameter if weight_decay else g


def _flatten(parameters: list[Tensor], *states: list[Tensor]) -> list[Tensor]:
    return [*parameters, *(x for state in states for x in state)]


def sgd(
    parameters: list[Tensor], gradients: list[Tensor], states: Lists, steps: int = 1, *,
    lr: float = 0.001, momentum: float = 0.0,
    dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False,
    maximize: bool = False, **how: Any,
) -> list[Tensor]:  # fmt: skip
    for i, (p, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        g = _gradient(p, gradient, weight_decay, maximize)
        if momentum:
            buffer = states[0][i]
            buffer.copy_(momentum * buffer + (1 - _number(dampening)) * g)
            g = g + momentum * buffer if nesterov else buffer
        p.copy_(p - lr * g)
    return _flatten(parameters, *states[: 1 if momentum else 0])


def adam(
    parameters: list[Tensor], gradients: list[Tensor], states: Lists, steps: int = 1, *,
    lr: float = 0.001,
    betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0,
    amsgrad: bool = False,
    maximize: bool = False, decoupled: bool = False, **how: Any,
) -> list[Tensor]:  # fmt: skip
    beta1, beta2 = map(_number, betas)
    correction1, correction2 = 1 - beta1 ** (steps + 1), 1 - beta2 ** (steps + 1)
    for i, (p, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        g = _gradient(p, gradient, 0.0 if decoupled else weight_decay, maximize)
        mean, square = states[0][i], states[1][i]
        decayed = p * (1 - _number(lr) * weight_decay) if decoupled else p
        mean.copy_(beta1 * mean + (1 - beta1) * g)
        square.copy_(beta2 * square + (1 - beta2) * g * g)
        if amsgrad:
            states[2][i].copy_(torch.maximum(states[2][i], square))
            square = states[2][i]
        p.copy_(decayed - lr * (mean / correction1) / (torch.sqrt(square / correction2) + eps))
    return _flatten(parameters, *states[: 3 if amsgrad else 2])


def adamw(*args: Any, weight_decay: float = 0.01, **options: Any) -> list[Tensor]:
    return adam(*args, weight_decay=weight_decay, decoupled=True, **options)


def rmsprop(
    parameters: list[Tensor], gradients: list[Tensor], states: Lists, steps: int = 1, *,
    lr: float = 0.01, alpha: float = 0.99,
    eps: float = 1e-8, weight_decay: float = 0.0, momentum: float = 0.0, maximize: bool = False,
    **how: Any,
) -> list[Tensor]:  # fmt: skip
    for i, (p, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        g = _gradient(p, gradient, weight_decay, maximize)
        square = states[0][i]
        square.copy_(alpha * square + (1 - _number(alpha)) * g * g)
        change = g / (torch.sqrt(square) + eps)
        if momentum:
            states[1][i].copy_(momentum * states[1][i] + change)
            change = states[1][i]
        p.copy_(p - lr * change)
    return _flatten(parameters, *states[: 2 if momentum else 1])


def adagrad(
    parameters: list[Tensor], gradients: list[Tensor], states: Lists, steps: int = 1, *,
    lr: float = 0.01, lr_decay: float = 0.0,
    weight_decay: float = 0.0, eps: float = 1e-10, maximize: bool = False, **how: Any,
) -> list[Tensor]:  # fmt: skip
    rate = _number(lr) / (1 + steps * _number(lr_decay))
    for i, (p, gradient) in enumerate(zip(parameters, gradients, strict=True)):
        g = _gradient(p, gradient, weight_decay, maximize)
        states[0][i].copy_(states[0][i] + g * g)
        p.copy_(p - rate * g / (torch.sqrt(states[0][i]) + eps))
    return _flatten(parameters, states[0])


_ALL = {"SGD": sgd, "Adam": adam, "AdamW": adamw, "RMSprop": rmsprop, "Adagrad": adagrad}
DEFINITIONS: dict[str, Callable[..., Any]] = {f"optim.{name}": of for name, of in _ALL.items()}
