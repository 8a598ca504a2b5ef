"""The data for the index's script as compact JSON: operators by environments, with a sparkline of
each operator's history."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.text import quote, round_significant
from ...core.verdict import VERDICTS
from ..page_parts import embed_json
from .events import EventKind
from .query_entries import flaky, identity_of, latest_event, names, since
from .series import EnvironmentHistory
from .snapshot import FAILED, RANK_OF, RANKS, WARNED, MatrixCell, ResultGroup, Snapshot

ROOM = 6_000_000  # bytes of the index
POINTS = 40  # of a sparkline
SENTENCE = 220
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
LOWEST, STEP = -10.0, 0.5  # octaves of × budget: value of digit A, distance between digits


def data(
    snapshot: Snapshot, files: Mapping[str, str], links: Mapping[tuple[int, int], tuple[str, ...]]
) -> dict[str, Any]:
    """The JSON of the index. Operators whose cells do not fit are counted in ``left_out``."""
    order = sorted(
        (entry for entry in snapshot.by_operator().items() if entry[0] in files),
        key=lambda item: _weight(snapshot, item[1]),
    )
    places = {env: i for i, env in enumerate(snapshot.environments)}
    texts = _Texts()
    operators, remaining = [], ROOM
    for name, groups in order:
        cells = [
            [place, *_cell(snapshot, cell, places[env], texts, links.get((env, group.number), ()))]
            for place, group in enumerate(groups)
            for env in snapshot.environments
            if (cell := snapshot.cells.get((env, group.number))) is not None
        ]
        past = [
            past_of(
                [
                    snapshot.series[env, g.number]
                    for g in groups
                    if (env, g.number) in snapshot.series
                ]
            )
            for env in snapshot.environments
        ]
        row = [
            name,
            groups[0].family,
            files[name],
            [[g.dtype, g.direction] for g in groups],
            cells,
            past,
        ]
        remaining -= len(embed_json(row)) + 1
        if remaining < 0:
            break
        operators.append(row)
    return {
        "ranks": RANKS,
        "verdicts": [*([name, RANKS[RANK_OF[i]]] for i, name in enumerate(VERDICTS)),
        ["reduced-precision", RANKS[WARNED]]],
        "environments": [_environment(entry) for entry in snapshot.environments.values()],
        "operators": operators, "texts": texts.all,
        "names": names(snapshot), "left_out": len(files) - len(operators),
    }  # fmt: skip


class _Texts:
    """Numbers for repeated texts."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {"": 0}

    def __call__(self, text: str) -> int:
        return self._known.setdefault(text, len(self._known))

    @property
    def all(self) -> list[str]:
        return list(self._known)


def _weight(snapshot: Snapshot, groups: list[ResultGroup]) -> tuple[int, float, str]:
    """Sort key: new failures first, then failures by × budget, warnings, and the rest."""
    cells = [
        cell
        for env in snapshot.environments
        for g in groups
        if (cell := snapshot.cells.get((env, g.number))) is not None
    ]
    fresh = any(
        cell.change_point is not None and cell.change_point.regression and _is_news(snapshot, cell)
        for cell in cells
    )
    rank = max((cell.rank for cell in cells), default=0)
    rho = max(
        (
            math.inf if cell.rho is None and rank == FAILED else cell.rho or 0.0
            for cell in cells
            if cell.rank == rank
        ),
        default=0.0,
    )
    return (-8 if fresh else 0) - rank, -rho, groups[0].operator


def _is_news(snapshot: Snapshot, cell: MatrixCell) -> bool:
    return cell.change_point is not None and cell.change_point.is_news(
        len(snapshot.environments[cell.env].runs) - 1
    )


def _environment(env: EnvironmentHistory) -> dict[str, Any]:
    last = env.runs[-1]
    return {
        "name": env.name, "label": env.label, "backend": env.backend, "night": last.name,
        "nights": len(env.runs), "parts": nights_of(env), "known": known_by(env),
        "identity": identity_of(env), "path": quote(last.path), "spec": quote(env.spec()),
    }  # fmt: skip


