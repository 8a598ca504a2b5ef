"""Outages: runs in which the machine failed rather than an operator, since cases of many operators
crashed or timed out. An outage is one event, however long it lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.text import pluralize
from ...core.verdict import VERDICTS

if TYPE_CHECKING:
    import duckdb

LOSSES = ("crash", "timeout")
# Minimum share of the run's results, and minimum number of operators, so that one hanging operator
# is not an outage.
SHARE, OPERATORS = 0.005, 10


def is_outage(lost: int, operators: int, results: int) -> bool:
    """Whether ``lost`` results of so many operators, out of all ``results`` of the run, are an
    outage."""
    return operators >= OPERATORS and lost >= SHARE * results


def describe(lost: int, operators: int) -> str:
    return f"{pluralize(lost, 'case')} of {pluralize(operators, 'operator')} crashed or timed out"


CODES = tuple(VERDICTS.index(name) for name in LOSSES)


def lost(db: duckdb.DuckDBPyConnection) -> dict[tuple[int, int], tuple[int, int]]:
    """Outages by (environment, bundle): number of lost results, and number of their operators."""
    codes = ", ".join(map(str, CODES))
    rows = db.execute(
        f"SELECT o.env, o.bundle, count(*) FILTER (o.verdict IN ({codes})) AS gone, "
        f"count(DISTINCT g.operator) FILTER (o.verdict IN ({codes})) AS operators, count(*) "
        "FROM outcomes o JOIN items i USING (item) JOIN groups g USING (grp) GROUP BY ALL HAVING "
        "gone > 0"
    ).fetchall()
    return {
        (env, bundle): (lost_results, operators)
        for env, bundle, lost_results, operators, all_results in rows
        if is_outage(lost_results, operators, all_results)
    }
