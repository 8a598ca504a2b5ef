"""Plays a reported bug on the cases that a run draws of its operators: after how many of them the
first result fails."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch import Tensor

from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.core.model import Outcome, Result
from consistency.core.verdict import VerdictKind
from consistency.diagnose.case_runner import judge_case
from consistency.engine import engine
from consistency.engine.config import RunConfig, examples_of
from consistency.engine.events import Judged
from consistency.engine.plan import plan
from consistency.engine.run_options import PROFILES
from consistency.generate.materialize import Materials, prepare
from consistency.judge import tolerances
from consistency.storage.corpus.corpus import Corpus
from tests.support.catalog.model import Call, Played
from tests.support.catalog.play import alike

from . import triggers
from .model import Bug

# Fresh cases of each operator × dtype in a quick run, after the shipped ones: what the README's
# first command runs.
QUICK = PROFILES["quick"]


@dataclass
class Seen:
    """What a run of ``examples`` fresh cases per operator × dtype saw of a bug.

    ``drawn``: cases; ``touched``: those in which the defect changed the result or its layout;
    ``noticed``: which case of its operator × dtype failed first, 0 where none did; ``cause``: what
    was named for it; ``forgiven``: verdicts on touched cases that do not fail; ``accused``: what
    was said of the healthy twin.
    """

    bug: Bug
    examples: int
    drawn: int = 0
    touched: int = 0
    noticed: int = 0
    first: str = ""
    cause: str = ""
    forgiven: Counter[str] = field(default_factory=Counter)
    accused: list[str] = field(default_factory=list)

    @property
    def cause_is_right(self) -> bool | None:
        """Whether the cause that was named is right; None where none is expected."""
        return self.cause in self.bug.causes if self.bug.causes and self.noticed else None


def look(bug: Bug, examples: int = QUICK, seed: int = 0, *, twin: bool = True) -> Seen:
    """The bug on the shipped cases and ``examples`` fresh ones of each of its operator × dtype
    pairs, until it is noticed; its healthy twin on the same cases."""
    seen = Seen(bug, examples)
    for config in _configurations(bug, examples, seed):
        if touched := _touched(bug, config, seen):
            _judge(bug, config, touched, seen)
        if seen.noticed:
            break
    if twin:
        for config in _configurations(bug, examples, seed, healthy=True):
            for event in engine.run(config):
                if isinstance(event, Judged):
                    seen.accused += _accusations(event)
            if seen.noticed:
                break
    return seen


def handed(bug: Bug) -> Seen | None:
    """What is said of the bug when it is handed the report's own input; None where there is
    none."""
    trigger = triggers.case(bug.issue)
    if trigger is None:
        return None
    seen = Seen(bug, 1)
    for healthy in (False, True):
        config = engine.configure(
            [operators.get(trigger.operator)],
            [bug.healthy() if healthy else bug.backend()],
            [trigger.dtype],
            bug.directions,
            shrink=False,
            corpus=Corpus("triggers", (trigger,)),
            explore=False,
        )
        if not healthy and (touched := _touched(bug, config, seen)):
            _judge(bug, config, touched, seen)
        if healthy:
            for event in engine.run(config):
                if isinstance(event, Judged):
                    seen.accused += _accusations(event)
    return seen


def _configurations(
    bug: Bug, examples: int, seed: int, *, healthy: bool = False
) -> Iterator[RunConfig]:
    """One run per operator × dtype; complex dtypes get the share that they get in a run of all."""
    for name, dtype in bug.pairs:
        if examples > QUICK and name != bug.operators[0]:  # the others are forms of it
            continue
        backend = bug.healthy() if healthy else bug.backend()
        config = engine.configure(
            [operators.get(name)],
            [backend],
            [dtype],
            bug.directions,
            examples=examples,
            seed=seed,
            shrink=False,
            long=True,
            shipped=True,
        )
        share = examples_of(dataclasses.replace(config, dtypes=None), dtype)
        yield dataclasses.replace(config, examples=share)


def _touched(bug: Bug, config: RunConfig, seen: Seen) -> set[str]:
    """The ids of the cases in which the defect shows at all, and of long ones, in which it may: a
    run without judging."""
    (backend,) = config.backends
    assert isinstance(backend, Played)
    layout = [False]
    deed = backend.deed

    def watched(call: Call) -> object:
        result = deed(call)
        if bug.layout or bug.topic == "contract":
            layout[0] |= not same_layout(result, call.run())
        return result

    backend.deed = watched
    found: set[str] = set()
    long: set[str] = set()
    for unit in plan(config, lambda: False):
        for case in unit.cases:
            if case.tiling is not None:  # too large to be compared here
                long.add(case.id)
                continue
            seen.drawn += 1
            materials = prepare(case)
            for direction in config.directions:
                layout[0] = False
                outcome = _run(backend, unit.operator, materials, direction)
                expected = _run(Cpu(), unit.operator, materials, direction)
                if layout[0] or not alike(outcome, expected):
                    found.add(case.id)
    seen.touched += len(found)
    return found | long


def _run(
    backend: Played | Cpu, operator: operators.Operator, materials: Materials, direction: str
) -> Outcome:
    return backend.run(operator, materials, direction)


def _judge(bug: Bug, config: RunConfig, touched: set[str], seen: Seen) -> None:
    """Judges the cases of a run in order, with a fresh backend, until a result fails; where the
    defect does not show, a failure that is known of torch's CPU is not the bug's."""
    number = 0
    for event in engine.run(dataclasses.replace(config, backends=(bug.backend(),))):
        if not isinstance(event, Judged):
            continue
        number += 1
        for result in event.results:
            shows = result.case.id in touched
            if result.verdict.fails and (shows or not _known_of_the_cpu(result)):
                seen.noticed = number
                seen.first = f"{result.case.operator} {result.case.dtype}"
                seen.cause = result.cause or ""
                return
            if shows and result.case.tiling is None:
                seen.forgiven[result.verdict.value] += 1


def _accusations(event: Judged) -> list[str]:
    """What is said of the healthy twin, but for defects that are known of torch's CPU: the twin is
    that CPU under a name that no entry has."""
    return [_told(r) for r in event.results if r.verdict.fails and not _known_of_the_cpu(r)]


def _known_of_the_cpu(result: Result) -> bool:
    case, rules = result.case, tolerances.load()
    operator = operators.get(case.operator)
    (own,) = judge_case(case, operator, [Cpu()], rules, (result.direction,))
    return own.verdict.kind is VerdictKind.KNOWN


def _told(result: Result) -> str:
    return f"{result.backend}: {result.verdict.value} {result.explanation}\n    {result.case.line}"


def same_layout(a: object, b: object) -> bool:
    """Whether two results have the same strides; what is not a tensor does not differ."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a.shape == b.shape and a.stride() == b.stride()
    return True
