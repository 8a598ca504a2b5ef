"""A group of cases on its way through one part of an environment: what is sent, what came back,
what is tried after a loss."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ....core.model import Case, Key, Result
from ....core.verdict import Verdict, VerdictKind
from ...config import directions_of
from ...engine import Group
from ...events import Event, Judged
from .environments import Environment, Part
from .parcels import Json, pack_cases, rows_of

LOSSES = 2  # workers lost over the same cases, before these are parted


@dataclass(eq=False)
class Job:
    """``serial`` counts the groups of a run. ``emitted`` are the results that were passed on:
    whoever judges the group again says them again. ``settled`` are the cases among them,
    ``refused`` the backends and directions that the operator is not offered on.

    ``plain``: the cases only, as other cases of the group are judged elsewhere, and not the
    ``first`` of them. ``received`` counts messages of this attempt.
    """

    number: int
    serial: int
    environment: Environment
    part: Part
    group: Group
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
        return {case.id: case for case in self.group.cases}

    @property
    def directions(self) -> tuple[str, ...]:
        return directions_of(self.environment.settings, self.group.operator, self.group.dtype)

    def parcel(self, orders: Json, seconds: float | None) -> tuple[str, list[bytes]]:
        """The group as a worker gets it; ``seconds`` are what is left of the time budget."""
        group, earlier = self.group, self.environment.earlier.results
        packed, blobs = pack_cases(group.cases)
        keys = [
            (case.id, name, d)
            for case in group.cases
            for name in self.part.backends
            for d in self.directions
        ]
        turn = group.turn if self.first else max(group.turn, 1)
        header = {
            "kind": "judge", "orders": orders, "operator": group.operator.name,
            "dtype": group.dtype, "turn": turn,
            "problem": group.problem, "only": list(self.part.backends),
            "towards": list(self.directions),
            "origin": group.origin, "seed": group.seed, "part": group.part, "more": group.more,
            "ids": [case.id for case in group.cases], "plain": self.plain, "seconds": seconds,
            "effort": self.environment.effort,
            "searched": [
                list(kind)
                for kind in self.environment.searched
                if kind[:2] == (group.operator.name, group.dtype)
            ],
            "earlier": rows_of(earlier[key] for key in keys if key in earlier),
        }  # fmt: skip
        return json.dumps(header | packed), blobs

    def accept(self, event: Event) -> Event | None:
        """The part of an event that is new. What is about the whole group is held back until the
        group is done."""
        if not isinstance(event, Judged):
            self.held.append(event)
            return None
        fresh = [result for result in event.results if result.key not in self.emitted]
        new = tuple(
            r for r in fresh if not (_refused(r) and (r.backend, r.direction) in self.refused)
        )
        self.emitted.update(result.key for result in new)
        self.refused.update((r.backend, r.direction) for r in new if _refused(r))
        self.settled.update(r.case.id for r in new if r.comparison is not None or r.verdict.tested)
        return replace(event, results=new) if new else None

    def again(self) -> None:
        """What this attempt has said of the group is void."""
        self.attempt += 1
        self.received, self.end, self.held, self.address = 0, None, [], ""

    def parted(self, numbers: Sequence[int]) -> list[Job]:
        """Two jobs with half of the cases each that nothing is known of; one loss more parts them
        again."""
        cases = [case for case in self.group.cases if case.id not in self.settled]
        half = (len(cases) + 1) // 2
        found = []
        for number, some in zip(numbers, (cases[:half], cases[half:]), strict=True):
            group = replace(self.group, cases=tuple(some))
            job = Job(
                number,
                self.serial,
                self.environment,
                self.part,
                group,
                True,
                self.first and number == numbers[0],
                LOSSES - 1,
            )
            job.emitted, job.settled, job.refused = self.emitted, self.settled, self.refused
            found.append(job)
        return [job for job in found if job.group.cases]

    def rows(self, verdict: str, why: str) -> list[Event]:
        """Every result that is still missing, with one verdict."""
        family, found = self.group.operator.family, []
        for case in self.group.cases:
            keys = [(case.id, name, d) for d in self.directions for name in self.part.backends]
            there = self.emitted | self.environment.earlier.results.keys()
            rest = [key for key in keys if key not in there and key[1:] not in self.refused]
            results = tuple(
                Result(case, name, d, Verdict(verdict), why, family=family) for _, name, d in rest
            )
            self.emitted.update(rest)
            found += (
                [Judged(case, results, fresh=False, origin=self.group.origin)] if results else []
            )
        return list[Event](found)


def _refused(result: Result) -> bool:
    """Whether a result stands for all cases of its group, with the first of them that were sent."""
    return result.verdict.kind is VerdictKind.UNSUPPORTED and result.comparison is None
