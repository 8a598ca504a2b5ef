"""Relations of results that hold whatever the numbers are: the same elements in another layout, in
a smaller batch, or among more of them must give the same results, and a derivative is the slope of
its function. They show where float64 on the
CPU is wrong in the same way as what it is the reference of."""

from __future__ import annotations

from .companions import Companion, companions
from .relations import RELATIONS, relations
from .slopes import Slope, slopes

__all__ = ["RELATIONS", "Companion", "Slope", "companions", "relations", "slopes"]