def _cell(
    snapshot: Snapshot, cell: MatrixCell, place: int, texts: _Texts, links: tuple[str, ...]
) -> list[Any]:
    """[environment, verdict, × budget, cases, of, case id], and {…} with further fields if there
    are any."""
    environment = snapshot.environments[cell.env]
    verdict = (
        len(VERDICTS)
        if cell.verdict == "reduced-precision" and cell.rank == WARNED
        else VERDICTS.index(cell.verdict)
    )
    extra: dict[str, Any] = {}
    if (run := since(environment, cell)) is not None:
        extra["since"] = run
        extra["because"] = (
            texts(because(environment, cell.since or 0, cell.before)) if cell.since else 0
        )
    for name, value in (
        ("cause", cell.cause),
        ("agreement", cell.agreement),
        ("workaround", cell.workaround),
        ("sentence", cell.sentence[:SENTENCE]),
    ):
        if value:
            extra[name] = texts(value)
    if cell.expectation:
        extra["expectation"] = texts(cell.expectation)
    if (event := latest_event(environment, cell)) != "":
        extra["kind"] = event
        if event == EventKind.NEW_FAILURE and cell.change_point is not None:
            extra["age"] = texts(cell.change_point.age)
    if (rate := flaky(cell)) is not None:
        extra["flaky"] = round(rate, 3)
    if cell.run != len(environment.runs) - 1:
        extra["night"], extra["path"] = (
            environment.runs[cell.run].name,
            texts(quote(environment.runs[cell.run].path)),
        )
    if links:
        extra["files"] = list(links)
    row = [place, verdict, round_significant(cell.rho, 3), cell.cases, cell.of, cell.case_id]
    return [*row, extra] if extra else row


def because(environment: EnvironmentHistory, run: int, last: int | None = None) -> str:
    """The changes of the environment from run ``last`` (default: the one before) to ``run``, in a
    few words."""
    rows = environment.between(run - 1 if last is None else last, run)
    words = "; ".join(f"{name} {old or 'none'} → {new or 'none'}" for name, old, new in rows[:3])
    return (
        f"{words}{f' and {len(rows) - 3} more' if len(rows) > 3 else ''}"
        if words
        else "nothing changed in the environment"
    )


def past_of(series: list[Any]) -> str:
    """One character for each of at most POINTS ranges of runs: the largest × budget, or a full stop
    if nothing ran."""
    if not series:
        return ""
    largest = np.fmax.reduce([series.largest for series in series])
    failing = np.add.reduce([series.failing for series in series])
    # A failure without a number is shown just beyond the budget.
    largest = np.where((failing > 0) & ~(largest > 0.0), 0.5, largest)
    parts = np.array_split(largest, min(POINTS, len(largest)))
    return "".join(_letter(part) for part in parts)


def nights_of(env: EnvironmentHistory) -> list[list[str]]:
    """The first and the last night of each range of runs that :func:`past_of` has a character
    for."""
    names = [run.name for run in env.runs]
    parts = np.array_split(np.arange(len(names)), min(POINTS, len(names)))
    return [[names[part[0]], names[part[-1]]] for part in parts]


def known_by(env: EnvironmentHistory) -> str:
    """``driver 31.0.15 · torch 2.13.0``, as far as they are known."""
    last = env.identities[-1] if env.identities else {}
    return " · ".join(f"{name} {last[name]}"[:60] for name in ("driver", "torch") if last.get(name))


def _letter(part: NDArray[np.float32]) -> str:
    measured = part[~np.isnan(part)]
    if not len(measured):
        return "."
    return DIGITS[int(min(max(math.ceil((float(measured.max()) - LOWEST) / STEP - 1e-6), 0), 63))]
