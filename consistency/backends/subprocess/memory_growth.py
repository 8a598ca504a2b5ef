"""Memory leaks: whether a worker holds more memory after every call of one case."""

from __future__ import annotations

import time
from collections.abc import Callable

NOTABLE_GROWTH = 1 << 21  # bytes over the cases of one operator, which make it worth a closer look
PROBES = 25
# what is allocated once, of a library that is used for the first time, does not grow over these
FEW_PROBES = 4
LEAST_GROWTH = 4096.0  # bytes a call
MOST_SECONDS = 10.0  # what a closer look may take: what calls of seconds leak is not looked for


class GrowthMeter:
    """``memory`` returns how often the worker was replaced, and the bytes it holds now."""

    def __init__(self, memory: Callable[[], tuple[int, int]]) -> None:
        self._memory = memory
        self._mark = (0, 0)

    def per_call(self, repeat: Callable[[], None] | None) -> float | None:
        """Bytes that every ``repeat`` leaks, measured only if memory has grown since the last
        check.

        Memory is compared before and after a few calls, and if it grows, after two times ``PROBES``
        calls: a cache grows only once. None, too, where the calls take too long.
        """
        before, self._mark = self._mark, self._memory()
        restarts, bytes_then = self._mark
        if repeat is None or before[0] != restarts or bytes_then - before[1] < NOTABLE_GROWTH:
            return None
        until = time.monotonic() + MOST_SECONDS
        sizes = self._over((FEW_PROBES,), repeat, until)
        if sizes and sizes[0] > LEAST_GROWTH / 2:
            sizes = self._over((PROBES, PROBES), repeat, until)
        self._mark = self._memory()
        steady = len(sizes) == 2 and min(sizes) > LEAST_GROWTH and sizes[1] > 0.5 * sizes[0]
        return sizes[1] if steady and self._mark[0] == restarts else None

    def _over(
        self, series: tuple[int, ...], repeat: Callable[[], None], until: float
    ) -> list[float]:
        """Bytes a call, over each series of calls that was complete before ``until``."""
        sizes: list[float] = []
        for calls in series:
            began = self._memory()
            for _ in range(calls):
                if time.monotonic() > until:
                    return sizes
                repeat()
            sizes.append((self._memory()[1] - began[1]) / calls)
        return sizes
