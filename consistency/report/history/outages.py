"""Runs in which the machine failed rather than an operator: cases of many operators crashed or
timed out. That is one event, for as long as it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.verdict import VERDICTS

if TYPE_CHECKING:
    import duckdb

LOSSES = ("crash", "timeout")
SHARE, OPERATORS = (
    0.005,
    10,
    # of the run's results, and of how many operators: one operator that hangs is that operator's
    # news
)


def is_outage(lost: int, operators: int, results: int) -> bool:
    """Whether so many results that were lost, of so many operators, are the machine's doing;
    ``results`` counts all of the run."""
    return operators >= OPERATORS and lost >= SHARE * results


def describe(lost: int, operators: int) -> str:
    return f"{lost:,} cases of {operators:,} operators crashed or timed out"


CODES = tuple(VERDICTS.index(name) for name in LOSSES)


def lost(db: duckdb.DuckDBPyConnection) -> dict[tuple[int, int], tuple[int, int]]:
    """By (environment, bundle), of outages: how many results were lost, and of how many
    operators."""
    codes = ", ".join(map(str, CODES))
    rows = db.execute(
        f"SELECT o.env, o.bundle, count(*) FILTER (o.verdict IN ({codes})) AS gone, "
        f"count(DISTINCT g.operator) FILTER (o.verdict IN ({codes})) AS operators, count(*) "
        "FROM outcomes o JOIN items i USING (item) JOIN groups g USING (grp) GROUP BY ALL HAVING "
        "gone > 0"
    ).fetchall()
    return {
        (env, bundle): (gone, operators)
        for env, bundle, gone, operators, every in rows
        if is_outage(gone, operators, every)
    }
