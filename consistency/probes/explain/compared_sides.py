"""The two compared computations: a backend's operator, or a formula on that backend, each with its
summation order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...backends.base import Backend, TorchBackend
from ...backends.with_decomposition import DecomposedBackend
from ...core.model import Outcome
from ...diagnose.backend_rules import judgment
from ...errors import UsageError
from ...generate.materialize import Materials
from ...judge.compare import compare
from ...judge.judgment import Judgment
from ...operators.declare import Operator
from ...reference import Reference
from ...reference.own_steps import as_composed
from ...reference.recorded_steps import RecordedSteps, UntraceableError
from ..summation.operator_sums import layout_of
from ..summation.orders import Orders, orders_of
from ..summation.sums_in_operators import NotAskedError, Question
from ..sweep.expressions import Compiled
from .formula_on_backend import Routed


@dataclass(frozen=True)
class Side:
    """One computation of a case: its name in reports, its backend, and optionally a formula of the
    operator's arguments.

    A formula is judged by the roundings of its own steps, which may be more than the operator's.
    """

    name: str
    backend: Backend
    formula: Callable[..., Any] | None = None

    def run(self, operator: Operator, materials: Materials, dtype: str | None = None) -> Outcome:
        """Raises UsageError if there is no result."""
        outcome = self.backend.run(operator, materials, dtype=dtype)
        if not outcome.ok or not outcome.outputs or outcome.outputs[0].tensor is None:
            text = " ".join(f"{outcome.exception} {outcome.message}".split())[:200]
            raise UsageError(f"{self.name} gives no result: {outcome.status} {text}".rstrip())
        return outcome

    def tensor(
        self, operator: Operator, materials: Materials, dtype: str | None = None
    ) -> torch.Tensor:
        result = self.run(operator, materials, dtype).outputs[0].tensor
        assert result is not None
        return result

    def judged(
        self, operator: Operator, outcome: Outcome, reference: Reference, rules: Any
    ) -> Judgment:
        composed = (
            as_composed(self._formula_operator(operator), reference.materials)
            if self.formula is not None
            else None
        )
        if composed is not None:
            operator, reference = composed, Reference(composed, reference.materials, "forward")
        return judgment(
            operator, self.backend, "forward", None, reference, rules, compare(outcome, reference)
        )

    def _formula_operator(self, operator: Operator) -> Operator:
        return replace(
            operator, function=self.formula, reference=operator.reference or operator.callable
        )

    def roundings(self, operator: Operator, materials: Materials) -> tuple[str, ...]:
        """Torch's names of the steps that round; empty if the steps cannot be traced."""
        if self.formula is not None:
            operator = self._formula_operator(operator)
        try:
            return tuple(
                step.name
                for step in RecordedSteps(operator, materials, "forward").steps
                if step.rounds
            )
        except UntraceableError:
            return ()

    def orders(self, operator: Operator, materials: Materials) -> Orders:
        """The summation orders of this case on this side; inconclusive if they cannot be
        queried."""
        arguments = materials.build()
        args = tuple(arguments.args)
        try:
            layout = layout_of(operator.name, args, arguments.kwargs)
        except NotAskedError as error:
            return Orders(inconclusive=str(error))
        return orders_of(
            Question(self.backend, operator, materials.case.dtype, args, arguments.kwargs, layout)
        )


def sums_are_known(operator: Operator, materials: Materials) -> bool:
    """Whether the terms that each element adds up are known, so that probes can ask for their
    order."""
    arguments = materials.build()
    try:
        layout_of(operator.name, tuple(arguments.args), arguments.kwargs)
    except NotAskedError:
        return False
    return True


def by_formula(
    name: str, inner: Backend, formula: Compiled, arguments: Sequence[str], sizes: Mapping[str, int]
) -> Side:
    """A formula of an operator's arguments on ``inner``: run by torch itself on torch's backends,
    call by call on others."""

    def evaluate(*args: Any, **kwargs: Any) -> Any:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        return formula({**sizes, **dict(zip(arguments, tensors, strict=False)), **kwargs})

    if not isinstance(inner, TorchBackend) or not type(inner).__module__.startswith(
        "consistency.backends."
    ):
        return Side(name, Routed(inner, evaluate), evaluate)
    backend = DecomposedBackend(inner, lambda call, *args, **kwargs: evaluate(*args, **kwargs))
    backend.tolerance_key = inner.tolerance_key or inner.name
    return Side(name, backend, evaluate)
