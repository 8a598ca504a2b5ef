"""The coordinator of a run on several workers: it distributes the cases and yields the events of
every environment.

Every environment gets all cases; where there is one, its workers draw the fresh ones. A job is one
whole work unit, as for the inline executor, because the diagnosis of failures and the comparison of
float32 with float64 errors depend on the unit's earlier cases. The workers of an environment share
the units.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import time
from collections.abc import Generator, Iterator
from typing import Any

from ....core.detail import Detail, HarnessFailed
from ....diagnose.case_runner import JUDGING_FAILED
from ....errors import BundleError
from ....probes.fingerprint.cache import LONG_SECONDS
from ...config import RunConfig, operator_dtypes
from ...events import Finished, Minimized, ResumeState, UnitDone
from ...plan import outline
from ...unit_cases import drawn
from ...unit_runner import started_event
from ...work_unit import WorkUnit
from ..protocol import ResumeFrom
from . import fingerprints, membership
from .client import EventBatch, Reply, WorkerClient
from .environments import WorkerEnvironment
from .job import LOSSES, Job
from .job_queue import JobQueue
from .membership import Membership
from .serialization import Drawn, unpack_message
from .untested_units import WorkerEvent, not_begun, told_once, untested

GRACE_SECONDS = 90.0  # for a worker to return before its environment is given up
LATE_SECONDS = 60.0  # for the last batches of a unit
AHEAD = 2  # units drawn for each worker


class Coordinator(Membership):
    """An executor: one run on the workers of ``client``. ``fingerprints``: see
    :class:`~consistency.storage.bundle.Fingerprints`."""

    def __init__(
        self,
        config: RunConfig,
        client: WorkerClient,
        *,
        fingerprints: bool | None = None,
        **more: Any,
    ) -> None:
        super().__init__(config, client, **more)
        self.fingerprints = fingerprints
        self.deadline = math.inf
        self.jobs = JobQueue()
        self._numbers, self._serials = itertools.count(), itertools.count()
        self._more = True  # units to draw
        self._drawn: set[tuple[str, str]] = set()
        self._looked = 0.0
        self._gone: dict[str, float] = {}  # environments without a worker: since when

    def run(
        self, resume: ResumeFrom = lambda environment: ResumeState()
    ) -> Generator[WorkerEvent, None, None]:
        """The events of every environment, interleaved as they arrive."""
        began = time.monotonic()
        if not self.environments:
            self.gather()
        # Waiting for workers is part of a minute, and no part of a budget for testing.
        started = began if self.config.time_limit is not None else time.monotonic()
        self.deadline = started + self.config.seconds
        for environment in self.environments:
            environment.resume = resume(environment)
            environment.searched = set(environment.resume.shrunk)
            first = started_event(environment.config, environment.absent)
            yield (
                environment,
                dataclasses.replace(
                    first, cases=first.cases * max(len(environment.backend_groups), 1)
                ),
            )
        present = any(environment.backend_groups for environment in self.environments)
        planned = outline(self.config, lambda: self._out_of_time, present)
        while True:
            yield from self._update_members()
            yield from self._assign_jobs(planned)
            if not self.jobs.running and (self._out_of_time or not (self._more or self.jobs.open)):
                break
            few = self.jobs.waiting < AHEAD * self._workers
            if self._more and few and not self._out_of_time:
                yield from self._draw(planned)
                patience = 0.0
            else:
                patience = membership.LOOK_SECONDS / 4
            yield from self._handle(self.client.next(patience))
        yield from self._not_begun(planned)
        seconds = time.monotonic() - started
        if self.fingerprints or (self.fingerprints is None and seconds >= LONG_SECONDS):
            fingerprints.collect(self.client, self.config_text, self.environments)
        for environment in self.environments:
            yield environment, Finished(seconds, self._out_of_time)

    def _not_begun(self, planned: Iterator[WorkUnit]) -> Iterator[WorkerEvent]:
        """Tell what no worker began before the time was over: jobs that wait, and what the plan has
        left."""
        waiting = {job.serial: job.unit for job in self.jobs.waiting_jobs()}
        units = [*waiting.values(), *(planned if self._out_of_time else ())]
        for unit in units:
            if not unit.first:
                continue
            serial = next(self._serials)
            for environment in self.environments:
                yield from not_begun(environment, unit, serial)

    @property
    def _out_of_time(self) -> bool:
        return time.monotonic() >= self.deadline

    @property
    def _workers(self) -> int:
        return sum(len(environment.workers) for environment in self.environments)

    def _draw(self, planned: Iterator[WorkUnit]) -> Iterator[WorkerEvent]:
        """Queue one more unit for every environment."""
        unit = next(planned, None)
        if unit is None:
            self._more = False
            return
        if unit.fresh is not None and not self._is_drawn_elsewhere(unit):
            unit = drawn(unit)
            if not (unit.cases or unit.problem):
                return
        self._drawn.add((unit.operator.name, unit.dtype))
        serial = next(self._serials)
        for environment in self.environments:
            if environment.lost:
                yield from untested(environment, unit, serial)
                continue
            yield from told_once(environment, unit, serial, environment.absent)
            jobs = [
                Job(next(self._numbers), serial, environment, group, unit)
                for group in environment.backend_groups
            ]
            self.jobs.add(jobs)

    def _is_drawn_elsewhere(self, unit: WorkUnit) -> bool:
        """Whether the worker that judges a unit draws its cases: where no other worker needs the
        same ones, no earlier result of theirs exists, and none has to stand for the unit in what is
        told of absent backends."""
        if len(self.environments) > 1:
            return False
        (environment,) = self.environments
        told = bool(unit.cases) or not unit.first or not environment.absent
        alone = len(environment.backend_groups) == 1
        return told and alone and not environment.resume.results

    def _assign_jobs(self, planned: Iterator[WorkUnit]) -> Iterator[WorkerEvent]:
        """Send jobs to every worker that has room for more, the least busy one first."""
        for environment in self.environments:
            able = list(environment.workers.values())
            while not self._out_of_time:
                able = [member for member in able if self.jobs.has_room(member.address)]
                if not able:
                    break
                member = min(able, key=lambda member: self.jobs.count_of(member.address))
                job = self.jobs.next_for(environment, member)
                if job is not None:
                    self._send(job)
                elif (
                    self._more
                    and member.address not in self.jobs.busy
                    and self.jobs.waiting < 4 * AHEAD * self._workers
                ):
                    yield from self._draw(planned)
                else:
                    able.remove(member)

    def _send(self, job: Job) -> None:
        remaining = self.deadline - time.monotonic()
        text, blobs = job.pack(None if remaining == math.inf else max(remaining, 0.0))
        labels = sorted(job.backend_group.labels)
        self.client.judge(job.address, job.token, labels, self.config_text, text, blobs)

    def _handle(self, message: EventBatch | Reply | None) -> Iterator[WorkerEvent]:
        match message:
            case EventBatch():
                job = self.jobs.running.get(message.token)
                if job is not None:
                    job.received += 1
                    yield from self._take_events(job, message)
                    yield from self._close_if_complete(job)
            case Reply() if message.token.startswith("describe."):
                self.joined(message)
            case Reply():
                job = self.jobs.running.get(message.token)
                if job is not None:
                    yield from self._take_reply(job, message)

    def _take_events(self, job: Job, message: EventBatch) -> Iterator[WorkerEvent]:
        cases = job.known
        for text in message.events:
            event = unpack_message(text, cases, message.sender)
            if isinstance(event, Drawn):
                job.unit = dataclasses.replace(
                    job.unit, cases=event.cases, problem=event.problem, fresh=None
                )
                cases = job.known
            elif (new := job.accept(event)) is not None:
                yield job.environment, new

    def _take_reply(self, job: Job, answer: Reply) -> Iterator[WorkerEvent]:
        if answer.failed:
            self.refuse(job.address, f"worker {job.address}: {answer.failed}")
            job.environment.workers.pop(job.address, None)
        if answer.failed or answer.lost:
            yield from self._handle_loss(job)
            return
        try:
            job.end = json.loads(answer.text)
            job.since = time.monotonic()
            yield from self._close_if_complete(job)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise BundleError(
                f"worker {job.address} sent what is no answer: {type(error).__name__} "
                f"{str(error)[:100]}"
            ) from None

    def _close_if_complete(self, job: Job) -> Iterator[WorkerEvent]:
        """Finish the unit when its last batch of events has arrived, too."""
        if job.end is None or job.received < int(job.end["messages"]):
            return
        if job.end["kind"] == "wrong":
            job.leave_undrawn()
            yield from self._give_up(
                job,
                f"{JUDGING_FAILED} ({str(job.end['text'])[:200]}); please report it",
                "inconclusive",
                HarnessFailed(),
            )
            return
        job.environment.effort -= float(job.end["spent"])
        job.environment.searched.update(tuple(map(str, kind)) for kind in job.end["searched"])
        yield from self._close(job)

    def _close(self, job: Job) -> Iterator[WorkerEvent]:
        self.jobs.remove(job)
        environment, name, dtype = job.environment, job.unit.operator.name, job.unit.dtype
        cases = max((event.cases for event in job.held if isinstance(event, UnitDone)), default=0)
        for event in job.held:
            if not isinstance(event, UnitDone):
                yield environment, event
        self.jobs.judged(job, cases)
        count = self.jobs.all_judged(environment, job.serial)
        if count is not None:
            small = environment.resume.shrunk if job.unit.first else {}
            for shrunk in [result for kind, result in small.items() if kind[:2] == (name, dtype)]:
                yield environment, Minimized(shrunk, shrunk, job.serial)
            yield environment, UnitDone(name, dtype, count)

    def _give_up(
        self, job: Job, why: str, verdict: str = "unavailable", detail: Detail | None = None
    ) -> Iterator[WorkerEvent]:
        for event in job.rows(verdict, why, detail):
            yield job.environment, event
        yield from self._close(job)

    # Workers that join and leave.

    def _update_members(self) -> Iterator[WorkerEvent]:
        now = time.monotonic()
        if now - self._looked < membership.LOOK_SECONDS:
            return
        self._looked = now
        members = self.client.members()
        addresses = {
            address for environment in self.environments for address in environment.workers
        }
        for address, member in members.items():
            if (
                address not in addresses
                and address not in self.joining
                and address not in self.refused
            ):
                self.request_description(member)
        for environment in self.environments:
            for address in [address for address in environment.workers if address not in members]:
                del environment.workers[address]
        for job in list(self.jobs.running.values()):
            late = job.end is not None and now - job.since > LATE_SECONDS
            if job.address not in members or late:
                yield from self._handle_loss(job)
        for environment in self.environments:
            yield from self._check_environment(environment, now)

    def _check_environment(
        self, environment: WorkerEnvironment, now: float
    ) -> Iterator[WorkerEvent]:
        """Give up an environment whose workers are all gone: its remaining cases are not tested."""
        if environment.workers or environment.lost:
            self._gone.pop(environment.key, None)
        elif now - self._gone.setdefault(environment.key, now) > GRACE_SECONDS:
            environment.lost = f"all workers of {environment.name} were lost"
            self.notify(environment.lost)
            for job in self.jobs.of(environment):
                yield from self._give_up(job, environment.lost)
        if self._more and all(one.lost for one in self.environments):
            self._more = False
            for operator, dtype in operator_dtypes(self.config):
                if (operator.name, dtype) not in self._drawn:
                    for one in self.environments:
                        yield from untested(one, WorkUnit(operator, dtype, ()), next(self._serials))

    def _handle_loss(self, job: Job) -> Iterator[WorkerEvent]:
        """Handle a lost worker: another one judges its unit; after several losses the unit is split
        to find the case that causes them."""
        self.client.forget(job.token)
        self.jobs.remove(job)
        job.losses += 1
        job.restart()
        if job.losses < LOSSES:
            self.jobs.add([job], first=True)
            return
        remaining = tuple(case for case in job.whole().cases if case.id not in job.settled)
        if len(remaining) > 1:
            self.jobs.add(job.split((next(self._numbers), next(self._numbers))), first=True)
            self.jobs.replaced(job)
        else:
            job.unit = dataclasses.replace(job.unit, cases=remaining)
            yield from self._give_up(
                job, f"{job.losses} workers were lost while this case ran there", "crash"
            )
