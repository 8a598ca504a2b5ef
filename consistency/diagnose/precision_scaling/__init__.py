"""Precision scaling: from float32 to float64 rounding errors shrink by about 2²⁹; errors of a wrong
formula do not.

Each float32 case has a *float64 counterpart*: the same recipe in float64, whose numbers agree to 24
bits and have full mantissas. Two rules:

- one-sided, per case: ``e64 ≤ max(1e-6 · e32, max(16, 4·G) · eps64 · max|ref|)``, where e is the
  largest absolute error of an output. Where sums cancel, S replaces \\|ref\\|: the error of a sum
  is relative to its terms, and grows with G (√n of n terms).
- two-sided, pooled: the geometric mean of RMS32/RMS64 over the cases with errors in both, at the
  same elements. Above 2³⁴ the float32 path is degraded (TF32 gives about 2⁴²), below 2²⁰ the
  float64 path is, if its own errors are larger than rounding makes them. The ratio alone proves
  nothing: a float32 variance that is summed in float64 is rounded once, while the float64 one has
  the errors of all its terms; and the error of the mean enters a variance squared, so that it
  shrinks by 2⁵⁸. Expected is 2²⁹; nine tenths of torch's CPU operators give 2.6e7 to 2.4e9.

0/0 is not informative. The float64 error is measured at elements whose exact value is certified, if
there are any. A two-sided limit per sample would reject half of all healthy ones, because many are
exact in one or both precisions.
"""

from .counterpart import applies, float64_counterpart
from .pool import ScalingPool
from .scaling import ENOUGH, HIGHEST, LOWEST, Scaling, ScalingRow, failure, power, summary

__all__ = [
    "ENOUGH",
    "HIGHEST",
    "LOWEST",
    "Scaling",
    "ScalingPool",
    "ScalingRow",
    "applies",
    "failure",
    "float64_counterpart",
    "power",
    "summary",
]
