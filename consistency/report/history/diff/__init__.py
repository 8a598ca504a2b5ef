"""Two runs compared, like for like: what fails now, what no longer does, what errs more
although it still passes."""

from __future__ import annotations

from .bundle_difference import RunDifference, difference
from .compared_results import ComparedResult, GroupKey, ResultChange

__all__ = ["ComparedResult", "GroupKey", "ResultChange", "RunDifference", "difference"]
