"""A session of pytest in a few lines of Markdown, for the step summary of GitHub Actions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.text import printable

SHOWN = 25
_LONGEST = 300  # characters of a cell


def session_lines(failed: Sequence[Any], passed: int, skipped: int) -> list[str]:
    """``failed`` are pytest's reports with an attribute ``consistency``; ``passed`` and ``skipped``
    count the other items of the suite and marked tests."""
    mark = "❌" if failed else "✅" if passed else "⚠️"
    counts = f"{len(failed):,} failed, {passed:,} passed, {skipped:,} skipped"
    lines = [f"### {mark} consistency: {counts}", ""]
    if failed:
        lines += ["| test | what |", "|---|---|"]
        lines += [
            f"| {_cell(_name(r))} | {_cell(reason(r.consistency['message']))} |"
            for r in failed[:SHOWN]
        ]
        if len(failed) > SHOWN:
            lines.append(f"| … and {len(failed) - SHOWN:,} more | |")
        commands = [command for report in failed for command in _commands(report)][:3]
        if commands:
            lines += ["", "Again:", "", "```console", *commands, "```"]
    return [*lines, ""]


def _name(report: Any) -> str:
    name: str = report.nodeid.rpartition("::")[2]
    inner = name.removeprefix("test_operator[")
    return inner.removesuffix("]") if inner != name else name


def reason(message: str) -> str:
    """``divergent: 1,400 × budget: TF32 inputs explain 99%`` of a failure's message: the verdict,
    the size and the cause, without operator and backend, which are in the test's name."""
    headline, *lines = message.splitlines() or [""]
    short = headline.partition("   ")[2] or headline
    causes = [line.partition("cause:")[2].strip() for line in lines if line[:8] == "  cause:"]
    return ": ".join([short, *causes[:1]])


def _commands(report: Any) -> list[str]:
    lines = report.consistency["message"].splitlines()
    found = [printable(line.partition("again:")[2]).strip() for line in lines if "again:" in line]
    return [line[:1000] for line in found if line and "`" not in line]


def _cell(text: str) -> str:
    text = printable(text).replace("\n", " ")
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    for character in "\\`*_|<>[]":
        text = text.replace(character, f"\\{character}")
    return text
