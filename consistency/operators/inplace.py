"""Operators that write into their first argument. What is returned and the whole storage behind it
are compared.

Most are declared as the ``inplace`` field of the operator that they are a form of; here stand those
without one. Gradients are those of the function, taken through a copy of the destination.
"""

from __future__ import annotations

from typing import Any

from .declare import EVERY, EXACT, NUMERIC, ErrorModel, Operator, Sample
from .destinations import FACTOR, ROUND, TERM, combined, copied, destination, filled
from .variants import declared, in_place_form

INPLACE = frozenset({"inplace"})
ELEMENTWISE = INPLACE | {"elementwise"}


def op(
    name: str, sample: Sample, error: ErrorModel, dtypes: tuple[str, ...], **more: Any
) -> Operator:
    settings: dict[str, Any] = {"traits": INPLACE, "mutates": (0,)} | more
    return Operator(
        name=name, family="inplace", sample=sample, error=error, dtypes=dtypes, **settings
    )


OPERATORS = [
    *(in_place_form(operator) for operator in declared() if operator.inplace),
    op("__iadd__", combined(TERM), ROUND, NUMERIC, traits=ELEMENTWISE, complex=True),
    op("__imul__", combined(FACTOR), ROUND, NUMERIC, traits=ELEMENTWISE, complex=True),
    op("copy_", copied, EXACT, EVERY, complex=True),
    op("fill_", filled, EXACT, EVERY, differentiable=False, complex=True),
    op(
        "zero_",
        destination(),
        EXACT,
        EVERY,
        traits=INPLACE | {"constant"},
        differentiable=False,
        complex=True,
    ),
]
