"""Comparison of two runs on the same cases: new failures, fixes, and larger errors within
budget."""

from __future__ import annotations

from .bundle_difference import RunDifference, difference
from .compared_results import ComparedResult, GroupKey, ResultChange

__all__ = ["ComparedResult", "GroupKey", "ResultChange", "RunDifference", "difference"]
