"""The values for the site's templates: the latest runs, an operator, the environments."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ...core.text import format_factor, pluralize
from .events import REGRESSIONS, ChangePoint, EventKind
from .matrix_data import because
from .outages import describe
from .query_entries import command, flaky, latest_event, since
from .series import EnvironmentHistory
from .series_chart import description, series_chart, sparkline
from .snapshot import FAILED, NOT_TESTED, RANKS, MatrixCell, ResultGroup, Snapshot

NOUNS = {
    EventKind.NEW_FAILURE: ("new failure", "new failures"),
    EventKind.ERROR_GREW: ("larger error", "larger errors"),
    EventKind.UNTESTED: ("loss of testing", "losses of testing"),
}
STALE_HOURS = 40
MAX_ROWS, MAX_CHARTS, MAX_KEYS = 200, 24, 60


def latest_page(snapshot: Snapshot, files: Mapping[str, str]) -> dict[str, Any]:
    """The changes in the last run of every environment."""
    newest = max((one.runs[-1].created for one in snapshot.environments.values()), default=None)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    late = {}
    for one in snapshot.environments.values():
        if (
            newest is not None
            and (newest - one.runs[-1].created).total_seconds() > STALE_HOURS * 3600
        ):
            late[one.env] = one
    for point in snapshot.last_change_points():
        if point.env not in late:
            rows[point.kind].append(_change_point_row(snapshot, point, files))
    for cell in snapshot.cells.values():
        if cell.env not in late and (
            latest_event(snapshot.environments[cell.env], cell) == EventKind.TRANSIENT
        ):
            rows[EventKind.TRANSIENT].append(_transient_row(snapshot, cell, files))
    for kind_rows in rows.values():
        kind_rows.sort(key=lambda row: (-row["order"], row["operator"], row["environment"]))
    parts = [
        _head(name) | {"rows": rows[name][:MAX_ROWS], "more": max(len(rows[name]) - MAX_ROWS, 0),
         "count": len(rows[name])}
        for name in EventKind if rows.get(name)
    ]  # fmt: skip
    troubled = [
        one
        for one in snapshot.environments.values()
        if one.env not in late and one.runs[-1].lost[0]
    ]
    known_cells = [
        cell for cell in snapshot.cells.values() if cell.expectation or cell.verdict == "known"
    ]
    return {
        "night": newest.strftime("%Y-%m-%d") if newest else "", "parts": parts,
        "summary": _summary(snapshot, rows, len(troubled)),
        "troubled": [_in_trouble(one) for one in troubled],
        "to_do": list(snapshot.expectations)[:MAX_ROWS],
        "bad": bool(troubled) or any(rows.get(name) for name in REGRESSIONS),
        "good": not any(cell.rank == FAILED for cell in snapshot.cells.values()),
        "late": list(late.values()),
        "moved": [(one,
        one.moved[-1][:12]) for one in snapshot.environments.values()
        if one.env not in late and one.moved[-1]],
        "flaky": _flaky(snapshot, files)[:MAX_ROWS], "expected": [_cell_row(snapshot, cell,
        files) for cell in known_cells][:MAX_ROWS],
        "failing": sum(cell.rank == FAILED for cell in snapshot.cells.values()),
        "nights": max((len(e.runs) for e in snapshot.environments.values()), default=0),
        "environments": len(snapshot.environments), "operators": len(files),
        "worst": _worst(snapshot, files),
    }  # fmt: skip


def _head(kind: EventKind) -> dict[str, Any]:
    return {"kind": kind, "title": kind.heading, "mark": kind.mark}


def earlier_events(
    snapshot: Snapshot, files: Mapping[str, str], most: int = MAX_ROWS
) -> list[dict[str, Any]]:
    """Rows of the changes of earlier nights, the newest first, each with its ``event``: kind, title
    and mark. What the latest runs tell is not among them."""
    told = {id(point) for point in snapshot.last_change_points()}
    points = [point for point in snapshot.change_points if id(point) not in told]
    points.sort(key=lambda point: _began(snapshot, point), reverse=True)
    return [
        _change_point_row(snapshot, point, files) | {"event": _head(point.kind)}
        for point in points[:most]
    ]


def _began(snapshot: Snapshot, point: ChangePoint) -> datetime:
    return snapshot.environments[point.env].runs[point.run].created


def _in_trouble(one: EnvironmentHistory) -> dict[str, str]:
    """One line about an outage in the last run."""
    began = one.outage_since(len(one.runs) - 1)
    return {
        "name": one.name, "words": describe(*one.runs[-1].lost),
        "since": one.runs[began].name, "why": because(one, began, max(began - 1, 0)),
    }  # fmt: skip


def _summary(
    snapshot: Snapshot, rows: Mapping[str, Sequence[Mapping[str, Any]]], troubled: int
) -> str:
    if not snapshot.environments:
        return "No run has any result"
    counts = {kind: len(rows.get(kind, ())) for kind in NOUNS}
    parts = [pluralize(count, *NOUNS[kind]) for kind, count in counts.items() if count]
    parts += [f"{pluralize(troubled, 'machine')} in trouble"] if troubled else []
    if not parts:
        once, failing = (
            len(rows.get(EventKind.TRANSIENT, ())),
            sum(cell.rank == FAILED for cell in snapshot.cells.values()),
        )
        known = [pluralize(failing - once, "older failure")] if failing > once else []
        which = (
            _joined([*known, *([pluralize(once, "first failure")] if once else [])])
            if failing
            else ""
        )
        return (
            f"Nothing {'certain' if once else 'new'} in the "
            f"latest runs{': ' + which if which else ', and nothing fails'}"
        )
    return f"{_joined(parts)} in the latest runs"


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _worst(snapshot: Snapshot, files: Mapping[str, str]) -> list[dict[str, Any]]:
    """The six worst failing operators, one line each."""
    worst_cells: dict[str, MatrixCell] = {}
    for cell in snapshot.cells.values():
        name = snapshot.groups[cell.group].operator
        if (
            cell.rank == FAILED
            and name in files
            and (name not in worst_cells or _size(cell) > _size(worst_cells[name]))
        ):
            worst_cells[name] = cell
    chosen = sorted(worst_cells.values(), key=lambda cell: -_size(cell))[:6]
    return [_cell_row(snapshot, cell, files) for cell in chosen]


def _size(cell: MatrixCell) -> float:
    return math.inf if cell.rho is None else cell.rho


def _change_point_row(
    snapshot: Snapshot, point: ChangePoint, files: Mapping[str, str]
) -> dict[str, Any]:
    environment, group = (
        snapshot.environments[point.env],
        snapshot.groups[point.group],
    )
    cell = snapshot.cells.get((point.env, point.group))
    return {
        "operator": group.operator, "kind": group.kind, "environment": environment.name,
        "file": files.get(group.operator, ""),
        "numbers": f"{octaves(point.before)} → {octaves(point.after)}",
        "cases": f"{point.cases} of {point.of}",
        "age": point.age if point.kind is EventKind.NEW_FAILURE else "",
        "why": because(environment, point.run, point.last), "cause": cell.cause if cell else "",
        "agreement": cell.agreement if cell else "",
        "workaround": cell.workaround if cell else "",
        "expectation": cell.expectation if cell else "",
        "also": _also(snapshot, point.env, point.group),
        "order": point.after if point.after == point.after else 99.0,
        "night": environment.runs[point.run].name,
        "command": command(snapshot, cell) if cell else "",
    }  # fmt: skip


def _transient_row(
    snapshot: Snapshot, cell: MatrixCell, files: Mapping[str, str]
) -> dict[str, Any]:
    row = _cell_row(snapshot, cell, files)
    return row | {
        "numbers": row["now"], "cases": f"{cell.transient} of {cell.of}",
        "why": _DOUBT, "age": "",
        "order": cell.rho or 99.0, "also": _also(snapshot, cell.env, cell.group),
    }  # fmt: skip


# Why a first failure is not certain yet.
_DOUBT = "it never failed before, and nothing changed in the environment: the next run decides"


def _also(snapshot: Snapshot, env: int, group: int) -> list[str]:
    """Other environments in which it fails, and since when."""
    others = []
    for cell in snapshot.failing_on(group):
        if cell.env != env:
            environment = snapshot.environments[cell.env]
            began = since(environment, cell)
            others.append(f"{environment.name}{f' since {began}' if cell.since else ''}")
    return [*others[:4], *([f"{len(others) - 4} more"] if len(others) > 4 else [])]


def _flaky(snapshot: Snapshot, files: Mapping[str, str]) -> list[dict[str, Any]]:
    chosen = [cell for cell in snapshot.cells.values() if cell.flaky]
    chosen.sort(key=lambda cell: -(flaky(cell) or 0.0))
    return [_cell_row(snapshot, cell, files) for cell in chosen]


def _cell_row(snapshot: Snapshot, cell: MatrixCell, files: Mapping[str, str]) -> dict[str, Any]:
    environment, group = snapshot.environments[cell.env], snapshot.groups[cell.group]
    return {
        "operator": group.operator, "kind": group.kind, "environment": environment.name,
        "file": files.get(group.operator, ""),
        "now": "–" if cell.rank == NOT_TESTED else _rho(cell.rho), "verdict": cell.verdict,
        "rank": RANKS[cell.rank],
        "since": since(environment, cell), "why": because(environment, cell.since,
        cell.before) if cell.since else "",
        "sentence": cell.sentence,
        "cause": cell.cause, "agreement": cell.agreement, "workaround": cell.workaround,
        "expectation": cell.expectation,
        "flaky": cell.flaky,
        "night": environment.runs[cell.run].name, "command": command(snapshot, cell),
        "stale": cell.run != len(environment.runs) - 1,
        "also": _also(snapshot, cell.env, cell.group) if cell.rank == FAILED else [],
    }  # fmt: skip


def _rho(value: float | None) -> str:
    return "no number" if value is None else format_factor(value)


def octaves(value: float) -> str:
    return "?" if math.isnan(value) else format_factor(2.0**value)


def operator_page(
    snapshot: Snapshot,
    groups: Sequence[ResultGroup],
    links: Mapping[tuple[int, int], tuple[str, ...]],
) -> dict[str, Any]:
    """An operator's tables and charts, by dtype and direction."""
    group_numbers = {group.number for group in groups}
    change_points: dict[tuple[int, int], list[ChangePoint]] = defaultdict(list)
    for point in snapshot.change_points:
        if point.group in group_numbers:
            change_points[point.env, point.group].append(point)
    charts_left = MAX_CHARTS
    kinds: list[dict[str, Any]] = []
    for group in groups:
        rows, charts = [], []
        for env, environment in snapshot.environments.items():
            cell, series = (
                snapshot.cells.get((env, group.number)),
                snapshot.series.get((env, group.number)),
            )
            if cell is None:
                continue
            happened = change_points.get((env, group.number), [])
            row = _cell_row(snapshot, cell, {}) | {
                "small": sparkline(series) if series is not None else "",
                "files": links.get((env, group.number), ()),
            }
            rows.append(row)
            if (
                series is not None
                and (happened or cell.rank == FAILED or cell.flaky)
                and charts_left > 0
            ):
                charts_left -= 1
                notes = [
                    _change_point_note(snapshot, environment, point) for point in happened[-12:]
                ]
                charts.append(
                    {
                        "environment": environment.name,
                        "svg": series_chart(environment, series, happened),
                        "words": description(environment, happened),
                        "changes": notes,
                        "row": row,
                    }
                )
        rows.sort(key=lambda row: -RANKS.index(row["rank"]))
        kinds.append({"name": group.kind, "rows": rows, "charts": charts})
    kinds.sort(key=lambda kind: all(row["rank"] != RANKS[FAILED] for row in kind["rows"]))
    worst = max(
        (
            cell.rank
            for env in snapshot.environments
            for g in groups
            if (cell := snapshot.cells.get((env, g.number)))
        ),
        default=0,
    )
    return {
        "kinds": kinds,
        "family": groups[0].family,
        "failed": worst == FAILED,
        "one_night": not any(k["charts"] for k in kinds),
    }


