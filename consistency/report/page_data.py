"""The data for a page's script as compact JSON: groups of every operator, and complete cases."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..core.model import Result
from ..core.model import kind as kind_of
from ..core.text import one_line, printable, quote, round_significant
from ..core.verdict import VERDICTS, Verdict, VerdictKind
from ..storage.bundle import failure_id
from . import failure
from .bundle_view import BundleView, short
from .failure_groups import FailureGroup, FailureKey
from .groups import BINS, RANKS, ReportGroup
from .page_parts import embed_json

MOST_OPERATORS = 5_000
PER_OPERATOR = 6  # failing cases of an operator in full
MOST_CASES = 2_500
MOST_BACKENDS = 200
MOST_RECIPE = 4_000  # characters
_FRAME = 90_000  # bytes of a page that are not data
_Groups = Sequence[tuple[str, str, str, ReportGroup]]  # (dtype, direction, backend, group)


def data(view: BundleView, room: int) -> dict[str, Any]:
    """The groups of every operator, worst operator first, and complete cases; about ``room``
    bytes."""
    by_operator = view.groups.by_operator()
    order = sorted(by_operator, key=lambda name: _weight(by_operator[name]), reverse=True)
    index = _Index(view.backends[:MOST_BACKENDS])
    points = min(max(int(room * 0.3) // (4 * max(len(view.groups), 1)), 3), 48)
    operators, remaining = [], room - _FRAME
    for name in order[:MOST_OPERATORS]:
        row = _operator(view, name, by_operator[name], points, index)
        remaining -= len(embed_json(row).encode()) + 1
        if remaining < 0:
            break
        operators.append(row)
    names = {row[0]: position for position, row in enumerate(operators)}
    cases = _cases(view, names, index, remaining)
    scaling = [
        [
            names[s.operator],
            index.backend(s.backend),
            round_significant(s.ratio, 4),
            s.pairs,
            s.problem,
        ]
        for s in view.summary.scalings
        if s.pairs and s.operator in names
    ]
    return {
        "ranks": RANKS, "verdicts": [*((name, Verdict(name).group) for name in VERDICTS),
        ("reduced-precision", "warned")],
        "backends": list(index.backends), "dtypes": list(index.dtypes), "bins": BINS,
        "operators": operators,
        "left_out": len(order) - len(names), "cases": cases, "scaling": scaling,
        "windows": os.name == "nt",
    }  # fmt: skip


class _Index:
    """Numbers for dtypes and backends."""

    def __init__(self, backends: Sequence[str]) -> None:
        self.dtypes: dict[str, int] = {}
        self.backends = {name: i for i, name in enumerate(backends)}

    def kind(self, dtype: str, direction: str) -> int:
        """The number of a dtype and direction."""
        return 2 * self.dtypes.setdefault(dtype, len(self.dtypes)) + (direction == "backward")

    def backend(self, name: str) -> int:
        return self.backends.setdefault(name, len(self.backends))


def _weight(groups: _Groups) -> tuple[int, float]:
    """Sort key by severity: the worst rank, then the largest × budget in it (a failure without one
    is the worst, but for a measurement on all cases)."""
    rank = max(group.rank for *_, group in groups)
    return rank, max(_size(group) for *_, group in groups if group.rank == rank)


def _size(group: ReportGroup) -> float:
    failing = {verdict for verdict, of in group.verdicts if of == RANKS[-1]}
    if group.rho is not None or failing <= {VerdictKind.PRECISION_SCALING.value}:
        return group.rho or 0.0
    return math.inf


def _operator(
    view: BundleView, name: str, groups: _Groups, points: int, index: _Index
) -> list[Any]:
    """[name, family, whether n is the number of terms, groups, budgets]"""
    by_terms = any(group.by_terms for *_, group in groups)
    rows, budgets = [], {}
    for dtype, direction, backend, group in groups:
        kind = index.kind(dtype, direction)
        counts = [
            number for key, count in group.verdicts.items() for number in (_number_of(*key), count)
        ]
        points_text = group.encoded(points) if group.by_terms == by_terms else ""
        rows.append(
            [
                kind,
                index.backend(backend),
                round_significant(group.rho, 4),
                counts,
                _histogram(group.histogram),
                points_text,
            ]
        )
        budget = view.groups.budget(name, dtype, direction)
        if budget and points_text:
            budgets[kind] = budget
    return [name, view.groups.families[name], int(by_terms), rows, budgets]


def _histogram(counts: Sequence[int]) -> str:
    """``3..12``: counts by bin without those that are zero."""
    last = max((i for i, count in enumerate(counts) if count), default=-1)
    return ".".join(str(count) if count else "" for count in counts[: last + 1])


def _number_of(verdict: str, group: str) -> int:
    """The index of a verdict in the page's list, which ends with an allowed reduced precision."""
    return (
        len(VERDICTS)
        if verdict == "reduced-precision" and group == "warned"
        else VERDICTS.index(verdict)
    )


