"""Other ways to write an operator, in terms of operators that a backend has as well: tried as
work-arounds.

A formulation is a function of ``call`` (which runs a named operator on the backend under test) and
the operator's arguments. They are those of :mod:`consistency.operators.formulas`, which are tested
as operators of their own.
"""

from __future__ import annotations

from ..operators.formulas import FORMULAS as FORMULATIONS
from ..operators.formulas import Formula as Formulation

__all__ = ["FORMULATIONS", "Formulation"]
