"""A work unit in an environment: what is sent to a worker, which results arrived, and the retries
after a worker was lost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ....core.codec import pack_cases
from ....core.detail import Detail
from ....core.model import Case, Key, Result
from ....core.verdict import Verdict, VerdictKind
from ...config import directions_of
from ...events import Event, Judged, numbered
from ...unit_cases import drawn
from ...work_unit import WorkUnit
from .environments import BackendGroup, WorkerEnvironment
from .serialization import Json, rows_of

LOSSES = 2  # lost workers after which the cases are split


@dataclass(eq=False)
class Job:
    """``serial`` is the number of the unit in the run. ``emitted`` are the results already
    reported, which a further attempt reports again; ``settled`` are their cases, ``refused`` the
    backends and directions that do not offer the operator.

    ``plain``: only the cases are judged, without the measurements of a whole unit, because its
    other cases are judged elsewhere. ``received`` counts messages of this attempt.
    """

    number: int
    serial: int
    environment: WorkerEnvironment
    backend_group: BackendGroup
    unit: WorkUnit
    plain: bool = False
    first: bool = True
    losses: int = 0
    attempt: int = 0
    address: str = ""
    received: int = 0
    emitted: set[Key] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)
    refused: set[tuple[str, str]] = field(default_factory=set)
    held: list[Event] = field(default_factory=list)
    end: Json | None = None
    since: float = 0.0

    @property
    def token(self) -> str:
        return f"{self.number}.{self.attempt}"

    @property
    def known(self) -> dict[str, Case]:
        return {case.id: case for case in self.unit.cases}

    @property
    def directions(self) -> tuple[str, ...]:
        return directions_of(self.environment.config, self.unit.operator, self.unit.dtype)

    def pack(self, seconds: float | None) -> tuple[str, list[bytes]]:
        """The unit as sent to a worker, without the configuration of the run; ``seconds`` remain of
        the time budget."""
        unit, earlier = self.unit, self.environment.resume.results
        further = unit.fresh.further if unit.fresh else ()
        packed, blobs = pack_cases((*unit.cases, *further))
        keys = [
            (case.id, name, d)
            for case in unit.cases
            for name in self.backend_group.backends
            for d in self.directions
        ]
        round_number = unit.round if self.first else max(unit.round, 1)
        header = {
            "kind": "judge", "operator": unit.operator.name,
            "dtype": unit.dtype, "round": round_number,
            "problem": unit.problem, "backends": list(self.backend_group.backends),
            "directions": list(self.directions),
            "origin": unit.origin, "seed": unit.seed, "part": unit.part, "more": unit.more,
            "fresh": None if unit.fresh is None else {
                "examples": unit.fresh.examples, "excluded": unit.fresh.excluded,
                "after": len(unit.cases),
            },
            "ids": [case.id for case in unit.cases], "plain": self.plain, "seconds": seconds,
            "effort": self.environment.effort,
            "searched": [
                list(kind)
                for kind in self.environment.searched
                if kind[:2] == (unit.operator.name, unit.dtype)
            ],
            "earlier": rows_of(earlier[key] for key in keys if key in earlier),
        }  # fmt: skip
        return json.dumps(header | packed), blobs

    def accept(self, event: Event) -> Event | None:
        """The new part of an event. Events about the whole unit are held back until it is done."""
        if not isinstance(event, Judged):
            self.held.append(numbered(event, self.serial))
            return None
        new: dict[Key, Result] = {}
        for result in event.results:
            key = result.key
            if key in self.emitted:
                continue
            if _refused(result):
                if key[1:] in self.refused:
                    continue
                self.refused.add((result.backend, result.direction))
            if result.comparison is not None or result.verdict.tested:
                self.settled.add(result.case.id)
            new[key] = result
        self.emitted.update(new)
        if not new:
            return None
        return replace(event, results=tuple(new.values()), unit=self.serial)

    def whole(self) -> WorkUnit:
        """The unit with its fresh cases, drawn here where no worker has drawn them."""
        self.unit = drawn(self.unit)
        return self.unit

    def leave_undrawn(self) -> None:
        """Do without fresh cases, whose drawing ended a process: a case without arguments stands
        for them where the unit has no others."""
        unit = self.unit
        if unit.fresh is not None:
            cases = (*unit.cases, *unit.fresh.further) or (Case(unit.operator.name, unit.dtype),)
            self.unit = replace(unit, cases=cases, fresh=None)

    def restart(self) -> None:
        """Discard what this attempt has reported."""
        self.attempt += 1
        self.received, self.end, self.held, self.address = 0, None, [], ""

    def split(self, numbers: Sequence[int]) -> list[Job]:
        """Two jobs, each with half of the unsettled cases; one more loss splits them again."""
        cases = [case for case in self.unit.cases if case.id not in self.settled]
        half = (len(cases) + 1) // 2
        jobs = []
        for number, some in zip(numbers, (cases[:half], cases[half:]), strict=True):
            unit = replace(self.unit, cases=tuple(some))
            job = Job(
                number,
                self.serial,
                self.environment,
                self.backend_group,
                unit,
                True,
                self.first and number == numbers[0],
                LOSSES - 1,
            )
            job.emitted, job.settled, job.refused = self.emitted, self.settled, self.refused
            jobs.append(job)
        return [job for job in jobs if job.unit.cases]

    def rows(self, verdict: str, why: str, detail: Detail | None = None) -> list[Event]:
        """Every missing result, with the same verdict."""
        family, events = self.unit.operator.family, []
        for case in self.whole().cases:
            keys = [
                (case.id, name, d) for d in self.directions for name in self.backend_group.backends
            ]
            reported = self.emitted | self.environment.resume.results.keys()
            missing = [key for key in keys if key not in reported and key[1:] not in self.refused]
            results = tuple(
                Result(case, name, d, Verdict(verdict), why, family=family, detail=detail)
                for _, name, d in missing
            )
            self.emitted.update(missing)
            events += (
                [Judged(case, results, False, self.unit.origin, self.serial)] if results else []
            )
        return list[Event](events)


def _refused(result: Result) -> bool:
    """Whether a result stands for all cases of its unit, reported with the first case sent."""
    return result.verdict.kind is VerdictKind.UNSUPPORTED and result.comparison is None
