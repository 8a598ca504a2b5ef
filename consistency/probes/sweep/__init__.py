"""Error against one dimension or against magnitude, for several backends and formulas, compared
with the error of correct rounding.

``plans`` maps a value of the dimension to arguments, ``expressions`` parses a user's formula,
``points`` chooses the values, ``measure`` runs and measures, ``findings`` fits slopes and describes
them, ``chart`` draws.
"""

from __future__ import annotations

from .findings import Finding, findings
from .measure import Measurement, Series, measure
from .plans import PLANS, SweepPlan, plan_of
from .points import Vary, parse_vary

__all__ = [
    "PLANS",
    "Finding",
    "Measurement",
    "Series",
    "SweepPlan",
    "Vary",
    "findings",
    "measure",
    "parse_vary",
    "plan_of",
]
