"""The values that flow through the program: Case, Outcome, Comparison, Evidence, Result. All are
frozen."""

from .case import COTANGENT_LAYOUTS, Case
from .comparison import MEASURED_ELSEWHERE, Comparison, ElementGroup, Measured, Worst
from .evidence import Cause, Evidence, Known, Origin, Proof
from .outcome import Outcome, Output
from .result import DIRECTIONS, Key, Result, kind

__all__ = [
    "COTANGENT_LAYOUTS",
    "DIRECTIONS",
    "MEASURED_ELSEWHERE",
    "Case",
    "Cause",
    "Comparison",
    "ElementGroup",
    "Evidence",
    "Key",
    "Known",
    "Measured",
    "Origin",
    "Outcome",
    "Output",
    "Proof",
    "Result",
    "Worst",
    "kind",
]
