"""The front of a cluster run: who is there, which cases go where, and the events of every
environment.

Cases are drawn here, and every environment gets all of them. One job is one operator × dtype: what
the engine finds out about a failure, and how float32 errors compare with those in float64, depends
on the cases of a group before it. So each worker judges whole groups, as a serial run does; the
workers of an environment share the groups.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from ....core.model import Case
from ....errors import BundleError
from ....probes.fingerprint.cache import LONG_SECONDS
from ...config import Settings
from ...engine import JUDGING_FAILED, Group, begun, groups, not_run, plan
from ...events import Earlier, Event, Finished, GroupDone, Shrunk
from . import fingerprints, roll
from .crew import Answer, Crew, Mail
from .dispatch import Jobs
from .environments import Environment
from .jobs import LOSSES, Job
from .parcels import unpack_event
from .roll import Roll

GRACE_SECONDS = 90.0  # for a worker to come back, before its environment is given up
LATE_SECONDS = 60.0  # for the last messages of a group
AHEAD = 2  # groups drawn for each worker

Told = tuple[Environment, Event]


class Front(Roll):
    """One run on a crew: :meth:`gather`, then :meth:`run`. ``fingerprints``: as
    :class:`~consistency.storage.bundle.Fingerprints` has.
    """

    def __init__(
        self, chosen: Settings, crew: Crew, *, fingerprints: bool | None = None, **more: Any
    ) -> None:
        super().__init__(chosen, crew, **more)
        self.fingerprints = fingerprints
        self.deadline = math.inf
        self.jobs = Jobs()
        self._numbers, self._serials = itertools.count(), itertools.count()
        self._more = True  # groups to draw
        self._drawn: set[tuple[str, str]] = set()
        self._looked = 0.0
        self._gone: dict[str, float] = {}  # environments without a worker, and since when

    # The run.

    def run(
        self, earlier: Callable[[Environment], Earlier] = lambda environment: Earlier()
    ) -> Iterator[Told]:
        """The events of every environment, interleaved as they come. :meth:`gather` comes first."""
        started = time.monotonic()
        if self.chosen.time_budget is not None:
            self.deadline = started + self.chosen.time_budget - self.chosen.used
        for environment in self.environments:
            environment.earlier = earlier(environment)
            environment.searched = set(environment.earlier.shrunk)
            first = begun(environment.settings, environment.absent)
            yield (
                environment,
                dataclasses.replace(first, cases=first.cases * max(len(environment.parts), 1)),
            )
        planned = plan(self.chosen, lambda: self._out_of_time)
        while True:
            yield from self._look_around()
            yield from self._give_out(planned)
            if not self.jobs.running and (self._out_of_time or not (self._more or self.jobs.open)):
                break
            message = self.crew.next(0.0)
            if (
                message is None
                and self._more
                and self.jobs.waiting < AHEAD * self._workers
                and not self._out_of_time
            ):
                yield from self._draw(planned)
                continue
            yield from self._heard(
                message if message is not None else self.crew.next(roll.LOOK_SECONDS / 4)
            )
        seconds = time.monotonic() - started
        if self.fingerprints or (
            self.fingerprints is None
            and (self.chosen.time_budget is None or seconds >= LONG_SECONDS)
        ):
            fingerprints.collect(self.crew, self.orders, self.environments)
        for environment in self.environments:
            yield environment, Finished(seconds, self._out_of_time)

    @property
    def _out_of_time(self) -> bool:
        return time.monotonic() >= self.deadline

    @property
    def _workers(self) -> int:
        return sum(len(environment.workers) for environment in self.environments)

    def _draw(self, planned: Iterator[Group]) -> Iterator[Told]:
        """Draw one group more and put it in every environment's queue."""
        group = next(planned, None)
        if group is None:
            self._more = False
            return
        self._drawn.add((group.operator.name, group.dtype))
        serial = next(self._serials)
        for environment in self.environments:
            if environment.lost:
                yield from _untested(environment, group)
                continue
            if group.turn == group.part == 0:
                case = group.cases[0] if group.cases else Case(group.operator.name, group.dtype)
                for event in not_run(
                    environment.settings, group.operator, case, environment.absent, (), group
                ):
                    yield environment, event
            made = [
                Job(next(self._numbers), serial, environment, part, group)
                for part in environment.parts
            ]
            self.jobs.add(made)

    def _give_out(self, planned: Iterator[Group]) -> Iterator[Told]:
        """A job for everyone who has none."""
        for environment in self.environments:
            for member in list(environment.workers.values()):
                while member.address not in self.jobs.busy and not self._out_of_time:
                    job = self.jobs.next_for(environment, member)
                    if job is not None:
                        left = (
                            None
                            if self.deadline == math.inf
                            else max(self.deadline - time.monotonic(), 0.0)
                        )
                        text, blobs = job.parcel(self.orders, left)
                        self.crew.judge(
                            member.address, job.token, sorted(job.part.labels), text, blobs
                        )
                    elif self._more and self.jobs.waiting < 4 * AHEAD * self._workers:
                        yield from self._draw(planned)
                    else:
                        break

    def _heard(self, message: Mail | Answer | None) -> Iterator[Told]:
        match message:
            case Mail():
                job = self.jobs.running.get(message.token)
                if job is not None:
                    job.received += 1
                    known = job.known
                    for text in message.events:
                        event = job.accept(unpack_event(text, known, message.sender))
                        if event is not None:
                            yield job.environment, event
                    yield from self._perhaps_done(job)
            case Answer() if message.token.startswith("describe."):
                self.joined(message)
            case Answer():
                job = self.jobs.running.get(message.token)
                if job is not None:
                    yield from self._answered(job, message)

    def _answered(self, job: Job, answer: Answer) -> Iterator[Told]:
        if answer.failed:
            self.refuse(job.address, f"worker {job.address}: {answer.failed}")
            job.environment.workers.pop(job.address, None)
        if answer.failed or answer.lost:
            yield from self._lost(job)
            return
        try:
            job.end = json.loads(answer.text)
            job.since = time.monotonic()
            yield from self._perhaps_done(job)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BundleError(
                f"worker {job.address} sent what is no answer: {type(error).__name__} "
                f"{str(error)[:100]}"
            ) from None

    def _perhaps_done(self, job: Job) -> Iterator[Told]:
        """The group is through when its last message has come, too."""
        if job.end is None or job.received < int(job.end["messages"]):
            return
        if job.end["kind"] == "wrong":
            yield from self._given_up(
                job,
                f"{JUDGING_FAILED} ({str(job.end['text'])[:200]}); please report it",
                "inconclusive",
            )
            return
        job.environment.effort -= float(job.end["spent"])
        job.environment.searched.update(tuple(map(str, kind)) for kind in job.end["searched"])
        yield from self._close(job)

    def _close(self, job: Job) -> Iterator[Told]:
        self.jobs.remove(job)
        environment, name, dtype = job.environment, job.group.operator.name, job.group.dtype
        cases = max((event.cases for event in job.held if isinstance(event, GroupDone)), default=0)
        for event in job.held:
            if not isinstance(event, GroupDone):
                yield environment, event
        self.jobs.judged(job, cases)
        count = self.jobs.all_judged(environment, job.serial)
        if count is not None:
            small = environment.earlier.shrunk if job.group.turn == job.group.part == 0 else {}
            for shrunk in [result for kind, result in small.items() if kind[:2] == (name, dtype)]:
                yield environment, Shrunk(shrunk, shrunk)
            yield environment, GroupDone(name, dtype, count)

    def _given_up(self, job: Job, why: str, verdict: str = "unavailable") -> Iterator[Told]:
        for event in job.rows(verdict, why):
            yield job.environment, event
        yield from self._close(job)

    # Who comes and goes.

    def _look_around(self) -> Iterator[Told]:
        now = time.monotonic()
        if now - self._looked < roll.LOOK_SECONDS:
            return
        self._looked = now
        there = self.crew.members()
        known = {address for environment in self.environments for address in environment.workers}
        for address, member in there.items():
            if address not in known and address not in self.joining and address not in self.refused:
                self.ask(member)
        for environment in self.environments:
            for address in [address for address in environment.workers if address not in there]:
                del environment.workers[address]
        for job in list(self.jobs.running.values()):
            late = job.end is not None and now - job.since > LATE_SECONDS
            if job.address not in there or late:
                yield from self._lost(job)
        for environment in self.environments:
            yield from self._missed(environment, now)

    def _missed(self, environment: Environment, now: float) -> Iterator[Told]:
        """An environment whose workers are all gone: what is left of its cases is not tested."""
        if environment.workers or environment.lost:
            self._gone.pop(environment.key, None)
        elif now - self._gone.setdefault(environment.key, now) > GRACE_SECONDS:
            environment.lost = f"all workers of {environment.name} were lost"
            self.said(environment.lost)
            for job in self.jobs.of(environment):
                yield from self._given_up(job, environment.lost)
        if self._more and all(one.lost for one in self.environments):
            self._more = False
            for operator, dtype in groups(self.chosen):
                if (operator.name, dtype) not in self._drawn:
                    for one in self.environments:
                        yield from _untested(one, Group(operator, dtype, ()))

    def _lost(self, job: Job) -> Iterator[Told]:
        """A worker went away over a group: another one judges it; after some losses it is parted to
        find the case that does it."""
        self.crew.forget(job.token)
        self.jobs.remove(job)
        job.losses += 1
        job.again()
        rest = tuple(case for case in job.group.cases if case.id not in job.settled)
        if job.losses < LOSSES:
            self.jobs.add([job], first=True)
        elif len(rest) > 1:
            self.jobs.add(job.parted((next(self._numbers), next(self._numbers))), first=True)
            self.jobs.replaced(job)
        else:
            job.group = dataclasses.replace(job.group, cases=rest)
            yield from self._given_up(
                job, f"{job.losses} workers were lost while this case ran there", "crash"
            )


def _untested(environment: Environment, group: Group) -> Iterator[Told]:
    """What is said of a group in an environment that is lost: it is not tested, and why."""
    if group.turn == group.part == 0:
        absent = {backend.name: environment.lost for backend in environment.settings.backends}
        case = group.cases[0] if group.cases else Case(group.operator.name, group.dtype)
        for event in not_run(environment.settings, group.operator, case, absent, (), group):
            yield environment, event
