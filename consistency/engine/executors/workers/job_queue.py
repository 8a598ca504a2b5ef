"""The open jobs of a run: waiting, or running on a worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from .environments import Member, WorkerEnvironment
from .job import Job

_Place = tuple[str, int]  # an environment, and the number of a unit
# A worker has further jobs waiting while it has fewer cases than this: it need not wait for the
# coordinator, which may be busy, between units of one case.
FEW_CASES, MOST_JOBS = 8, 4


class JobQueue:
    """``running`` are the jobs that workers have, by their token."""

    def __init__(self) -> None:
        self.running: dict[str, Job] = {}
        self._of_worker: dict[str, list[Job]] = {}  # by address, in the order of its work
        self._waiting: dict[str, deque[Job]] = {}
        self._open: dict[_Place, set[int]] = {}
        self._cases: dict[_Place, int] = {}

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def waiting_jobs(self) -> list[Job]:
        """The jobs that no worker has, in the order of their units."""
        jobs = (job for queue in self._waiting.values() for job in queue)
        return sorted(jobs, key=lambda job: job.serial)

    @property
    def open(self) -> bool:
        return bool(self.running) or self.waiting > 0

    @property
    def busy(self) -> set[str]:
        """The addresses of workers with a job."""
        return {address for address, jobs in self._of_worker.items() if jobs}

    def count_of(self, address: str) -> int:
        """How many jobs a worker has."""
        return len(self._of_worker.get(address, ()))

    def has_room(self, address: str) -> bool:
        """Whether a worker may get one more job. One that was lost with a worker has the next
        worker for itself, so that no other job is lost with it again."""
        jobs = self._of_worker.get(address, [])
        few = len(jobs) < MOST_JOBS and sum(job.unit.size for job in jobs) < FEW_CASES
        return few and not any(job.losses for job in jobs)

    def add(self, jobs: Iterable[Job], *, first: bool = False) -> None:
        """Queue jobs, with ``first`` ahead of all others."""
        for job in jobs:
            self._open.setdefault(_place(job.environment, job.serial), set()).add(job.number)
            queue = self._waiting.setdefault(job.environment.key, deque())
            queue.appendleft(job) if first else queue.append(job)

    def next_for(self, environment: WorkerEnvironment, member: Member) -> Job | None:
        """Assign a job to this worker. Jobs that need more resources come first: fewer workers can
        do them."""
        queue = self._waiting.get(environment.key, deque())
        able = [job for job in queue if job.backend_group.labels <= member.labels]
        if not able:
            return None
        job = max(able, key=lambda job: len(job.backend_group.labels))  # the first of these
        if job.losses and member.address in self.busy:
            return None
        queue.remove(job)
        job.address = member.address
        self.running[job.token] = job
        self._of_worker.setdefault(member.address, []).append(job)
        return job

    def remove(self, job: Job) -> None:
        """Drop a job from the queue; its unit stays open."""
        if self.running.pop(job.token, None) is not None:
            self._of_worker[job.address].remove(job)
        queue = self._waiting.get(job.environment.key)
        if queue is not None and job in queue:
            queue.remove(job)

    def judged(self, job: Job, cases: int) -> None:
        """Close a job with which ``cases`` of its unit were judged."""
        place = _place(job.environment, job.serial)
        self._open.get(place, set()).discard(job.number)
        self._cases[place] = max(self._cases.get(place, 0), cases)

    def replaced(self, job: Job) -> None:
        """Close a job whose remaining cases other jobs judge."""
        self._open.get(_place(job.environment, job.serial), set()).discard(job.number)

    def all_judged(self, environment: WorkerEnvironment, serial: int) -> int | None:
        """The number of cases of a unit once all its jobs are closed, else None."""
        place = _place(environment, serial)
        if self._open.get(place):
            return None
        self._open.pop(place, None)
        return self._cases.pop(place, 0)

    def of(self, environment: WorkerEnvironment) -> list[Job]:
        """All jobs of an environment, waiting or running."""
        running = [job for job in self.running.values() if job.environment is environment]
        return [*running, *self._waiting.get(environment.key, ())]


def _place(environment: WorkerEnvironment, serial: int) -> _Place:
    return environment.key, serial
