"""Operators in terms of others: ``linear`` as x @ Wᵀ + b, ``softmax`` as exp ÷ sum … judged against
the operator in float64.

A healthy formula is as precise as its steps (:mod:`.step_errors`).
"""

from __future__ import annotations

import functools

from ..declare import Operator, accumulated, resolve
from . import activations, blends, indexing, losses, normalization, products, windows
from .declaration import Formula, OperatorFormula, Run, run
from .step_errors import longest, of_gradients, of_steps

__all__ = ["FORMULAS", "OPERATORS", "OPERATOR_FORMULAS", "Formula", "OperatorFormula", "Run", "run"]

OPERATOR_FORMULAS: list[OperatorFormula] = [
    formula
    for module in (products, normalization, activations, losses, windows, indexing, blends)
    for formula in module.FORMULAS
]

# Work-arounds: by operator, words and formula.
FORMULAS: dict[str, list[tuple[str, Formula]]] = {}
for _formula in OPERATOR_FORMULAS:
    FORMULAS.setdefault(_formula.operator, []).append((_formula.words, _formula.formula))


def declared(given: OperatorFormula) -> Operator:
    """The formula as an operator of its own; its float64 reference is the operator that it
    replaces."""
    formula = given.formula
    return Operator(
        name=f"formula.{given.name}",
        family="formulas",
        sample=given.sample,
        dtypes=given.dtypes,
        reference=functools.partial(given.reference or run, given.operator),
        function=functools.partial(formula, run) if resolve(given.operator) is not None else None,
        error=accumulated(
            of_steps(formula), longest, wide_accumulation=False, backward=of_gradients(formula)
        ),
        differentiable=given.differentiable,
        traits=given.traits,
    )


OPERATORS = [declared(formula) for formula in OPERATOR_FORMULAS]
