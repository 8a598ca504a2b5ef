"""Two runs compared, like for like: what fails now, what no longer does, what errs more
although it still passes."""

from __future__ import annotations

from .compared import ComparedResult, GroupKey, ResultChange
from .difference import RunDifference, difference

__all__ = ["ComparedResult", "GroupKey", "ResultChange", "RunDifference", "difference"]
