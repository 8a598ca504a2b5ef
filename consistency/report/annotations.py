"""Failures of a pytest run as annotations of GitHub Actions, the worst first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..core.text import printable

MOST = 10  # of a kind that GitHub shows for a step
LINES = 12


def workflow_commands(failed: Sequence[Any]) -> Iterator[str]:
    """Workflow commands for pytest's reports, which carry ``consistency``: the message, and whether
    the test is of our suite.

    Only a test of the user's own has a place in the repository.
    """
    worst = sorted(failed, key=lambda report: -_size(report.consistency["message"]))
    for report in worst[:MOST]:
        headline, *rest = printable(report.consistency["message"]).splitlines() or [""]
        place, line, _ = report.location
        known = (
            {}
            if report.consistency["suite"]
            else {"file": Path(place).as_posix(), "line": str((line or 0) + 1)}
        )
        known["title"] = headline[:200]
        properties = ",".join(f"{name}={_property(value)}" for name, value in known.items())
        text = "\n".join(line.strip() for line in [headline, *rest][:LINES])
        yield f"::error {properties}::{_data(text)}"
    if len(worst) > MOST:
        yield f"::notice title=consistency::{len(worst) - MOST} more failures are in the log"


def _size(message: str) -> float:
    """× budget, as the first line of a message tells it; what tells none is worse than any
    number."""
    found = re.search(r"([\d,.]+) × budget", message.partition("\n")[0])
    try:
        return float(found[1].replace(",", "")) if found else float("inf")
    except ValueError:
        return float("inf")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
