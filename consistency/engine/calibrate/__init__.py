"""Calibration: which c and λ healthy results need, and which planted faults the entries of a
tolerances file notice."""

from __future__ import annotations

from .faults import FAULTS
from .groups import Group
from .observe import Observation, Plan, observations
from .propose import Change, changes, proposal
from .score import Calibration, Entry

__all__ = [
    "FAULTS", "Calibration", "Change", "Entry", "Group", "Observation", "Plan", "changes",
    "observations", "proposal",
]  # fmt: skip
