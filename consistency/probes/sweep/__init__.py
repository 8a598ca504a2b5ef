"""Error against one dimension, or against magnitude: every backend and formula side by side, with
what rounding would do.

``plans`` says which arguments a value of the dimension means, ``expressions`` reads a user's
formula, ``points`` the values, ``measure`` runs and measures, ``findings`` fits slopes and words,
``chart`` draws.
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
