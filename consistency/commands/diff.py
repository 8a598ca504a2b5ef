"""``consistency diff``: two runs beside each other."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..diffing import Change, Difference

_TITLES = {
    "new": "fails now", "changed": "fails otherwise", "drifted": "errs more, still passing", "untested": "no longer tested",
    "fixed": "fixed", "calmed": "errs less",
}  # fmt: skip
_MARKS = {"new": "✗", "changed": "≠", "drifted": "↗", "untested": "–", "fixed": "✓", "calmed": "↘"}
MOST = 40  # lines of a kind


@click.command(short_help="Two runs beside each other: what fails now, what is fixed, what errs more.")
@click.argument("old", type=click.Path(path_type=Path, file_okay=False))
@click.argument("new", type=click.Path(path_type=Path, file_okay=False))
@click.option("--markdown", is_flag=True, help="As Markdown, for the summary of a CI job.")
@click.option("--json", "as_json", is_flag=True, help="One object a line per change.")
def diff(old: Path, new: Path, markdown: bool, as_json: bool) -> None:
    """Two runs beside each other, like for like: only cases that both of them judged on the same backend.

    OLD and NEW are bundles. Said are new failures, failures with another cause, results that err more although they still pass (a
    sign test on the errors of all cases of an operator), what is no longer tested, what is fixed; and what differs in the
    environments.

    \b
    consistency diff nightly/2026-11-19/lab nightly/2026-11-20/lab
    consistency diff before after --markdown >> "$GITHUB_STEP_SUMMARY"

    \b
    Exit status: 0 no regression · 1 something fails, errs more, or is not tested any more
    2 bad usage · 3 nothing can be compared
    """
    from ..diffing import difference

    found = difference(old, new)
    if as_json:
        for change in found.changes:
            click.echo(json.dumps(change.to_json()))
    else:
        click.echo("\n".join(_markdown(found) if markdown else _text(found)))
    sys.exit(3 if not found.like else 1 if found.regressions else 0)


def _text(found: Difference) -> Iterator[str]:
    from ..report.failure import printable

    for backend, rows in found.environments.items():
        for name, then, now in rows:
            yield printable(f"{backend}  {name}: {then or 'not there'} → {now or 'not there'}")
    if not found.environments:
        yield "the environments are equal"
    yield _counted(found)
    for kind, title in _TITLES.items():
        chosen = [change for change in found.changes if change.kind == kind]
        if chosen:
            yield f"{title}: {len(chosen)}"
        for change in chosen[:MOST]:
            yield printable(f"{_MARKS[kind]} {' · '.join(change.group)}   {_numbers(change)}   {change.words}")
            yield printable(f"    {change.cases} of {change.like} cases; worst {change.case}")
        if len(chosen) > MOST:
            yield f"  … and {len(chosen) - MOST} more (--json has all)"
    if not found.changes and found.like:
        yield "nothing has changed"


def _counted(found: Difference) -> str:
    apart = [f"{count:,} only in {name}" for count, name in ((found.only_old, found.old), (found.only_new, found.new)) if count]
    return f"{found.like:,} like-for-like results" + (f" ({', '.join(apart)})" if apart else "")


def _numbers(change: Change) -> str:
    return f"{change.before:.2g} → {change.after:.2g} × budget"


def _markdown(found: Difference) -> Iterator[str]:
    regressions = len(found.regressions)
    yield f"### {regressions} regression{'s' if regressions != 1 else ''}"
    yield ""
    yield _counted(found)
    yield ""
    for backend, rows in found.environments.items():
        for name, then, now in rows[:10]:
            yield f"- {_plain(backend)}: {_plain(name)} `{_code(then)}` → `{_code(now)}`"
    if found.changes:
        yield ""
        yield "| | operator | on | × budget | |"
        yield "|---|---|---|---|---|"
    for change in found.changes[:MOST]:
        operator, dtype, direction, backend = map(_plain, change.group)
        row = (f"{_MARKS[change.kind]} {_TITLES[change.kind]}", f"{operator} {dtype} {direction}", backend)
        yield f"| {' | '.join(row)} | {change.before:.2g} → {change.after:.2g} | {_plain(change.words)[:160]} |"
    if len(found.changes) > MOST:
        yield ""
        yield f"… and {len(found.changes) - MOST} more"


def _plain(text: str) -> str:
    """What somebody else wrote, as text in a cell of a table."""
    from ..report.failure import printable

    kept = printable(text).replace("\n", " ")
    return "".join(f"&#{ord(c)};" if c in "<>&|`*_[]\\" else c for c in kept)


def _code(text: str) -> str:
    from ..report.failure import printable

    return printable(text).replace("\n", " ").replace("`", "'") or " "
