"""Which operator a case calls, by its source: ours, the database's, one that the case names, or
ATen's."""

from __future__ import annotations

from ... import operators
from ...core.model import Case
from ...errors import UsageError
from ...operators.declare import Operator
from . import aten, opinfo, torch_functions

# the source of a case that called a function of a user's own, which nobody else can call
YOURS = "yours"


def operator_of(case: Case) -> Operator:
    """The operator that ``case`` calls: the registry's, the database's, a function that it names,
    or ATen's. Raises UsageError."""
    kind, _, name = case.source.partition("/")
    match kind:
        case "":
            return operators.get(case.operator)
        case opinfo.NAME:
            return opinfo.operator_named(case.operator, name)
        case torch_functions.NAME:
            return torch_functions.operator_of(case)
        case aten.NAME:
            return aten.operator_of(case)
        case _ if kind == YOURS:
            raise UsageError(
                f"{name!r:.60} is a function of somebody's own: its tensors are here, and nobody "
                f"else can call it"
            )
    known = ", ".join((opinfo.NAME, torch_functions.NAME, aten.NAME))
    raise UsageError(f"unknown source {kind!r:.40} of a case; known: {known}")
