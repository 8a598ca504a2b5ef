"""The operator that a case calls, by its source: registered, of the database, named by the case, or
ATen's."""

from __future__ import annotations

from ... import operators
from ...core import case_source
from ...core.case_source import parse_source
from ...core.model import Case
from ...errors import UsageError
from ...operators.common_form import in_form_of
from ...operators.declare import Operator
from . import aten, opinfo, torch_functions


def operator_of(case: Case) -> Operator:
    """The operator that ``case`` calls. Raises UsageError."""
    source = parse_source(case.source)
    match source.kind:
        case "":
            operator = in_form_of(operators.exactly(case.operator), case)
            return torch_functions.casting_first(operator, case) if case.kwargs else operator
        case case_source.OPINFO:
            return opinfo.operator_named(case.operator, source.name)
        case case_source.CALL:
            return torch_functions.operator_of(case)
        case case_source.ATEN:
            return aten.operator_of(case)
        case case_source.YOURS:
            raise UsageError(
                f"{source.name!r:.60} is a function of somebody's own, which nobody else can call: "
                f"the case holds its arguments only"
            )
    sources = ", ".join((case_source.OPINFO, case_source.CALL, case_source.ATEN))
    raise UsageError(f"unknown source {source.kind!r:.40} of a case; known: {sources}")
