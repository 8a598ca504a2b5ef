"""Smaller sizes of a large case: first the smallest that fails of those at which kernels change,
then between it and the largest that passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...core.model import Case

_MOST_STEPS = 40


def smallest_size(case: Case, fails: Callable[[Case], bool]) -> Case | None:
    """The case with the smallest size that fails, as far as sizes are tried; None if only the
    whole one does. A size that does not repeat completely keeps what is left over."""
    tiling = case.tiling
    if tiling is None or not tiling.is_large:
        return None

    def sized(count: int) -> Case:
        """With ``count`` complete repetitions."""
        return replace(case, tiling=replace(tiling, size=count * tiling.period + tiling.rest))

    whole = tiling.size // tiling.period
    passing, failing = 0, whole
    count = 1
    while count < whole:
        if fails(sized(count)):
            failing = count
            break
        passing, count = count, 2 * count
    for _ in range(_MOST_STEPS):
        if failing - passing <= 1:
            break
        middle = (passing + failing) // 2
        if fails(sized(middle)):
            failing = middle
        else:
            passing = middle
    return sized(failing) if failing < whole else None
