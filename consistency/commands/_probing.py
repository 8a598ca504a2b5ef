"""What the screen shows while backends are asked how they compute, behind everything that a run has to tell."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ..bundle.fingerprints import Progress, Step
from ..report.terminal import Screen


def probing(screen: Screen) -> Progress:
    """A line that says so, and a bar on a terminal. Ctrl-C leaves out what is not known by then, and ends the run as usual."""

    @contextlib.contextmanager
    def shown(names: Sequence[str], probes: int) -> Iterator[Step]:
        from .calibrate import _progress

        several = "s" if len(names) == 1 else ""
        screen.remark(
            f"finding out how {', '.join(names)} compute{several}, once in this environment (Ctrl-C: without), for the page"
        )
        try:
            with _progress(screen.console, probes, "probes") as step:
                yield step
        except KeyboardInterrupt:
            screen.remark("not all of that was found out; the bundle has everything else")

    return shown
