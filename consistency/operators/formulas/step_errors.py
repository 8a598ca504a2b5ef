"""S of a formula: the change of its result when operands or results of its steps are slightly
perturbed, summed over the steps. For gradients, the steps are those of the formula in reverse."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ...core.gradients import vector_jacobian_product
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


class _Steps:
    """Runs the steps of a formula and keeps them: ``values`` are their operands and results in
    order, each a tensor of its own, so that its gradient is that of this use alone; ``steps`` are
    the results, each with how many values there were after it."""

    def __init__(self) -> None:
        self.values: list[torch.Tensor] = []
        self.steps: list[tuple[int, Any]] = []

    def touch(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(self.touch(item) for item in value)
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        return self.touched(value)

    def touched(self, value: torch.Tensor) -> torch.Tensor:
        self.values.append(value.view_as(value) if value.requires_grad else value)
        return self.values[-1]

    def sloped(self, rounded: torch.Tensor) -> torch.Tensor:
        """A rounded result, whose gradient was added after it was touched."""
        self.values[-1] = rounded
        return rounded

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in _OF_STEPS:
            return _OF_STEPS[name](self, *args, **kwargs)
        result = self.step(name, *args, **kwargs)
        self.steps.append((len(self.values), result))
        return result

    def step(self, name: str, *args: Any, **kwargs: Any) -> Any:
        touched = [self.touch(arg) for arg in args]
        result = run(name, *touched, **kwargs)
        if name not in _SLOPES or not result.requires_grad:
            return self.touch(result)
        rounded = self.touch(result.detach())  # the gradient is that of the rounded result
        return self.sloped(rounded + (touched[0] - touched[0].detach()) * _SLOPES[name](rounded))


class _Stirring(_Steps):
    """Runs the steps again with one value perturbed, number ``chosen``; those before it are taken
    from ``kept``.

    ``pattern`` selects the sequence of signs: with few numbers, one of them may happen to cancel.
    """

    def __init__(self, chosen: int, pattern: int, kept: _Steps) -> None:
        super().__init__()
        self.chosen, self.pattern, self.kept, self.seen = chosen, pattern, iter(kept.steps), 0

    def touched(self, value: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return stirred(value, _salt(self.seen, self.pattern)) if self.seen == self.chosen else value

    def sloped(self, rounded: torch.Tensor) -> torch.Tensor:
        return rounded

    def __call__(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if name in _OF_STEPS:
            return _OF_STEPS[name](self, *args, **kwargs)
        after, result = next(self.kept)
        if after >= self.chosen:
            return self.step(name, *args, **kwargs)
        self.seen = after
        return result


def _salt(place: int, pattern: int) -> float:
    return place + 0.37 * pattern


Evaluate = Callable[[_Steps], list[torch.Tensor]]


def _largest(response: torch.Tensor | None) -> float:
    if response is None or not response.numel():
        return 0.0
    return float(torch.nan_to_num(response.abs(), posinf=0.0).max())


def responses(evaluate: Evaluate) -> list[float]:
    """Per output: the sum of the largest responses to each step's operands and results."""
    return _responses(evaluate, kept := _Steps(), evaluate(kept))


def _responses(evaluate: Evaluate, kept: _Steps, plain: list[torch.Tensor]) -> list[float]:
    totals = [0.0] * len(plain)
    for chosen in range(1, len(kept.values) + 1):
        moved = [evaluate(_Stirring(chosen, pattern, kept)) for pattern in range(_PATTERNS)]
        for i, before in enumerate(plain):
            totals[i] += max(_largest((after[i] - before) / _STEP) for after in moved)
    return totals


def _responses_to_gradients(
    kept: _Steps, result: torch.Tensor, against: torch.Tensor, leaves: list[torch.Tensor]
) -> list[float]:
    """Per leaf: the sum of the largest responses of its gradient to the gradient of each value,
    which is the gradient of ``result`` against this perturbation: what is linear needs no
    difference."""
    totals = [0.0] * len(leaves)
    values = [(i, value) for i, value in enumerate(kept.values, 1) if value.requires_grad]
    passed = _gradients(result, [value for _, value in values], against)
    for (place, value), gradient in zip(values, passed, strict=True):
        if gradient is None:
            continue
        moved = []
        for pattern in range(_PATTERNS):
            change = signs(gradient.numel(), _salt(place, pattern)).reshape(gradient.shape)
            moved.append(_gradients(value, leaves, gradient * change))
        for i, responses_of_leaf in enumerate(zip(*moved, strict=True)):
            totals[i] += max(map(_largest, responses_of_leaf))
    return totals


def _gradients(
    result: torch.Tensor, values: list[torch.Tensor], against: torch.Tensor
) -> tuple[torch.Tensor | None, ...]:
    return vector_jacobian_product(
        [result], values, [against], retain_graph=True, allow_unused=True
    )


def of_steps(formula: Formula) -> Callable[..., Any]:
    """S: |result|, plus the sum of the largest responses to each step's operands and results."""

    def magnitude(args: Args, kwargs: Kwargs, outputs: Tensors) -> torch.Tensor:
        return outputs[0].abs() + responses(lambda how: [formula(how, *args, **kwargs)])[0]

    return magnitude


def of_gradients(formula: Formula) -> Callable[..., Any]:
    """S of gradients, whose own steps are those of the formula in reverse: taken against ±1, as
    much as a cotangent can be."""

    def magnitude(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[torch.Tensor]:
        with torch.enable_grad():
            leaves: list[torch.Tensor] = []
            tracked = _tracking(args, leaves)

            def result(how: _Steps) -> torch.Tensor:
                # What only moves numbers forward sums gradients: so arguments and result are
                # stirred, too.
                computed: torch.Tensor = how.touch(formula(how, *how.touch(tracked), **kwargs))
                return computed

            def gradients(result: torch.Tensor) -> list[torch.Tensor]:
                computed = _gradients(result, leaves, against)
                return [
                    torch.zeros_like(leaf) if one is None else one
                    for leaf, one in zip(leaves, computed, strict=True)
                ]

            plain = result(kept := _Steps())
            against = signs(plain.numel(), 0.5).reshape(plain.shape).to(plain.dtype)
            of_values = _responses(lambda how: gradients(result(how)), kept, gradients(plain))
            of_gradients = _responses_to_gradients(kept, plain, against, leaves)
        moved = [a + b for a, b in zip(of_values, of_gradients, strict=True)]
        return [output.abs() + total for output, total in zip(outputs, moved, strict=True)]

    return magnitude


def _tracking(value: Any, leaves: list[torch.Tensor]) -> Any:
    """The arguments with fresh leaves in place of floating tensors, in their order."""
    if isinstance(value, (list, tuple)):
        return type(value)(_tracking(item, leaves) for item in value)
    if not isinstance(value, torch.Tensor):
        return value
    if not (value.is_floating_point() or value.is_complex()):
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
