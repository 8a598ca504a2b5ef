"""Nights on which a machine was in trouble, and no operator to blame: cases of many operators crashed or timed out.

What was lost so is no news of each operator; it is told once, for as long as it lasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..model import VERDICTS

if TYPE_CHECKING:
    import duckdb

LOSSES = ("crash", "timeout")
CODES = tuple(VERDICTS.index(name) for name in LOSSES)
SHARE, OPERATORS = 0.005, 10  # of the night's results, and of how many operators: one operator that hangs is that operator's news


def lost(db: duckdb.DuckDBPyConnection) -> dict[tuple[int, int], tuple[int, int]]:
    """By (environment, bundle), of nights in trouble: how many results were lost, and of how many operators."""
    codes = ", ".join(map(str, CODES))
    rows = db.execute(
        f"SELECT o.env, o.bundle, count(*) FILTER (o.verdict IN ({codes})) AS gone, "
        f"count(DISTINCT g.operator) FILTER (o.verdict IN ({codes})) AS operators "
        "FROM outcomes o JOIN items i USING (item) JOIN groups g USING (grp) GROUP BY ALL "
        f"HAVING operators >= {OPERATORS} AND gone >= {SHARE} * count(*)"
    ).fetchall()
    return {(env, bundle): (gone, operators) for env, bundle, gone, operators in rows}
