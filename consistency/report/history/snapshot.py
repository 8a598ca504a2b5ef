"""The matrix: what every operator does on every environment, since when, and what has changed.

Made from a store in one go; what it found is kept in the store, and made again when the store's
bundles are other ones.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.verdict import VERDICTS, Verdict
from . import expected
from .change_points import Line, Turn, follow
from .diff.trouble import LOSSES
from .series import UNKNOWN, Environment, blocks, environments
from .store import Store

if TYPE_CHECKING:
    import duckdb

RANKS = ("not tested", "passed", "warned", "failed")
FAILED, WARNED, PASSED, NOT_TESTED = 3, 2, 1, 0
RANK_OF = [RANKS.index(Verdict(name).group) for name in VERDICTS] + [WARNED]
NAME_OF = [*VERDICTS, "reduced-precision"]
_HUGE = 1e38


@dataclass(frozen=True, slots=True)
class Group:
    """One operator × dtype × direction."""

    number: int
    operator: str
    dtype: str
    direction: str
    family: str

    @property
    def kind(self) -> str:
        return f"{self.dtype} {self.direction}"


@dataclass(slots=True)
class Cell:
    """A group in an environment, as of its last night that has it (``night``, its place among the
    environment's nights).

    ``rho`` is the largest × budget among the results of the worst rank, None without one; ``cases``
    counts those of them, ``of`` all. ``since`` is the night from which on it has failed, None where
    it does not fail; ``before`` is the last night on which it was known not to. ``turn`` is what
    changed on that night.
    """

    env: int
    group: int
    night: int
    verdict: str
    rank: int
    rho: float | None
    cases: int
    of: int
    case_id: str
    sentence: str = ""
    cause: str = ""
    workaround: str = ""
    expectation: str = ""
    since: int | None = None
    before: int | None = None
    turn: Turn | None = None
    flaky: tuple[int, int] | None = None
    odd: int = 0


@dataclass
class Board:
    """Everything the pages and the questions are about. ``cells`` and ``lines`` by (environment,
    group).

    ``expectations`` are lines about entries to remove, or to look at.
    """

    environments: Mapping[int, Environment]
    groups: Mapping[int, Group]
    cells: Mapping[tuple[int, int], Cell]
    lines: Mapping[tuple[int, int], Line] = field(default_factory=dict)
    turns: Sequence[Turn] = ()
    case_ids: Mapping[int, str] = field(default_factory=dict)
    expectations: Sequence[str] = ()

    def by_operator(self) -> dict[str, list[Group]]:
        found: dict[str, list[Group]] = defaultdict(list)
        for group in sorted(
            self.groups.values(), key=lambda one: (one.operator, one.dtype, one.direction)
        ):
            found[group.operator].append(group)
        return dict(found)

    def failing_on(self, group: int) -> list[Cell]:
        return [
            self.cells[env, group]
            for env in self.environments
            if (env, group) in self.cells and self.cells[env, group].rank == FAILED
        ]

    def last_turns(self) -> list[Turn]:
        """What changed on the last night of each environment."""
        return [
            turn for turn in self.turns if turn.night == len(self.environments[turn.env].nights) - 1
        ]


def board(store: Store) -> Board:
    """The matrix of a store."""
    found = {one.env: one for one in environments(store.db)}
    turns: list[Turn] = []
    lines: dict[tuple[int, int], Line] = {}
    shown: list[tuple[int, int, int]] = []
    for one in found.values():
        for block in blocks(store.db, one):
            mine, drawn = follow(one, block)
            turns += mine
            lines |= {(line.env, line.group): line for line in drawn}
            last = (block.state[:, ::-1] != UNKNOWN).argmax(axis=1)
            late = np.minimum.reduceat(last, block.starts) if len(block.starts) else last
            nights = len(one.nights) - 1 - late
            shown += [
                (one.env, one.nights[int(n)].bundle, int(g))
                for g, n in zip(block.groups, nights, strict=True)
                if n < len(one.nights) - 1
            ]
    turns.sort(
        key=lambda turn: (
            found[turn.env].nights[turn.night].created,
            turn.env,
            turn.group,
            turn.kind,
        )
    )
    groups = {
        row[0]: Group(*row)
        for row in store.db.execute(
            "SELECT grp, operator, dtype, direction, family FROM groups"
        ).fetchall()
    }
    cells = _cells(store.db, found, shown)
    known = expected.standings({Path(one.nights[-1].path): None for one in found.values()})
    for cell in cells.values():
        cell.expectation = expected.words(cell.expectation, known) if cell.expectation else ""
    _since(cells, turns, lines, found)
    items = {turn.item for turn in turns}
    ids = (
        dict(
            store.db.execute(
                "SELECT item, case_id FROM items WHERE list_contains(?, item)", [list(items)]
            ).fetchall()
        )
        if items
        else {}
    )
    made = Board(found, groups, cells, lines, turns, ids, expected.to_do(known))
    _keep(store, made)
    return made


def _cells(
    db: duckdb.DuckDBPyConnection,
    found: Mapping[int, Environment],
    stale: Sequence[tuple[int, int, int]],
) -> dict[tuple[int, int], Cell]:
    """The worst of every group on the last night that has it."""
    last = [(one.env, one.nights[-1].bundle, None) for one in found.values()]
    columns = [list(column) for column in zip(*last, *stale, strict=True)] or [[], [], []]
    db.execute(
        (
            "CREATE OR REPLACE TEMP TABLE shown AS SELECT unnest(?)::INT AS env, unnest(?)::INT AS "
            "bundle, unnest(?)::INT AS only"
        ),
        columns,
    )
    place = {
        (one.env, night.bundle): i for one in found.values() for i, night in enumerate(one.nights)
    }
    worst: dict[tuple[int, int], tuple[Any, ...]] = {}
    counted: dict[tuple[int, int], int] = defaultdict(int)
    for row in db.execute(
        f"SELECT o.env, i.grp, o.bundle, o.verdict, count(*), max(coalesce(o.rho, {_HUGE})), "
        f"arg_max(o.item, coalesce(o.rho, {_HUGE})) "
        "FROM outcomes o JOIN shown s ON o.env = s.env AND o.bundle = s.bundle JOIN items i USING "
        "(item) "
        "WHERE s.only IS NULL OR s.only = i.grp GROUP BY ALL"
    ).fetchall():
        key = (row[0], row[1])
        counted[key] += row[4]
        weight = (RANK_OF[row[3]], row[5])
        if key not in worst or weight > (RANK_OF[worst[key][3]], worst[key][5]):
            worst[key] = row
    items = list({row[6] for row in worst.values()})
    ids = (
        dict(
            db.execute(
                "SELECT item, case_id FROM items WHERE list_contains(?, item)", [items]
            ).fetchall()
        )
        if items
        else {}
    )
    told = _details(db)
    cells = {}
    for (env, group), (_, _, bundle, verdict, many, rho, item) in worst.items():
        words = told.get((bundle, env, item), ("", "", "", ""))
        cells[env, group] = Cell(
            env, group, place[env, bundle], NAME_OF[verdict], RANK_OF[verdict],
            None if rho >= _HUGE else float(rho), many,
            counted[env, group], ids.get(item, ""), *words,
        )  # fmt: skip
    return cells


def _details(
    db: duckdb.DuckDBPyConnection,
) -> dict[tuple[int, int, int], tuple[str, str, str, str]]:
    rows = db.execute(
        "SELECT DISTINCT d.bundle, d.env, d.item, d.sentence, d.cause, d.workaround, "
        "d.expectation FROM details d "
        "JOIN shown s ON d.env = s.env AND d.bundle = s.bundle"
    ).fetchall()
    return {
        (bundle, env, item): (sentence or "", cause, workaround, told)
        for bundle, env, item, sentence, cause, workaround, told in rows
    }


def _since(
    cells: Mapping[tuple[int, int], Cell],
    turns: Iterable[Turn],
    lines: Mapping[tuple[int, int], Line],
    found: Mapping[int, Environment],
) -> None:
    latest: dict[tuple[int, int], list[Turn]] = defaultdict(list)
    for turn in turns:
        latest[turn.env, turn.group].append(turn)
    for key, cell in cells.items():
        mine = latest.get(key, [])
        line = lines.get(key)
        if line is not None:
            cell.flaky, cell.odd = line.flaky, line.odd
        wanted = {FAILED: "new", NOT_TESTED: "untested"}.get(cell.rank)
        began = [turn for turn in mine if turn.kind == wanted] if wanted else []
        if cell.verdict in LOSSES and found[cell.env].nights[cell.night].lost[0]:
            cell.since = found[cell.env].troubled_since(cell.night)
        elif began:
            cell.turn, cell.since, cell.before = began[-1], began[-1].night, began[-1].last
        elif cell.rank == FAILED:
            cell.since = _first_failure(line) if cell.flaky or cell.odd else 0
        if cell.turn is None and mine:
            cell.turn = mine[-1]


def _first_failure(line: Line | None) -> int:
    return int((line.failing > 0).argmax()) if line is not None and (line.failing > 0).any() else 0


def stamp(store: Store) -> str:
    """Changes with the bundles in a store."""
    rows = store.db.execute("SELECT identity, signature FROM bundles ORDER BY 1").fetchall()
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def _keep(store: Store, made: Board) -> None:
    """Put what was found into the store, for questions in SQL."""
    db = store.db
    db.execute("CREATE OR REPLACE TABLE stamps AS SELECT ? AS stamp", [stamp(store)])
    turns = [
        (t.env, made.environments[t.env].nights[t.night].bundle, t.group, t.kind, t.regression,
        t.cases, t.of, _linear(t.before),
         _linear(t.after), made.case_ids.get(t.item, ""), t.moved,
         _said(made.environments[t.env].between(t.last, t.night)))
        for t in made.turns
    ]  # fmt: skip
    _fill(
        db, "turns", turns,
        "env INTEGER, bundle INTEGER, grp INTEGER, kind VARCHAR, regression BOOLEAN, cases "
        "INTEGER, "
        "of_cases INTEGER, before DOUBLE, "
        "after DOUBLE, case_id VARCHAR, environment_changed BOOLEAN, what_changed VARCHAR",
    )  # fmt: skip
    cells = [
        (c.env, made.environments[c.env].nights[c.night].bundle, c.group, c.verdict, RANKS[c.rank],
        c.rho, c.cases, c.of, c.case_id,
         c.sentence, c.cause, c.workaround,
         None if c.since is None else made.environments[c.env].nights[c.since].bundle,
         c.flaky[0] / c.flaky[1] if c.flaky else None)
        for c in made.cells.values()
    ]  # fmt: skip
    _fill(
        db, "squares", cells,
        "env INTEGER, bundle INTEGER, grp INTEGER, verdict VARCHAR, rank VARCHAR, rho DOUBLE, "
        "cases INTEGER, of_cases INTEGER, "
        "case_id VARCHAR, sentence VARCHAR, cause VARCHAR, workaround VARCHAR, since INTEGER, "
        "flaky DOUBLE",
    )  # fmt: skip


def _fill(
    db: duckdb.DuckDBPyConnection, table: str, rows: Sequence[tuple[Any, ...]], columns: str
) -> None:
    db.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")
    if rows:
        types = [column.strip().split(" ")[1] for column in columns.split(",")]
        values = [list(column) for column in zip(*rows, strict=True)]
        db.execute(
            f"INSERT INTO {table} SELECT {', '.join(f'unnest(?::{kind}[])' for kind in types)}",
            values,
        )


def _linear(octaves: float) -> float | None:
    return None if np.isnan(octaves) else float(2.0**octaves)


def _said(rows: Sequence[tuple[str, str, str]]) -> str:
    return "; ".join(f"{name} {old or 'none'} → {new or 'none'}" for name, old, new in rows[:6])