def _cases(view: BundleView, names: Mapping[str, int], index: _Index, room: int) -> list[list[Any]]:
    """The failures of each operator, and for operators without failures the case with the largest
    error, up to ``room`` bytes."""
    chosen: dict[int, _Place] = {}  # by line of results.jsonl
    for groups in view.summary.by_operator():
        if groups[0].operator in names:
            chosen |= dict(list(_places(view, groups))[:PER_OPERATOR])
    failing = view.summary.failures.operators
    healthy = [
        (rho, line)
        for name, (rho, line) in view.highest.items()
        if name not in failing and name in names
    ]
    for _, line in sorted(healthy, reverse=True):
        chosen.setdefault(line, _Place(0, "", False))
    lines = list(chosen)[:MOST_CASES]
    results, rows = view.read_results(lines), []
    for line in lines:
        row = _case(view, results[line], chosen[line], names, index)
        room -= len(embed_json(row).encode()) + 1
        if room < 0:
            break
        rows.append(row)
    return rows


class _Place(NamedTuple):
    """Where a failure stands in its group: the number of failures of its kind, the elected cause in
    words, whether its case is a minimized one."""

    failing: int
    cause: str
    smallest: bool


def _places(view: BundleView, groups: Sequence[FailureGroup]) -> Iterator[tuple[int, _Place]]:
    """The lines of an operator's failures: of each group the worst and its smallest case, then the
    other kinds."""
    cases, later = view.summary.failures.cases, []
    for group in groups:
        cause = str(group.elected)
        for position, (key, result) in enumerate(zip(group.keys, group.results, strict=True)):
            agrees = bool(group.elected.name) and key.cause == group.elected.name
            shown = cause if agrees or not position else ""
            place = view.worst[key], _Place(cases[kind_of(result)], shown, False)
            if position:
                later.append(place)
            else:
                yield place
        small = group.smallest
        if small is not None and FailureKey.of(small) in view.smallest:
            yield view.smallest[FailureKey.of(small)], _Place(0, cause, True)
    yield from later


def _case(
    view: BundleView, result: Result, place: _Place, names: Mapping[str, int], index: _Index
) -> list[Any]:
    """[operator, kind, backend, verdict, × budget, sentence, lines, recipe, command, work-around,
    cause, number of similar failures, files, whether it is a minimized case, id]

    A command that contains the recipe is split around it.
    """
    details = map(one_line, failure.details(result))
    line, inline = result.case.line, quote(result.case.line)
    command = failure.command(
        result, bundle=view.folder, spec=view.specs.get(short(result.backend))
    )
    if len(line) > MOST_RECIPE:
        line, command = "", command.replace(inline, result.case.id)
    evidence = result.evidence
    own = str(evidence.cause) if evidence is not None and evidence.cause is not None else ""
    cause = place.cause or own
    texts = (result.explanation, "\n".join(part.strip() for part in details), line)
    return [
        names[short(result.operator)], index.kind(result.dtype, result.direction),
        index.backend(short(result.backend)),
        _number_of(result.verdict.value, result.verdict.group),
        round_significant(result.metrics.get("rho_max"), 4),
        *map(printable, texts), [printable(piece) for piece in command.split(inline, 1)],
        printable(result.workaround), printable(cause), place.failing, _files(view, result),
        int(place.smallest), printable(failure_id(result)),
    ]  # fmt: skip


def _files(view: BundleView, result: Result) -> str:
    """``failures/ID: repro.py, issue.md``: the stored files of a failure for people; empty if there
    are none."""
    folder = view.folder / "failures" / failure_id(result)
    names = [
        name
        for name in ("repro.py", "issue.md")
        if result.verdict.fails and (folder / name).is_file()
    ]
    return f"failures/{folder.name}: {', '.join(names)}" if names else ""
