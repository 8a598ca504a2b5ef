"""The causes of a matrix: elected by the failing cases of a run, as everywhere else."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...core.model import Cause
from ...diagnose.cause_vote import Ballot, CauseVotes, Elected

if TYPE_CHECKING:
    import duckdb

_QUESTION = """
SELECT d.env, d.bundle, g.operator, g.direction, d.first, i.grp, d.cause, d.rivals, d.weight,
    count(*), arg_max(d.words, d.share), max(d.share)
FROM details d JOIN shown s ON d.env = s.env AND d.bundle = s.bundle
JOIN outcomes o ON o.bundle = d.bundle AND o.env = d.env AND o.item = d.item
JOIN items i ON i.item = d.item JOIN groups g ON g.grp = i.grp
WHERE o.fails AND (s.only IS NULL OR s.only = i.grp) GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
ORDER BY ALL
"""
Failing = tuple[int, int, str]  # environment, group, verdict before the diagnosis


@dataclass(frozen=True, slots=True)
class CellCause:
    """The id that the cases of a cell have elected with the others of their operator and direction
    (empty: none), and their agreement: ``17 of 22 cases``, empty of a single case."""

    name: str = ""
    agreement: str = ""


def elected_causes(db: duckdb.DuckDBPyConnection) -> dict[Failing, CellCause]:
    """The causes of the failing cells of the table ``shown``. All dtypes of an operator vote
    together (:func:`~consistency.diagnose.cause_vote.pool_of`)."""
    votes: dict[tuple[int, int, str, str, str], CauseVotes] = defaultdict(CauseVotes)
    admitted: dict[tuple[int, int, str, str, str], dict[Failing, set[str]]] = defaultdict(dict)
    heaviest: dict[tuple[object, ...], float] = {}
    for (
        env,
        bundle,
        operator,
        direction,
        first,
        group,
        name,
        rivals,
        weight,
        count,
        *words,
    ) in db.execute(_QUESTION).fetchall():
        pool = (env, bundle, operator, direction, first)
        ballot = Ballot(name, tuple(filter(None, rivals.split(","))), weight)
        votes[pool].counts[ballot] += count
        if name and weight > heaviest.get((*pool, name), -1.0):
            heaviest[*pool, name] = weight
            votes[pool].best[name] = Cause(name, words[0] or name, words[1] or 0.0)
        admitted[pool].setdefault((env, group, first), set()).update(ballot.named)
    causes: dict[Failing, CellCause] = {}
    for pool, of_pool in votes.items():
        elected = of_pool.elect()
        for failing, names in admitted[pool].items():
            chosen = next((one for one in elected if one.name in names), None)
            causes[failing] = CellCause() if chosen is None else _told(chosen)
    return causes


def _told(elected: Elected) -> CellCause:
    several = elected.cases > 1
    count = f"{elected.agreeing:,} of {elected.cases:,} cases" if several else ""
    return CellCause(elected.name, count)
