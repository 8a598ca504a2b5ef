"""Progress while backends are fingerprinted at the end of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...engine.events import Event, Handler
from ...engine.fingerprints import Fingerprints, Progress, Step
from ...report import page
from ...report.terminal import Screen


def handlers(folder: Path, wanted: bool | None, screen: Screen) -> list[Handler]:
    """The handlers after the screen: fingerprints, and a second version of the page if they found
    anything."""
    fingerprints, refresh_page = Fingerprints(folder, wanted, _probing(screen)), page.after(folder)

    def finish(event: Event) -> None:
        if fingerprints.asked:
            refresh_page(event)

    return [fingerprints, finish]


def _probing(screen: Screen) -> Progress:
    """A line of text, and a progress bar on a terminal. Ctrl-C skips the remaining fingerprints and
    ends the run normally."""

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
