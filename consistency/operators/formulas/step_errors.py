"""S of a formula: the change of its result when operands or results of its steps are slightly
perturbed, summed over the steps. For gradients, the steps are those of the formula in reverse."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..hooks import Args, Kwargs, Tensors
from .declaration import Formula, run
from .normalization import log_softmax, softmax

# A rounding of float32: where a response is quadratic, as that of the variance of equal numbers, a
# smaller step would show less than one rounding does.
_STEP = 2.0**-24
_PATTERNS = 3
_FEW = 4096  # numbers of a sequence that is kept: each is asked for by every backend
# Slopes that are differences of the rounded result, which cancel where it is near 1.
_SLOPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sigmoid": lambda y: y * (1.0 - y),
    "tanh": lambda y: 1.0 - y * y,
}
# Steps with roundings of their own between that cancel where the operands are constant.
_OF_STEPS: dict[str, Formula] = {"softmax": softmax, "log_softmax": log_softmax}


def stirred(value: torch.Tensor, salt: float) -> torch.Tensor:
    """Every number slightly perturbed, up or down by a fixed, aperiodic sequence."""
    return value * (1.0 + _STEP * signs(value.numel(), salt).reshape(value.shape))


@functools.lru_cache(256)
def _known_signs(count: int, salt: float) -> torch.Tensor:
    return _signs(count, salt)


def signs(count: int, salt: float) -> torch.Tensor:
    """A sequence of ±1 of this length, not to be written to."""
    return _known_signs(count, salt) if count <= _FEW else _signs(count, salt)


def _signs(count: int, salt: float) -> torch.Tensor:
    return (
        torch.frac(torch.arange(1, count + 1, dtype=torch.float64) * (2.0**0.5 + 0.1 * salt))
        .sub_(0.5)
        .sign_()
    )


class _Stirring:
    """Runs the steps of a formula with one operand or result perturbed: number ``chosen``, counted
    over all of them.

    Higher numbers are the gradients of these, in the same order. ``pattern`` selects the sequence:
    with few numbers, one of them may happen to cancel.
    """

    def __init__(self, chosen: int, last: int = 0, pattern: int = 0) -> None:
        self.chosen, self.last, self.pattern, self.seen = chosen, last, pattern, 0

    def touch(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self.touch(item) for item in value)
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        self.seen += 1
        return stirred(value, self._salt) if self.seen == self.chosen else self._hooked(value)

    @property
    def _salt(self) -> float:
        return self.seen + 0.37 * self.pattern

    def _hooked(self, value: torch.Tensor) -> torch.Tensor:
        if self.seen + self.last != self.chosen or not value.requires_grad:
            return value
        value, salt = (
            value.view_as(value),
            self._salt,
        )  # a hook on the argument itself would see the gradients of all uses
        value.register_hook(lambda gradient: stirred(gradient, salt))  # type: ignore[no-untyped-call]
        return value

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in _OF_STEPS:
            return _OF_STEPS[name](self, *args, **kwargs)
        touched = [self.touch(arg) for arg in args]
        result = run(name, *touched, **kwargs)
        if name not in _SLOPES or not result.requires_grad:
            return self.touch(result)
        rounded = self.touch(result.detach())  # the gradient is that of the rounded result
        return self._hooked(rounded + (touched[0] - touched[0].detach()) * _SLOPES[name](rounded))


def responses(evaluate: Callable[[_Stirring], list[torch.Tensor]], backward: bool) -> list[float]:
    """Per output: the sum of the largest responses to each step's operands and results (and
    gradients)."""
    counting = _Stirring(0)
    plain = evaluate(counting)
    totals = [0.0] * len(plain)
    for chosen in range(1, counting.seen * (1 + backward) + 1):
        largest = [0.0] * len(plain)
        for pattern in range(_PATTERNS):
            for i, moved in enumerate(evaluate(_Stirring(chosen, counting.seen, pattern))):
                response = torch.nan_to_num((moved - plain[i]).abs() / _STEP, posinf=0.0)
                largest[i] = max(largest[i], float(response.max()) if response.numel() else 0.0)
        totals = [a + b for a, b in zip(totals, largest, strict=True)]
    return totals


def of_steps(formula: Formula) -> Callable[..., Any]:
    """S: |result|, plus the sum of the largest responses to each step's operands and results."""

    def magnitude(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
        return outputs[0].abs() + responses(lambda how: [formula(how, *args, **kwargs)], False)[0]

    return magnitude


def of_gradients(formula: Formula) -> Callable[..., Any]:
    """S of gradients, whose own steps are those of the formula in reverse: taken against ±1, as
    much as a cotangent can be."""

    def magnitude(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[torch.Tensor]:
        with torch.enable_grad():
            leaves: list[torch.Tensor] = []
            tracked = _tracking(args, leaves)

            def gradients(how: _Stirring) -> list[torch.Tensor]:
                # What only moves numbers forward sums gradients: so arguments and result are
                # stirred, too.
                result = how.touch(formula(how, *how.touch(tracked), **kwargs))
                against = signs(result.numel(), 0.5).reshape(result.shape)
                computed = torch.autograd.grad(result, leaves, against, allow_unused=True)
                return [
                    torch.zeros_like(leaf) if one is None else one
                    for leaf, one in zip(leaves, computed, strict=True)
                ]

            moved = responses(gradients, True)
        return [output.abs() + total for output, total in zip(outputs, moved, strict=True)]

    return magnitude


def _tracking(value: Any, leaves: list[torch.Tensor]) -> Any:
    """The arguments with fresh leaves in place of floating tensors, in their order."""
    if isinstance(value, (list, tuple)):
        return type(value)(_tracking(item, leaves) for item in value)
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    leaves.append(value.detach().requires_grad_(True))
    return leaves[-1]


def longest(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n: numbers that go in for each that comes out."""
    into = max((arg.numel() for arg in args if isinstance(arg, torch.Tensor)), default=1)
    return max(
        into / max(outputs[0].numel(), 1),
        *(float(a.shape[-1]) for a in args if isinstance(a, torch.Tensor) and a.ndim),
        1.0,
    )
