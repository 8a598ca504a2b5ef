"""The runs of one environment as arrays: cases × runs, with the changes of the environment."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...core.verdict import VERDICTS, Verdict
from . import outages
from .shift_test import octaves

if TYPE_CHECKING:
    import duckdb

# States of a case in a run. UNKNOWN: not in the bundle; LOST: in an outage (:mod:`.outages`).
LOST, UNKNOWN, UNTESTED, PASSED, FAILED = -3, -2, -1, 0, 1
# What repeats of a failing case gave in the same run: none made (or one only), one passed, all
# failed with several answers, all failed with the same answer.
NOT_REPEATED, PASSED_AGAIN, OTHER_ANSWERS, SAME_ANSWER = 0, 1, 2, 3
# A fact that changes in more runs than this share and this number explains no change of results.
VOLATILE_SHARE, VOLATILE_MIN = 0.2, 6
_DIGESTS = ("fingerprint.all orders", "fingerprint.hash")
MAX_CELLS = 24_000_000  # cases × runs in memory at a time
_TESTED = np.array([Verdict(name).tested for name in VERDICTS] + [True])


@dataclass(frozen=True, slots=True)
class EnvironmentRun:
    """A run of the environment: its bundle, time, path, and whether it ended.

    ``lost``: for an outage, the number of results that crashed or timed out, and of their
    operators.
    """

    bundle: int
    created: datetime.datetime
    path: str
    complete: bool
    lost: tuple[int, int] = (0, 0)

    @property
    def name(self) -> str:
        return f"{self.created:%Y-%m-%d}"


@dataclass(frozen=True, slots=True)
class EnvironmentHistory:
    """Label and backend, runs in order, and for each run its differences from the one before:
    (name, old, new)."""

    env: int
    label: str
    backend: str
    runs: tuple[EnvironmentRun, ...]
    identities: tuple[dict[str, str], ...]
    moved: tuple[tuple[tuple[str, str, str], ...], ...]

    @property
    def name(self) -> str:
        return f"{self.label} · {self.backend}"

    def spec(self, run: int = -1) -> str:
        """The backend's spec in a run: its name, ``file.py:attribute``, and the like."""
        return self.identities[run].get("spec", self.backend) if self.identities else self.backend

    def between(self, last: int, run: int) -> tuple[tuple[str, str, str], ...]:
        """The differences of a run's environment from an earlier run's."""
        return (
            self.moved[run]
            if last == run - 1
            else _moved((self.identities[last], self.identities[run]))[1]
        )

    def outage_since(self, run: int) -> int:
        """The first run of the outage that lasts up to this run."""
        while run > 0 and self.runs[run - 1].lost[0]:
            run -= 1
        return run

    def changed(self) -> NDArray[np.bool_]:
        """The runs in which a fact of the environment changed, without facts that change all the
        time."""
        counts: dict[str, int] = {}
        for rows in self.moved:
            for key, _, _ in rows:
                counts[key] = counts.get(key, 0) + 1
        limit = max(VOLATILE_MIN, VOLATILE_SHARE * len(self.runs))
        return np.array(
            [any(counts[key] < limit for key, _, _ in rows) for rows in self.moved], dtype=np.bool_
        )


@dataclass(frozen=True, slots=True)
class CaseHistories:
    """Some groups of an environment: ``state``, ``size`` (octaves of × budget, NaN if unknown) and
    ``again`` (what repeats in the same run gave) are [cases, runs].

    ``groups`` are numbers of groups, ``starts`` the first case of each, ``items`` the numbers of
    the cases.
    """

    groups: NDArray[np.int64]
    starts: NDArray[np.intp]
    items: NDArray[np.int64]
    state: NDArray[np.int8]
    size: NDArray[np.float32]
    again: NDArray[np.int8]

    def of(self, place: int) -> slice:
        """The cases of the group at ``place``."""
        stop = self.starts[place + 1] if place + 1 < len(self.starts) else len(self.items)
        return slice(int(self.starts[place]), int(stop))

    def until(self, runs: int) -> CaseHistories:
        """The same cases with only their first runs."""
        return replace(
            self, state=self.state[:, :runs], size=self.size[:, :runs], again=self.again[:, :runs]
        )


def environments(db: duckdb.DuckDBPyConnection) -> list[EnvironmentHistory]:
    """Every environment with results, by label and backend."""
    gone = outages.lost(db)
    names = db.execute(
        "SELECT env, label, backend FROM hosts WHERE env IN (SELECT env FROM outcomes) ORDER BY "
        "2, 3"
    ).fetchall()
    ran: dict[int, list[EnvironmentRun]] = {env: [] for env, _, _ in names}
    for env, bundle, created, path, complete in db.execute(
        "SELECT DISTINCT o.env, b.bundle, b.created, b.path, b.complete FROM (SELECT DISTINCT "
        "env, bundle FROM outcomes) o JOIN bundles b USING (bundle) ORDER BY b.created, b.bundle"
    ).fetchall():
        ran[env].append(
            EnvironmentRun(
                bundle, created, path, complete is not False, gone.get((env, bundle), (0, 0))
            )
        )
    identities_of: dict[tuple[int, int], dict[str, str]] = {}
    for bundle, env, name, value in db.execute(
        "SELECT bundle, env, name, value FROM identities ORDER BY ALL"
    ).fetchall():
        identities_of.setdefault((bundle, env), {})[name] = value
    result = []
    for env, label, backend in names:
        identities = tuple(identities_of.get((run.bundle, env), {}) for run in ran[env])
        result.append(
            EnvironmentHistory(env, label, backend, tuple(ran[env]), identities, _moved(identities))
        )
    return result


