"""``consistency query``: questions over many bundles, in SQL or in the small language of the
matrix."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...errors import UsageError
from ..echo import echo
from ..options import command

if TYPE_CHECKING:
    from ...report.history.store import Store

ROWS = 100  # of a table that is shown
WIDTH = 60  # characters of a value in a table
_SHOWN = (
    "operator",
    "dtype",
    "direction",
    "environment",
    "verdict",
    "rho",
    "since",
    "kind",
    "cause",
    "command",
)


@command(short_help="Ask many bundles a question, in SQL or in the language of the matrix.")
@click.argument("words", nargs=-1, metavar='["SQL"] [DIR]...')
@click.option(
    "--filter",
    "wanted",
    metavar="QUERY",
    help="In place of SQL: the query box's language, e.g. 'verdict:fail backend:cuda'.",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that keeps what was read, for the next time.",
)
@click.option("--json", "as_json", is_flag=True, help="One object a line.")
@click.option("--csv", "as_csv", is_flag=True, help="Comma-separated values.")
def query(
    words: Sequence[str], wanted: str | None, store: Path | None, as_json: bool, as_csv: bool
) -> None:
    """Ask many bundles a question.

    DIR is a bundle, a folder with bundles anywhere below it, or a store that `consistency matrix`
    keeps (site.duckdb) [default: reports]. SQL is one SELECT, in DuckDB's words, over these views;
    it can reach nothing else:

    \b
    results   a row per result: environment, night, operator, dtype, direction, case_id,
              verdict, rank, fails, rho, …
    cells     the matrix: per operator × dtype × direction × environment the worst of the
              last night, since, flaky
    changes   what changed for good, on which night: kind, regression, before, after
              (× budget), what_changed
    nights  environments  identity (name, value by night)  cases

    What regressed in the past year?

    \b
    consistency query "SELECT night, environment, kind, operator, dtype, before, after, what_changed
        FROM changes WHERE regression AND night > today() - INTERVAL 1 YEAR ORDER BY night" nightly/

    Which drivers brought the most new failures?

    \b
    consistency query "SELECT what_changed, count(*) AS failures FROM changes WHERE kind = 'new'
        GROUP BY ALL ORDER BY 2 DESC" nightly/

    What fails on exactly one environment, and what is it called there?

    \b
    consistency query --filter "count:1(fail)" nightly/

    Exit status: 0 whatever the answer is · 2 bad usage, or a question that cannot be read
    """
    if as_json and as_csv:
        raise UsageError("--json and --csv are two forms of the same answer: ask for one of them")
    if wanted is None and not words:
        raise UsageError(
            "ask something: SQL in quotation marks, or --filter QUERY; `consistency query "
            "--help` has examples"
        )
    folders = [Path(word) for word in (words[1:] if wanted is None else words)] or [Path("reports")]
    with _store(folders, store).readable() as opened:
        if wanted is None:
            from ...report.history.sql import ask

            _prepare(opened)
            answer = ask(opened, words[0])
            columns, rows = answer.columns, answer.rows
        else:
            columns, rows = _SHOWN, _filtered(opened, wanted)
        for line in (
            _json(columns, rows)
            if as_json
            else _csv(columns, rows)
            if as_csv
            else _table(columns, rows)
        ):
            echo(line)


def _store(folders: Sequence[Path], path: Path | None) -> Store:
    """The store of the named bundles; unreadable ones are reported on standard error."""
    from ...report.history.bundle_sources import bundles
    from ...report.history.store import Store

    files = [folder for folder in folders if folder.is_file()]
    if files:
        if len(folders) > 1 or path is not None:
            raise UsageError(
                f"{files[0]} is a store, which stands alone: leave the other names out"
            )
        return Store(files[0], made=True)
    bundle_folders, problems = bundles(folders)
    if not bundle_folders:
        for problem in problems:
            echo(str(problem), err=True)
        raise UsageError(
            f"there is no bundle in {', '.join(map(str, folders))}; `consistency run --out DIR` "
            "makes one"
        )
    opened = Store(path)
    opened.take(bundle_folders)
    opened.keep_only(bundle_folders)
    for problem in (*problems, *opened.problems):
        echo(str(problem), err=True)
    return opened


def _prepare(store: Store) -> None:
    from ...report.history.snapshot import snapshot
    from ...report.history.sql import current

    if not current(store):
        snapshot(store)


def _filtered(store: Store, query: str) -> Iterator[tuple[Any, ...]]:
    from ...report.history.filter_query import parse
    from ...report.history.query_entries import entries, names
    from ...report.history.snapshot import NAME_OF, snapshot

    grid = snapshot(store)
    understood = parse(query, names(grid), sorted(set(NAME_OF)))
    order = {"fail": 0, "warn": 1, "pass": 2, "untested": 3}
    matches = [entry for entry in entries(grid) if understood.holds(entry)]
    matches.sort(
        key=lambda e: (
            order[e["state"]],
            -(e["rho"] if e["rho"] is not None else math.inf),
            e["operator"],
            e["environment"],
        )
    )
    return (tuple(entry[name] for name in _SHOWN) for entry in matches)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value if isinstance(value, (int, float, str, bool)) or value is None else str(value)


def _json(columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    for row in rows:
        yield json.dumps(dict(zip(columns, map(_plain, row), strict=True)))


def _csv(columns: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> Iterator[str]:
    from ...core.text import printable

    for row in (columns, *(tuple(map(_plain, row)) for row in rows)):
        stream = io.StringIO()
        cells = [printable(cell) if isinstance(cell, str) else cell for cell in row]
        csv.writer(stream, lineterminator="").writerow(cells)
        yield stream.getvalue()


def _table(columns: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> Iterator[str]:
    shown = [
        [_cell(value, last=i == len(row) - 1) for i, value in enumerate(row)]
        for row in islice(rows, ROWS)
    ]
    if not shown:
        yield "nothing"
        return
    heads = [_cell(column, last=False) for column in columns]
    widths = [max(len(line[i]) for line in (heads, *shown)) for i in range(len(heads))]
    for line in (heads, *shown):
        yield "  ".join(
            text.ljust(width) for text, width in zip(line, widths, strict=True)
        ).rstrip()
    more = sum(1 for _ in rows)
    if more:
        yield f"… and {more:,} more rows (--json and --csv have all)"


def _cell(value: Any, *, last: bool) -> str:
    from ...core.text import printable

    if value is None:
        return "–"
    text = f"{value:.4g}" if isinstance(value, float) else printable(str(value)).replace("\n", " ")
    return text if last or len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
