"""A stored run in at most 60 lines of Markdown, worst first, for CI step summaries."""

from __future__ import annotations

import re
from collections import Counter

from ..core.model import Result
from ..core.text import printable, quote
from ..core.verdict import Verdict
from ..engine.known import standing
from . import failure
from .bundle_view import BundleView
from .failure_groups import FailureGroup
from .replay import title

LINES = 60
SHOWN = 25  # rows in the table of failures
FAULTS = 3  # rows of an operator: one for each backend and cause
COMMANDS = 3
LONGEST = 1_000  # characters of a command
REASONS = 6
MOST = 220  # characters of a sentence in a cell


def markdown(view: BundleView) -> str:
    """The text, without a final newline."""
    summary, failing = view.summary, view.summary.by_operator()
    view.read_worst_failures(COMMANDS)
    mark = (
        "❌"
        if summary.groups["failed"]
        else "✅"
        if summary.groups["passed"] or summary.groups["warned"]
        else "⚠️"
    )
    lines = [
        f"### {mark} consistency: {_headline(view, len(failing))}",
        "",
        plain(title(view)),
        "",
        *([f"**Not whole:** {view.not_whole}.", ""] if view.not_whole else []),
        _counts(view),
        "",
    ]
    if failing:
        lines += ["| × budget | operator | where | what |", "|---:|---|---|---|"]
        lines += [_row(group) for groups in failing for group in groups[:FAULTS]][:SHOWN]
        if len(failing) > SHOWN:
            lines.append(f"| | … and {len(failing) - SHOWN:,} more operators | | |")
        lines += ["", "Again:", "", "```console"]
        lines += [_command(view, groups[0].shown) for groups in summary.by_operator()[:COMMANDS]]
        lines += ["```"]
    known_lines = list(standing.told(summary.standings))
    if known_lines:
        lines += ["", "Expectations:", "", *(f"- {plain(line)}" for line in known_lines[:REASONS])]
        lines += (
            [f"- … and {len(known_lines) - REASONS:,} more"] if len(known_lines) > REASONS else []
        )
    reasons = summary.reasons.most_common(REASONS)
    absent = [
        f"- {plain(name)}: {plain(reason)}"
        for name, reason in list(view.unavailable.items())[:REASONS]
    ]
    if reasons or absent:
        lines += [
            "",
            f"Not tested: {summary.groups['not tested']:,} results, never counted as passed",
            "",
        ]
        lines += absent
        lines += [
            f"- {count:,} {verdict}: {plain(f'{backend}: {reason}')}"
            for (verdict, backend, reason), count in reasons[: REASONS - len(absent)]
        ]
    return "\n".join(lines[:LINES])


def _headline(view: BundleView, failing: int) -> str:
    if failing:
        return f"{failing:,} operator{'s' if failing > 1 else ''} fail{'' if failing > 1 else 's'}"
    tested = view.summary.groups["passed"] + view.summary.groups["warned"]
    return f"{tested:,} results agree with float64" if tested else "nothing was tested"


def _counts(view: BundleView) -> str:
    counts: Counter[str] = view.summary.verdicts
    order = sorted(
        counts, key=lambda name: (not Verdict(name).fails, not Verdict(name).tested, -counts[name])
    )
    return " · ".join(
        (
            f"{'**' if Verdict(name).fails else ''}{counts[name]:,} "
            f"{name}{'**' if Verdict(name).fails else ''}"
        )
        for name in order
    )


def _row(group: FailureGroup) -> str:
    worst, kinds = group.worst, len(group.results)
    size, sentence = failure.split_headline(worst)
    sentence = str(group.elected) or sentence
    more_kinds = f" (and in {kinds - 1} other way{'s' if kinds > 2 else ''})" if kinds > 1 else ""
    location = f"{worst.dtype} {worst.direction} {worst.backend}"
    return (
        f"| {size.removesuffix(' × budget')} | {plain(worst.operator)} | {plain(location)} | "
        f"{plain(sentence)}{more_kinds} |"
    )


def _command(view: BundleView, worst: Result) -> str:
    """The command that reproduces a failure, with the case's id in place of a long recipe."""
    command = failure.command(worst, bundle=view.folder, spec=view.specs.get(worst.backend))
    return _one_line(
        command
        if len(command) <= LONGEST
        else command.replace(quote(worst.case.line), worst.case.id)
    )


def plain(text: str) -> str:
    """Untrusted text as one line of Markdown, escaped so that it cannot create markup, links,
    mentions or cells."""
    line = _one_line(text)
    line = line if len(line) <= MOST else f"{line[: MOST - 1]}…"
    return re.sub(r"[&<>@|`*_\[\]\\#~!$]", lambda match: f"&#{ord(match[0])};", line)


def _one_line(text: str) -> str:
    """The text on one line, without the end of a code block."""
    return " ".join(printable(text).split()).replace("```", "'''")
