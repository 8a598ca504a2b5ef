"""What the screen shows while backends are asked how they compute, behind everything that a run has
to tell."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...engine.events import Event, Handler
from ...engine.fingerprints import Fingerprints, Progress, Step
from ...report import page
from ...report.terminal import Screen


def handlers(folder: Path, wanted: bool | None, screen: Screen) -> list[Handler]:
    """What stands behind the screen: probes, and the page once more where they found something
    out."""
    fingerprints, refresh_page = Fingerprints(folder, wanted, _probing(screen)), page.after(folder)

    def finish(event: Event) -> None:
        if fingerprints.asked:
            refresh_page(event)

    return [fingerprints, finish]


def _probing(screen: Screen) -> Progress:
    """A line that says so, and a bar on a terminal. Ctrl-C leaves out what is not known by then,
    and ends the run as usual."""

    @contextlib.contextmanager
    def shown(names: Sequence[str], probes: int) -> Iterator[Step]:
        from .calibrate import _progress

        several = "s" if len(names) == 1 else ""
        screen.remark(
            f"finding out how {', '.join(names)} compute{several}, once in this environment "
            f"(Ctrl-C: without), for the page"
        )
        try:
            with _progress(screen.console, probes, "probes") as step:
                yield step
        except KeyboardInterrupt:
            screen.remark("not all of that was found out; the bundle has everything else")

    return shown