def _change_point_note(
    snapshot: Snapshot, environment: EnvironmentHistory, point: ChangePoint
) -> dict[str, Any]:
    return {
        "night": environment.runs[point.run].name, "kind": point.kind,
        "title": point.kind.heading, "mark": point.kind.mark,
        "regression": point.regression,
        "numbers": f"{octaves(point.before)} → {octaves(point.after)}",
        "cases": f"{point.cases} of {point.of}",
        "why": because(environment, point.run, point.last),
        "case": snapshot.case_ids.get(point.item, ""),
    }  # fmt: skip


def environments_page(snapshot: Snapshot) -> dict[str, Any]:
    """The differences between environments, and the changes in each."""
    last = {one.env: dict(one.identities[-1]) for one in snapshot.environments.values()}
    values: dict[str, set[str]] = defaultdict(set)
    for identity in last.values():
        for name, value in identity.items():
            values[name].add(value)
    shared = {
        name
        for name, found in values.items()
        if len(found) == 1 and all(name in identity for identity in last.values())
    }
    rows = []
    for one in snapshot.environments.values():
        states = Counter(
            RANKS[cell.rank] for (env, _), cell in snapshot.cells.items() if env == one.env
        )
        facts = [
            (name, value)
            for name, value in last[one.env].items()
            if name not in shared or len(last) == 1
        ]
        moved = [
            (run.name, pairs[:8]) for run, pairs in zip(one.runs, one.moved,
            strict=True) if pairs
        ][-10:][::-1]  # fmt: skip
        rows.append({
            "name": one.name, "nights": len(one.runs), "first": one.runs[0].name,
            "last": one.runs[-1].name,
            "states": [(state, states[state]) for state in reversed(RANKS) if states[state]],
            "facts": [pair for pair in facts if not pair[0].startswith("fingerprint")][:MAX_KEYS],
            "fingerprint": [
                pair for pair in last[one.env].items() if pair[0].startswith("fingerprint")
            ][:MAX_KEYS],
            "moved": moved, "complete": one.runs[-1].complete,
            "text": " ".join([one.name, *(f"{name} {value}" for name,
            value in last[one.env].items())]).lower()[:4000],
        })  # fmt: skip
    shared_facts = (
        [(name, next(iter(values[name]))) for name in sorted(shared)] if len(last) > 1 else []
    )
    return {"rows": rows, "same": shared_facts[:MAX_KEYS]}
