"""The two that are compared: a backend's own operator, or a formula on it, each with the order in
which it adds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...backends.base import Backend, TorchBackend
from ...backends.with_decomposition import DecomposedBackend
from ...core.model import Outcome
from ...diagnose.evaluation import judgment
from ...errors import UsageError
from ...generate.materialize import Materials
from ...judge.compare import compare
from ...judge.judge import Judgment
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
    """One way to compute a case: how it is called in sentences, who computes it, and by which
    formula of the operator's arguments.

    A formula is judged by the roundings of its own steps, of which it may have more than the
    operator.
    """

    name: str
    backend: Backend
    formula: Callable[..., Any] | None = None

    def run(self, operator: Operator, materials: Materials, dtype: str | None = None) -> Outcome:
        """Raises UsageError where nothing comes back."""
        outcome = self.backend.run(operator, materials, dtype=dtype)
        if not outcome.ok or not outcome.outputs or outcome.outputs[0].tensor is None:
            text = " ".join(f"{outcome.exception} {outcome.message}".split())[:200]
            raise UsageError(f"{self.name} gives no result: {outcome.status} {text}".rstrip())
        return outcome

    def tensor(
        self, operator: Operator, materials: Materials, dtype: str | None = None
    ) -> torch.Tensor:
        found = self.run(operator, materials, dtype).outputs[0].tensor
        assert found is not None
        return found

    def judged(
        self, operator: Operator, outcome: Outcome, reference: Reference, rules: Any
    ) -> Judgment:
        own = (
            as_composed(self._computing(operator), reference.materials)
            if self.formula is not None
            else None
        )
        if own is not None:
            operator, reference = own, Reference(own, reference.materials, "forward")
        return judgment(
            operator, self.backend, "forward", None, reference, rules, compare(outcome, reference)
        )

    def _computing(self, operator: Operator) -> Operator:
        return replace(
            operator, function=self.formula, reference=operator.reference or operator.callable
        )

    def roundings(self, operator: Operator, materials: Materials) -> tuple[str, ...]:
        """The steps that round, by torch's own names of them; none where they cannot be
        followed."""
        if self.formula is not None:
            operator = self._computing(operator)
        try:
            return tuple(
                step.name
                for step in RecordedSteps(operator, materials, "forward").steps
                if step.rounds
            )
        except UntraceableError:
            return ()

    def orders(self, operator: Operator, materials: Materials) -> Orders:
        """In which order the sums of this case are added here; inconclusive where that cannot be
        asked."""
        arguments = materials.build()
        args = tuple(arguments.args)
        try:
            layout = layout_of(operator.name, args, arguments.kwargs)
        except NotAskedError as error:
            return Orders(inconclusive=str(error))
        return orders_of(
            Question(self.backend, operator, materials.case.dtype, args, arguments.kwargs, layout)
        )


def by_formula(
    name: str, inner: Backend, formula: Compiled, arguments: Sequence[str], sizes: Mapping[str, int]
) -> Side:
    """A formula of an operator's arguments, on ``inner``: of torch's own backends by torch itself,
    of others call by call."""

    def computed(*args: Any, **kwargs: Any) -> Any:
        return formula({**sizes, **dict(zip(arguments, args, strict=False)), **kwargs})

    if not isinstance(inner, TorchBackend) or not type(inner).__module__.startswith(
        "consistency.backends."
    ):
        return Side(name, Routed(inner, computed), computed)
    made = DecomposedBackend(inner, lambda call, *args, **kwargs: computed(*args, **kwargs))
    made.tolerance_key = inner.tolerance_key or inner.name
    return Side(name, made, computed)
