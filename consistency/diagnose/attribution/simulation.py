"""Calls simulated in float64: with other inputs, other arguments, or another function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ...backends.base import collect
from ...core.model import Outcome, Output
from ...generate.materialize import Adjust, Arguments
from ...generate.memory_safety import writes_beyond
from ...operators.declare import UNCHECKED
from ...reference import Reference

Doubles = npt.NDArray[np.float64]
Predicted = Sequence[Output]


@dataclass(frozen=True, slots=True)
class FaultHypothesis:
    """A possible fault: its id, its description, and its simulation in float64.

    ``fitted`` is the number of parameters fitted to the result, which then needs more elements.
    """

    name: str
    words: str
    simulate: Callable[[], Predicted]
    fitted: int = 0


Hypotheses = Iterator[FaultHypothesis]


class Simulation:
    """The flagged output of one backend, and what the call gives in float64 when it is changed.

    ``observed`` are the backend's outputs, ``index`` and ``raw`` the flagged one among them;
    ``distinct`` is the number of its distinct wrong values: a single one could come from many
    changes.
    """

    distinct: int

    def __init__(self, reference: Reference, outcome: Outcome, output: str) -> None:
        self.reference, self.operator = reference, reference.operator
        self.backward = reference.direction == "backward"
        self.observed = reference.observed(outcome.outputs)
        names = [o.name for o in reference.outputs]
        self.index = names.index(output) if output in names else 0
        self.raw = self.observed[self.index].tensor if self.index < len(self.observed) else None

    def agrees_elsewhere(self, predicted: Predicted) -> bool:
        """Whether the call's other outputs are as predicted, where they are whole numbers."""
        for i, (simulated, observed) in enumerate(zip(predicted, self.observed, strict=False)):
            whole = observed.tensor is not None and not (
                observed.tensor.is_floating_point() or observed.tensor.is_complex()
            )
            if i != self.index and whole and simulated.tensor is not None:
                assert observed.tensor is not None
                if not torch.equal(simulated.tensor.to(observed.tensor.dtype), observed.tensor):
                    return False
        return True

    def with_inputs(self, adjust: Adjust) -> Predicted:
        """The outputs with inputs changed by ``adjust(base, position)`` (in backward also the
        cotangent); none if that changes nothing: float64 itself explains nothing."""
        changed = False

        def watched(base: torch.Tensor, position: int) -> torch.Tensor:
            nonlocal changed
            adjusted = adjust(base, position)
            changed = changed or not torch.equal(adjusted, base)
            return adjusted

        outputs = self.reference.evaluate(watched)
        return outputs if changed else ()

    def with_call(
        self, change: Callable[[Arguments], tuple[list[Any], dict[str, Any]]], function: Any = None
    ) -> Predicted:
        """The outputs of another call: ``change`` makes its arguments from float64 ones,
        ``function`` replaces the operator."""
        leaves = self.backward and self.operator.leaves
        arguments = self.reference.materials.build("float64", gradients=leaves)
        args, kwargs = change(arguments)
        if (
            function is None
            and UNCHECKED in self.operator.traits
            and not _as_safe((arguments.args, arguments.kwargs), (args, kwargs))
        ):
            raise ValueError(
                "a kernel that does not check its arguments is not given other sizes or positions"
            )
        if self.backward and function is None and writes_beyond(self.operator, args, kwargs):
            raise ValueError("a gradient would be written beyond its memory")
        called = function or self.operator.reference or self.operator
        return self.reference.observed(
            collect(lambda _a, _k: called(*args, **kwargs), self.operator, arguments, self.backward)
        )


def _as_safe(before: Any, after: Any) -> bool:
    """Whether two calls differ only in floating-point numbers and strings, so that an unchecked
    kernel computes the same addresses."""
    if isinstance(before, torch.Tensor) and isinstance(after, torch.Tensor):
        if before.shape != after.shape or before.dtype != after.dtype:
            return False
        return (
            before.dtype.is_floating_point
            or before.is_complex()
            or after is before
            or bool(torch.equal(before, after))
        )
    if isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        return len(before) == len(after) and all(map(_as_safe, before, after))
    if isinstance(before, dict) and isinstance(after, dict):
        values = {name: (before.get(name, value), value) for name, value in after.items()}
        return before.keys() <= after.keys() and all(_as_safe(*pair) for pair in values.values())
    if isinstance(before, (float, str)):
        return type(before) is type(after)
    return before is after or (type(before) is type(after) and bool(before == after))


def unchanged_call(arguments: Arguments) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as they are, for hypotheses that replace the function."""
    return list(arguments.args), dict(arguments.kwargs)


def flat(tensor: torch.Tensor) -> Doubles:
    """A tensor's numbers in float64, complex ones as pairs."""
    tensor = tensor.detach().resolve_conj()
    tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return np.ascontiguousarray(tensor.to(torch.float64).reshape(-1).numpy())
