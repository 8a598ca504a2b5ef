"""Calibration: which c and λ healthy results need, and which planted faults the entries of a
tolerances file notice."""

from __future__ import annotations

from .faults import FAULTS
from .groups import ObservationGroup
from .observe import CalibrationPlan, Observation, observations
from .propose import ToleranceChange, changes, proposal
from .score import Calibration, EntryScore

__all__ = [
    "FAULTS", "Calibration", "CalibrationPlan", "EntryScore", "Observation", "ObservationGroup",
    "ToleranceChange", "changes",
    "observations", "proposal",
]  # fmt: skip
