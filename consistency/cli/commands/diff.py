"""``consistency diff``: compare two runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.text import format_factor, pluralize
from ...errors import UsageError
from ..echo import echo
from ..options import FOLDER, command
from ._last_run import last_run, last_runs

if TYPE_CHECKING:
    from ...report.history.diff import ResultChange, RunDifference
    from ...report.history.diff.bundle_difference import ComparedRun

MOST = 40  # lines per kind of change
MOST_MOVED = 20  # changes per environment
MOST_VALUE = 100  # characters of a value


@command(short_help="Compare two runs: what fails now, what is fixed, which errors grew.")
@click.argument("old", type=FOLDER, required=False)
@click.argument("new", type=FOLDER, required=False)
@click.option("--markdown", is_flag=True, help="As Markdown, for the summary of a CI job.")
@click.option("--json", "as_json", is_flag=True, help="One object a line per change.")
def diff(old: Path | None, new: Path | None, markdown: bool, as_json: bool) -> None:
    """Compare two runs, like for like: only cases that both of them judged on the same backend.

    OLD and NEW are bundles; default: the last two under reports/; OLD alone is compared with the
    last. Listed are new failures,
    failures with another cause, results that err
    more although they still pass (a test on the errors of all cases of an operator, of its dtypes
    together, and of a dtype in all operators; where nothing changed, one comparison in a thousand
    has a false alarm), what is no longer tested, what is fixed, known divergences that no longer
    happen; and what differs between the machines and environments.

    \b
    consistency diff nightly/2026-11-19/lab nightly/2026-11-20/lab
    consistency diff before after --markdown >> "$GITHUB_STEP_SUMMARY"

    \b
    Exit status: 0 no regression · 1 something fails, has a larger error (a known divergence too),
    or is no longer tested · 2 bad usage · 3 nothing can be compared, or a file was cut off
    """
    from ...report.history.diff import difference

    if old is None:
        old, new = last_runs(2)
    elif new is None:
        new = last_run()
        if old.resolve() == new.resolve():
            raise UsageError(
                f"{old} would be compared with itself; give two runs: consistency diff OLD NEW"
            )
    result = difference(old, new)
    if as_json:
        for backend, rows in result.environments.items():
            for name, then, now in rows:
                row = {
                    "kind": "environment",
                    "backend": backend,
                    "name": name,
                    "before": then,
                    "after": now,
                    "regression": False,
                }
                echo(json.dumps(row))
        for side in (result.before, result.after):
            if side.cut_off:
                row = {"kind": "cut_off", "folder": str(side.folder), "words": side.cut_off}
                echo(json.dumps({**row, "regression": False}))
        for change in result.changes:
            echo(json.dumps(change.to_json()))
    else:
        echo("\n".join(_markdown(result) if markdown else _text(result)))
    if not result.like:
        sys.exit(3)
    sys.exit(1 if result.regressions else 0 if result.is_whole else 3)


def _text(result: RunDifference) -> Iterator[str]:
    from ...core.text import one_line
    from ...report.history.events import EventKind

    yield one_line(f"{_side(result.before)}  →  {_side(result.after)}")
    for backend, rows in result.environments.items():
        for name, then, now in rows[:MOST_MOVED]:
            yield one_line(f"  {backend}  {name}: {_short(then)} → {_short(now)}")
        if len(rows) > MOST_MOVED:
            yield one_line(f"  {backend}  … and {len(rows) - MOST_MOVED} more (--json has all)")
    if not result.environments:
        yield "  the environments are identical"
    for counted in _counted(result):
        yield one_line(counted)
    for kind in EventKind:
        chosen = [change for change in result.changes if change.kind == kind]
        if chosen:
            yield f"{kind.heading}: {len(chosen)}"
        for change in chosen[:MOST]:
            yield one_line(f"{kind.mark} {_named(change)}   {_numbers(change)}   {change.words}")
            yield one_line(
                f"    {change.cases:,} of {change.like:,} cases; {_worst(change)} {change.case}"
            )
        if len(chosen) > MOST:
            yield f"  … and {len(chosen) - MOST} more (--json has all)"
    if not result.changes and result.like:
        yield "no change among the results that are in both runs"


def _short(value: str) -> str:
    return (value if len(value) <= MOST_VALUE else f"{value[:MOST_VALUE]}…") or "not there"


def _side(side: ComparedRun) -> str:
    return f"{side.folder} ({side.label}, {side.created[:16].replace('T', ' ')} UTC)"


def _named(change: ResultChange) -> str:
    operator, dtype, direction, backend = change.group
    names = (
        f"{change.groups:,} operators" if operator == "*" else operator,
        "all dtypes" if dtype == "*" else dtype,
    )
    names = (
        (f"{change.groups:,} operators × dtypes × directions", "")
        if (operator, dtype, direction) == ("*",) * 3
        else names
    )
    return " · ".join(
        part for part in (*names, direction if direction != "*" else "", backend) if part
    )


def _worst(change: ResultChange) -> str:
    return (
        "farthest"
        if change.kind in ("error_grew", "error_shrank")
        else "one of them"
        if change.group[0] == "*"
        else "worst"
    )


def _counted(result: RunDifference) -> Iterator[str]:
    notes = []
    for side in (result.before, result.after):
        if side.only:
            explored = f", {side.explored:,} of them explored" if side.explored else ""
            notes.append(f"{side.only:,} only in {side.folder}{explored}")
    yield f"{result.like:,} like-for-like results" + (f" ({'; '.join(notes)})" if notes else "")
    if (
        result.before.id == result.after.id
        and result.before.folder.resolve() != result.after.folder.resolve()
    ):
        yield f"both are the same run ({result.before.id})"
    if result.before.corpus and result.after.corpus and result.before.corpus != result.after.corpus:
        yield (
            f"they replayed different corpora ({result.before.corpus[:12]}, "
            f"{result.after.corpus[:12]}): fewer cases are in both"
        )
    for side in (result.before, result.after):
        if side.cut_off and not (side is result.after and result.not_reached):
            yield f"{side.folder}: {side.cut_off}"
    if result.not_reached:
        what = " of the corpus" if result.after.corpus else ""
        many = (
            f"{result.not_reached:,} results{what} are"
            if result.not_reached > 1
            else f"1 result{what} is"
        )
        yield f"{many} missing in {result.after.folder}: {_why(result.after)}"


def _why(side: ComparedRun) -> str:
    if side.cut_off:
        return side.cut_off
    if not side.complete:
        return "it did not get that far"
    return "their cases or backends no longer exist, or its results.jsonl is not whole"


def _numbers(change: ResultChange) -> str:
    return (
        f"{format_factor(change.before)} → "
        f"{'nothing' if change.kind == 'untested' else f'{format_factor(change.after)} × budget'}"
    )


def _markdown(result: RunDifference) -> Iterator[str]:
    regressions = len(result.regressions)
    yield f"### {pluralize(regressions, 'regression')}"
    yield ""
    yield _plain(f"{_side(result.before)} → {_side(result.after)}")
    yield ""
    for line in _counted(result):
        yield f"{_plain(line)}  "
    yield ""
    for backend, rows in result.environments.items():
        for name, then, now in rows[:10]:
            yield f"- {_plain(backend)}: {_plain(name)} `{_code(then)}` → `{_code(now)}`"
        if len(rows) > 10:
            yield f"- {_plain(backend)}: … and {len(rows) - 10} more"
    if result.changes:
        yield ""
        yield "| | what | × budget | |"
        yield "|---|---|---|---|"
    for change in result.changes[:MOST]:
        row = (f"{change.kind.mark} {change.kind.heading}", _plain(_named(change)))
        yield (
            f"| {' | '.join(row)} | {format_factor(change.before)} → "
            f"{format_factor(change.after)} | {_plain(change.words)[:300]} |"
        )
    if len(result.changes) > MOST:
        yield ""
        yield f"… and {len(result.changes) - MOST} more"


def _plain(text: str) -> str:
    """Untrusted text, as a cell of a Markdown table."""
    from ...core.text import printable

    safe = printable(text).replace("\n", " ")
    return "".join(f"&#{ord(c)};" if c in "<>&|`*_[]\\" else c for c in safe)


def _code(text: str) -> str:
    from ...core.text import printable

    return printable(text).replace("\n", " ").replace("`", "'") or " "
