"""Failures of a pytest run as annotations of GitHub Actions, the worst first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..core.text import printable

MOST = 10  # GitHub's limit per kind and step
LINES = 12


def workflow_commands(failed: Sequence[Any]) -> Iterator[str]:
    """Workflow commands for pytest's reports with an attribute ``consistency``: the message, and
    whether the test belongs to the built-in suite.

    Only a user's own test has a file in the repository.
    """
    worst = sorted(failed, key=lambda report: -_size(report.consistency["message"]))
    for report in worst[:MOST]:
        headline, *details = printable(report.consistency["message"]).splitlines() or [""]
        place, line = _place(report)
        fields = (
            {}
            if report.consistency["suite"]
            else {"file": Path(place).as_posix(), "line": str(line)}
        )
        fields["title"] = headline[:200]
        properties = ",".join(f"{name}={_property(value)}" for name, value in fields.items())
        text = "\n".join(line.strip() for line in [headline, *details][:LINES])
        yield f"::error {properties}::{_data(text)}"
    if len(worst) > MOST:
        yield f"::notice title=consistency::{len(worst) - MOST} more failures are in the log"


def _place(report: Any) -> tuple[str, int]:
    """The file of a test, and the line that failed there; else that of its definition, or of the
    first decorator."""
    place, line, _ = report.location
    crash = getattr(getattr(report, "longrepr", None), "reprcrash", None)
    if crash is not None and Path(crash.path).name == Path(place).name:
        return place, int(crash.lineno)
    return place, (line or 0) + 1


def _size(message: str) -> float:
    """The × budget in the first line of a message; infinity if it has none."""
    match = re.search(r"([\d,.]+) × budget", message.partition("\n")[0])
    try:
        return float(match[1].replace(",", "")) if match else float("inf")
    except ValueError:
        return float("inf")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