def _moved(identities: Sequence[dict[str, str]]) -> tuple[tuple[tuple[str, str, str], ...], ...]:
    result: list[tuple[tuple[str, str, str], ...]] = [()]
    for before, after in itertools.pairwise(identities):
        if before == after or not before or not after:
            result.append(())
            continue
        names = sorted(
            {*before, *after},
            key=lambda name: (name != "driver", name.startswith("machine."), name),
        )
        pairs = [(name, before.get(name, ""), after.get(name, "")) for name in names]
        result.append(tuple(pair for pair in _comparable(pairs) if pair[1] != pair[2]))
    return tuple(result[: len(identities)])


def _comparable(pairs: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Two identities without fingerprint facts that only one of them has, as when the other run was
    not probed.

    Hashes of all answers are compared only if both have the same questions.
    """
    one_sided = {
        name
        for name, before, after in pairs
        if name.startswith("fingerprint") and not (before and after)
    }
    return [
        pair
        for pair in pairs
        if pair[0] not in one_sided and not (one_sided and pair[0] in _DIGESTS)
    ]


def until(environment: EnvironmentHistory, runs: int) -> EnvironmentHistory:
    """The environment with only its first runs."""
    e, n = environment, runs
    return EnvironmentHistory(e.env, e.label, e.backend, e.runs[:n], e.identities[:n], e.moved[:n])


def case_histories(
    db: duckdb.DuckDBPyConnection, environment: EnvironmentHistory
) -> Iterator[CaseHistories]:
    """Cases with at least two runs, all cases of a group together, in batches of groups of limited
    size."""
    runs = len(environment.runs)
    numbers = [run.bundle for run in environment.runs]
    db.execute(
        (
            "CREATE OR REPLACE TEMP TABLE nights_of_one AS SELECT unnest(?) AS bundle, unnest(?) "
            "AS night"
        ),
        [numbers, list(range(runs))],
    )
    db.execute(
        "CREATE OR REPLACE TEMP TABLE cases_again AS SELECT i.grp, i.item FROM "
        "(SELECT item FROM outcomes JOIN nights_of_one USING (bundle) "
        "WHERE env = ? GROUP BY item HAVING count(*) > 1) JOIN items i USING (item) ORDER BY 1, 2",
        [environment.env],
    )  # fmt: skip
    cases = db.execute("SELECT grp, item FROM cases_again ORDER BY 1, 2").fetchnumpy()
    of_case, items = (
        np.asarray(cases["grp"], dtype=np.int64),
        np.asarray(cases["item"], dtype=np.int64),
    )
    groups, starts = np.unique(of_case, return_index=True)
    limit = max(MAX_CELLS // max(runs, 1), 1)
    ends = np.append(starts[1:], len(items))
    first = 0
    while first < len(groups):
        last = max(int(np.searchsorted(ends, starts[first] + limit, side="right")), first + 1)
        rows = slice(int(starts[first]), int(ends[last - 1]))
        yield _block(
            db, environment, groups[first:last], starts[first:last] - starts[first], items[rows]
        )
        first = last


def _block(
    db: duckdb.DuckDBPyConnection,
    environment: EnvironmentHistory,
    groups: NDArray[np.int64],
    starts: NDArray[np.intp],
    items: NDArray[np.int64],
) -> CaseHistories:
    rows = db.execute(
        "SELECT o.item, n.night, o.verdict, o.fails, coalesce(o.rho, -1) AS rho, "
        "o.again FROM outcomes o "
        "JOIN nights_of_one n USING (bundle) "
        "JOIN cases_again a USING (item) WHERE o.env = ? AND a.grp BETWEEN ? AND ?",
        [environment.env, int(groups[0]), int(groups[-1])],
    ).fetchnumpy()  # fmt: skip
    order = np.argsort(items)
    place = order[np.searchsorted(items, rows["item"], sorter=order)]
    run, fails, rho = (np.asarray(rows[name]) for name in ("night", "fails", "rho"))
    shape = (len(items), len(environment.runs))
    state = np.full(shape, UNKNOWN, dtype=np.int8)
    size = np.full(shape, np.nan, dtype=np.float32)
    again = np.zeros(shape, dtype=np.int8)
    tested = _TESTED[np.asarray(rows["verdict"])]
    known = np.where(tested, np.where(fails, FAILED, PASSED), UNTESTED)
    troubled = np.array([bool(one.lost[0]) for one in environment.runs])
    gone = troubled[run] & np.isin(rows["verdict"], outages.CODES)
    state[place, run] = np.where(gone, LOST, known)
    size[place, run] = np.where(
        tested & ~gone & (rho >= 0.0), octaves(np.maximum(rho, 0.0)), np.nan
    )
    again[place, run] = rows["again"]
    return CaseHistories(groups, starts, items, state, size, again)
