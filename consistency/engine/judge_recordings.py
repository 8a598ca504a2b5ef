"""Judge recordings: the reference is computed from the stored inputs, the outcomes come from the
folders.

The events are those of a run, so that screen, bundle and exit status are the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .. import operators
from ..backends.base import Backend
from ..core.model import DIRECTIONS, Case, Outcome, Result
from ..core.text import pluralize
from ..core.verdict import OutcomeStatus, Verdict, VerdictKind
from ..diagnose.diagnosis_budget import DiagnosisBudget
from ..errors import BundleError, ConsistencyError, UsageError
from ..generate.calls.case_operator import operator_of
from ..generate.calls.generic_error import GENERIC
from ..generate.materialize import Adjust, Materials
from ..judge import tolerances
from ..judge.tolerances import Tolerances
from ..operators.declare import Operator
from ..storage.recording.reading import OutcomeRow, Recording
from . import engine
from .config import RunConfig
from .events import Event, Finished, Judged, Started

EFFORT = 600.0  # seconds for diagnosing the failures of all recordings
_TELLING = (
    "crash",
    "timeout",
    "unsupported",
    "unavailable",
)  # what an outcome means without a reference


class Recorded(Backend):
    """A backend whose outcomes were recorded elsewhere: ``run`` returns the recorded outcome of the
    case; nothing can be repeated."""

    is_recorded = True

    def __init__(self, name: str, environment: Mapping[str, str], folder: Path) -> None:
        self.name, self.folder = name, folder
        self._environment = dict(environment)
        self.hand: Outcome | None = None

    def environment(self) -> dict[str, str]:
        return self._environment

    def run(
        self, operator: Operator, materials: Materials, direction: str = "forward",
        dtype: str | None = None,
        adjust: Adjust | None = None,
    ) -> Outcome:  # fmt: skip
        if self.hand is None or dtype is not None or adjust is not None:
            return Outcome(
                OutcomeStatus.UNAVAILABLE,
                message="this was recorded elsewhere and cannot be run again",
            )
        return self.hand


@dataclass(frozen=True)
class _Item:
    """One stored outcome with its recording and backend."""

    recording: Recording
    row: OutcomeRow
    backend: Recorded


# The outcomes of one case in one direction.
Group = tuple[Case, str, tuple[_Item, ...]]


@dataclass(frozen=True)
class RecordingPlan:
    """What is judged: the recordings' outcomes by case and direction, and the settings shown on the
    screen and in a bundle."""

    config: RunConfig
    groups: tuple[Group, ...]
    recordings: tuple[Recording, ...]

    @property
    def outcomes(self) -> int:
        return sum(len(items) for _, _, items in self.groups)

    def close(self) -> None:
        for recording in self.recordings:
            recording.close()


def plan(
    folders: Iterable[str | Path], patterns: Iterable[str | Operator] | None = None,
    rules: str | Path | Tolerances | None = None, ids: Iterable[str] = (),
    expectations: Iterable[str | Path] | str | Path = (),
) -> RecordingPlan:  # fmt: skip
    """Open recordings and choose outcomes by operator and by recorded id. Raises BundleError,
    UsageError or ConfigurationError."""
    recordings = tuple(Recording(folder) for folder in folders)
    if not recordings:
        raise UsageError(
            "no recording is given; `consistency record --backend X -o FOLDER` makes one"
        )
    items = [
        item
        for backends, r in zip(_recorded_backends(recordings), recordings, strict=True)
        for item in _items(r, backends)
    ]
    operators_by_name: dict[str, Operator] = {}
    for item in items:
        case = _case(item)
        operators_by_name.setdefault(case.operator, _operator_or_none(case))
    chosen = operators.select(patterns, operators_by_name)
    names, requested_ids = {o.name for o in chosen}, frozenset(ids)
    grouped: dict[tuple[str, str], list[_Item]] = {}
    cases: dict[tuple[str, str], Case] = {}
    for item in items:
        case, key = _case(item), (item.row.case_id, item.row.direction)
        if case.operator in names and (not requested_ids or item.row.id in requested_ids):
            grouped.setdefault(key, []).append(item)
            cases.setdefault(key, case)
    missing = requested_ids - {item.row.id for found in grouped.values() for item in found}
    if missing:
        raise UsageError(
            f"no outcome {sorted(missing)[0]!r:.120} in "
            f"{', '.join(str(r.folder) for r in recordings)}"
        )
    if not grouped:
        raise BundleError(f"{recordings[0].folder} holds no outcome to judge")
    loaded = tolerances.with_more(tolerances.load(rules), expectations)
    backends = tuple(dict.fromkeys(item.backend for found in grouped.values() for item in found))
    settings = RunConfig(
        tuple(chosen), backends, None, DIRECTIONS, examples=1, shrink=False, tolerances=loaded,
        tolerances_path=Path(rules) if isinstance(rules, (str, Path)) else None,
        specs={backend.name: str(backend.folder) for backend in backends}, source="recorded",
    )  # fmt: skip
    return RecordingPlan(
        settings,
        tuple((cases[key], key[1], tuple(found)) for key, found in grouped.items()),
        recordings,
    )


def events(planned: RecordingPlan, *, closer: bool = True) -> Iterator[Event]:
    """Judge everything; ``closer=False`` skips the diagnosis of causes."""
    began = time.monotonic()
    yield started_event(planned)
    diagnosis_budget = DiagnosisBudget(effort=EFFORT) if closer else None
    for group in planned.groups:
        yield from judged_group(group, planned.config.tolerances, diagnosis_budget)
    yield Finished(time.monotonic() - began, False)


def started_event(planned: RecordingPlan) -> Started:
    """The first event."""
    words = pluralize(planned.outcomes, "recorded outcome")
    title = f"{words} in {pluralize(len(planned.recordings), 'recording')}"
    return Started(planned.config, {}, len(planned.config.operators), len(planned.groups), title)


def judged_group(
    group: Group, rules: Tolerances, diagnosis_budget: DiagnosisBudget | None
) -> Iterator[Judged]:
    """The results of all outcomes of one case and direction."""
    case, direction, items = group
    for round_items in _rounds(items):
        results = _judge_group(case, direction, round_items, rules, diagnosis_budget)
        yield Judged(case, tuple(results))


def _rounds(items: Sequence[_Item]) -> Iterator[list[_Item]]:
    """Outcomes that can be judged together: one per backend. A recording may hold the same call
    more than once."""
    remaining = list(items)
    while remaining:
        round_items: dict[str, _Item] = {}
        for item in remaining:
            round_items.setdefault(item.backend.name, item)
        yield list(round_items.values())
        remaining = [item for item in remaining if round_items[item.backend.name] is not item]


def _judge_group(
    case: Case,
    direction: str,
    round_items: Sequence[_Item],
    rules: Tolerances,
    diagnosis_budget: DiagnosisBudget | None,
) -> Iterator[Result]:
    for item in round_items:
        item.backend.hand = item.recording.outcome(item.row)
    by_backend: dict[str, Result] = {}
    sound = [item for item in round_items if not item.row.problem]
    operator, reason = None, ""
    try:
        operator = operator_of(case)
    except ConsistencyError as error:
        reason = str(error)
    if operator is not None and sound:
        results = engine.judge_case(
            case,
            operator,
            [item.backend for item in sound],
            rules,
            (direction,),
            diagnosis_budget=diagnosis_budget,
        )
        by_backend = {result.backend: result for result in results}
    for item in round_items:
        result = by_backend.get(item.backend.name)
        if result is None or (result.comparison is None and item.row.outcome.status in _TELLING):
            result = without_reference(
                case, direction, item, operator, item.row.problem or reason or _reason(result)
            )
        yield replace(result, recorded_id=item.row.id)
        item.backend.hand = None


def _reason(result: Result | None) -> str:
    return (
        result.explanation
        if result is not None
        else "nobody says what a gradient of this would mean"
    )


def without_reference(
    case: Case, direction: str, item: _Item, operator: Operator | None, reason: str
) -> Result:
    """The verdict where nothing can be compared: that of the outcome itself if it has one."""
    outcome = item.row.outcome
    if outcome.status in _TELLING:
        text = ": ".join(filter(None, (outcome.exception, outcome.message))) or outcome.status
        verdict = Verdict(outcome.status)
    else:
        text, verdict = f"cannot be judged: {reason}", Verdict(VerdictKind.INCONCLUSIVE)
    family = operator.family if operator is not None else GENERIC
    return Result(case, item.backend.name, direction, verdict, text, family=family)


def _case(item: _Item) -> Case:
    return item.recording.cases[item.row.case_id]


def _operator_or_none(case: Case) -> Operator:
    """The case's operator; for an unknown name a placeholder that can only be listed."""
    from ..operators.declare import call

    try:
        return replace(operator_of(case), name=case.operator)
    except ConsistencyError:
        return Operator(
            name=case.operator, family=GENERIC, sample=lambda d: call(), dtypes=(case.dtype,)
        )


def _recorded_backends(recordings: Sequence[Recording]) -> Iterator[dict[str, Recorded]]:
    """For each recording its backend in every configuration, under distinct names: NAME,
    NAME+CONFIGURATION, NAME#2."""
    taken: set[str] = set()
    for recording in recordings:
        result = {}
        for configuration in dict.fromkeys(row.configuration for row in recording.rows):
            header = recording.header
            base = f"{header.backend}+{configuration}" if configuration else header.backend
            numbered = (
                base if number == 1 else f"{base}#{number}"
                for number in range(1, len(recordings) + 2)
            )
            name = next(name for name in numbered if name not in taken)
            taken.add(name)
            environment = {**header.environment, **header.configurations.get(configuration, {})}
            result[configuration] = Recorded(name, environment, recording.folder)
        yield result


def _items(recording: Recording, backends: Mapping[str, Recorded]) -> Iterator[_Item]:
    return (_Item(recording, row, backends[row.configuration]) for row in recording.rows)
