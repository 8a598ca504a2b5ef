"""The matrix: the state of every operator in every environment, since when, and its changes.

Computed from a store and saved in it; computed again when the store's bundles change.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.model import Cause
from ...core.verdict import VERDICTS, Verdict
from ..failure_groups import without_cause
from . import known_status
from .cell_causes import CellCause, elected_causes
from .change_points import find_change_points
from .events import ChangePoint, EventKind
from .group_series import GroupSeries
from .outages import LOSSES
from .series import UNKNOWN, EnvironmentHistory, case_histories, environments
from .store import Store

if TYPE_CHECKING:
    import duckdb

RANKS = ("not tested", "passed", "warned", "failed")
FAILED, WARNED, PASSED, NOT_TESTED = 3, 2, 1, 0
RANK_OF = [RANKS.index(Verdict(name).group) for name in VERDICTS] + [WARNED]
NAME_OF = [*VERDICTS, "reduced-precision"]
_HUGE = 1e38


@dataclass(frozen=True, slots=True)
class ResultGroup:
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
class MatrixCell:
    """A group in an environment, in the last run that has results for it (``run``, an index into
    the environment's runs).

    ``rho`` is the largest × budget among the ``cases`` results of the worst rank (None without
    one); ``of`` counts all results. ``since`` is the first run of the present failure, None if it
    does not fail; ``before`` is the last run known not to fail. ``change_point`` is the latest
    change. ``case_id``, ``sentence`` and ``workaround`` are those of the worst result; ``cause`` is
    what the failing cases have elected, with their ``agreement`` ("17 of 22 cases").
    """

    env: int
    group: int
    run: int
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
    change_point: ChangePoint | None = None
    flaky: tuple[int, int] | None = None
    transient: int = 0
    agreement: str = ""


@dataclass
class Snapshot:
    """All data for pages and queries. ``cells`` and ``series`` are by (environment, group).

    ``expectations`` are lines about entries of known failures to remove or to check.
    """

    environments: Mapping[int, EnvironmentHistory]
    groups: Mapping[int, ResultGroup]
    cells: Mapping[tuple[int, int], MatrixCell]
    series: Mapping[tuple[int, int], GroupSeries] = field(default_factory=dict)
    change_points: Sequence[ChangePoint] = ()
    case_ids: Mapping[int, str] = field(default_factory=dict)
    expectations: Sequence[str] = ()

    def by_operator(self) -> dict[str, list[ResultGroup]]:
        by_operator: dict[str, list[ResultGroup]] = defaultdict(list)
        for group in sorted(
            self.groups.values(), key=lambda one: (one.operator, one.dtype, one.direction)
        ):
            by_operator[group.operator].append(group)
        return dict(by_operator)

    def failing_on(self, group: int) -> list[MatrixCell]:
        return [
            self.cells[env, group]
            for env in self.environments
            if (env, group) in self.cells and self.cells[env, group].rank == FAILED
        ]

    def last_change_points(self) -> list[ChangePoint]:
        """What is news after the last run of each environment."""
        return [
            point
            for point in self.change_points
            if point.is_news(len(self.environments[point.env].runs) - 1)
            and self._still_holds(point)
        ]

    def _still_holds(self, point: ChangePoint) -> bool:
        """Whether a failure that began earlier is there in the last run, too."""
        cell = self.cells.get((point.env, point.group))
        return point.kind is not EventKind.NEW_FAILURE or cell is None or cell.change_point is point


def snapshot(store: Store) -> Snapshot:
    """The matrix of a store."""
    by_env = {environment.env: environment for environment in environments(store.db)}
    change_points: list[ChangePoint] = []
    series: dict[tuple[int, int], GroupSeries] = {}
    stale: list[tuple[int, int, int]] = []
    for environment in by_env.values():
        for histories in case_histories(store.db, environment):
            points, group_series = find_change_points(environment, histories)
            change_points += points
            series |= {(series.env, series.group): series for series in group_series}
            last = (histories.state[:, ::-1] != UNKNOWN).argmax(axis=1)
            late = np.minimum.reduceat(last, histories.starts) if len(histories.starts) else last
            runs = len(environment.runs) - 1 - late
            stale += [
                (environment.env, environment.runs[int(n)].bundle, int(g))
                for g, n in zip(histories.groups, runs, strict=True)
                if n < len(environment.runs) - 1
            ]
    change_points.sort(
        key=lambda point: (
            by_env[point.env].runs[point.run].created,
            point.env,
            point.group,
            point.kind,
        )
    )
    groups = {
        row[0]: ResultGroup(*row)
        for row in store.db.execute(
            "SELECT grp, operator, dtype, direction, family FROM groups"
        ).fetchall()
    }
    cells = _cells(store.db, by_env, stale)
    statuses = known_status.standings(
        {Path(environment.runs[-1].path): None for environment in by_env.values()}
    )
    for cell in cells.values():
        cell.expectation = (
            known_status.words(cell.expectation, statuses) if cell.expectation else ""
        )
    _since(cells, change_points, series, by_env)
    items = {point.item for point in change_points}
    ids = (
        dict(
            store.db.execute(
                "SELECT item, case_id FROM items WHERE list_contains(?, item)", [list(items)]
            ).fetchall()
        )
        if items
        else {}
    )
    matrix = Snapshot(
        by_env, groups, cells, series, change_points, ids, known_status.to_do(statuses)
    )
    _store_results(store, matrix)
    return matrix


def _cells(
    db: duckdb.DuckDBPyConnection,
    by_env: Mapping[int, EnvironmentHistory],
    stale: Sequence[tuple[int, int, int]],
) -> dict[tuple[int, int], MatrixCell]:
    """The worst results of every group in the last run that has it."""
    last = [(environment.env, environment.runs[-1].bundle, None) for environment in by_env.values()]
    columns = [list(column) for column in zip(*last, *stale, strict=True)] or [[], [], []]
    db.execute(
        (
            "CREATE OR REPLACE TEMP TABLE shown AS SELECT unnest(?)::INT AS env, unnest(?)::INT AS "
            "bundle, unnest(?)::INT AS only"
        ),
        columns,
    )
    place = {
        (environment.env, run.bundle): i
        for environment in by_env.values()
        for i, run in enumerate(environment.runs)
    }
    worst: dict[tuple[int, int], tuple[Any, ...]] = {}
    counted: dict[tuple[int, int], int] = defaultdict(int)
    for row in db.execute(
        f"SELECT o.env, i.grp, o.bundle, o.verdict, count(*), max(coalesce(o.rho, {_HUGE})), "
        f"arg_max(o.item, coalesce(o.rho, {_HUGE})) FROM outcomes o JOIN shown s ON o.env = s.env "
        "AND o.bundle = s.bundle JOIN items i USING (item) WHERE s.only IS NULL OR s.only = i.grp "
        "GROUP BY ALL"
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
    details, causes = _details(db), elected_causes(db)
    cells = {}
    for (env, group), (_, _, bundle, verdict, count, rho, item) in worst.items():
        told = details.get((bundle, env, item), _NOTHING_TOLD)
        elected = causes.get((env, group, told.first), CellCause())
        failed = RANK_OF[verdict] == FAILED
        cells[env, group] = MatrixCell(
            env, group, place[env, bundle], NAME_OF[verdict], RANK_OF[verdict],
            None if rho >= _HUGE else float(rho), count, counted[env, group], ids.get(item, ""),
            told.sentence_with(elected.name) if failed else told.sentence,
            elected.name if failed else told.cause, told.workaround, told.expectation,
            agreement=elected.agreement if failed else "",
        )  # fmt: skip
    return cells


@dataclass(frozen=True, slots=True)
class _Told:
    """What a store knows of one result: its sentence, its own cause (in ``words``, with its
    ``share``), and the verdict before its diagnosis."""

    sentence: str
    cause: str
    workaround: str
    expectation: str
    first: str
    words: str
    share: float

    def sentence_with(self, elected: str) -> str:
        """The sentence, without its own cause where that is not the elected one."""
        if self.cause == elected or not self.words:
            return self.sentence
        return without_cause(self.sentence, str(Cause(self.cause, self.words, self.share)))


_NOTHING_TOLD = _Told("", "", "", "", "", "", 0.0)


def _details(db: duckdb.DuckDBPyConnection) -> dict[tuple[int, int, int], _Told]:
    rows = db.execute(
        "SELECT DISTINCT d.bundle, d.env, d.item, coalesce(d.sentence, ''), d.cause, d.workaround, "
        "d.expectation, d.first, d.words, coalesce(d.share, 0) "
        "FROM details d JOIN shown s ON d.env = s.env AND d.bundle = s.bundle"
    ).fetchall()
    return {(bundle, env, item): _Told(*told) for bundle, env, item, *told in rows}


def _since(
    cells: Mapping[tuple[int, int], MatrixCell],
    change_points: Iterable[ChangePoint],
    all_series: Mapping[tuple[int, int], GroupSeries],
    by_env: Mapping[int, EnvironmentHistory],
) -> None:
    latest: dict[tuple[int, int], list[ChangePoint]] = defaultdict(list)
    for point in change_points:
        latest[point.env, point.group].append(point)
    for key, cell in cells.items():
        points = latest.get(key, [])
        series = all_series.get(key)
        if series is not None:
            cell.flaky, cell.transient = series.flaky, series.transient
        expected_kind = {FAILED: EventKind.NEW_FAILURE, NOT_TESTED: EventKind.UNTESTED}.get(
            cell.rank
        )
        starts = [point for point in points if point.kind is expected_kind] if expected_kind else []
        if cell.verdict in LOSSES and by_env[cell.env].runs[cell.run].lost[0]:
            cell.since = by_env[cell.env].outage_since(cell.run)
        elif starts:
            cell.change_point, cell.since, cell.before = starts[-1], starts[-1].run, starts[-1].last
        elif cell.rank == FAILED:
            cell.since = _first_failure(series) if cell.flaky or cell.transient else 0
        if cell.change_point is None and points:
            cell.change_point = points[-1]


def _first_failure(series: GroupSeries | None) -> int:
    return (
        int((series.failing > 0).argmax())
        if series is not None and (series.failing > 0).any()
        else 0
    )


def stamp(store: Store) -> str:
    """A hash of the bundles in a store."""
    rows = store.db.execute("SELECT identity, signature FROM bundles ORDER BY 1").fetchall()
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def _store_results(store: Store, matrix: Snapshot) -> None:
    """Save the matrix in the store for queries in SQL."""
    db = store.db
    db.execute("CREATE OR REPLACE TABLE stamps AS SELECT ? AS stamp", [stamp(store)])
    change_points = [
        (t.env, matrix.environments[t.env].runs[t.run].bundle, t.group, t.kind, t.regression,
        t.cases, t.of, _linear(t.before),
         _linear(t.after), matrix.case_ids.get(t.item, ""), t.moved,
         _facts_text(matrix.environments[t.env].between(t.last, t.run)), t.nights)
        for t in matrix.change_points
    ]  # fmt: skip
    _fill(
        db, "change_points", change_points,
        "env INTEGER, bundle INTEGER, grp INTEGER, kind VARCHAR, regression BOOLEAN, cases "
        "INTEGER, of_cases INTEGER, before DOUBLE, after DOUBLE, case_id VARCHAR, "
        "environment_changed BOOLEAN, what_changed VARCHAR, nights INTEGER",
    )  # fmt: skip
    cells = [
        (c.env, matrix.environments[c.env].runs[c.run].bundle, c.group, c.verdict, RANKS[c.rank],
        c.rho, c.cases, c.of, c.case_id,
         c.sentence, c.cause, c.workaround,
         None if c.since is None else matrix.environments[c.env].runs[c.since].bundle,
         c.flaky[0] / c.flaky[1] if c.flaky else None)
        for c in matrix.cells.values()
    ]  # fmt: skip
    _fill(
        db, "stored_cells", cells,
        "env INTEGER, bundle INTEGER, grp INTEGER, verdict VARCHAR, rank VARCHAR, rho DOUBLE, "
        "cases INTEGER, of_cases INTEGER, case_id VARCHAR, sentence VARCHAR, cause VARCHAR, "
        "workaround VARCHAR, since INTEGER, flaky DOUBLE",
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


def _facts_text(rows: Sequence[tuple[str, str, str]]) -> str:
    return "; ".join(f"{name} {old or 'none'} → {new or 'none'}" for name, old, new in rows[:6])
