"""Two runs beside each other, like for like: what fails now, what no longer does, what errs more
although it still passes."""

from __future__ import annotations

from .seen import Change, Group, Seen
from .summary import Difference, difference

__all__ = ["Change", "Difference", "Group", "Seen", "difference"]
