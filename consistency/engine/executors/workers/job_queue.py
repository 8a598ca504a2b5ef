"""The open jobs of a run: waiting, or running on a worker."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from .environments import Member, WorkerEnvironment
from .job import Job

_Place = tuple[str, int]  # an environment, and the number of a unit


class JobQueue:
    """``running`` are jobs by their token, ``busy`` the addresses of workers with a job."""

    def __init__(self) -> None:
        self.running: dict[str, Job] = {}
        self.busy: set[str] = set()
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
        queue.remove(job)
        job.address = member.address
        self.running[job.token] = job
        self.busy.add(member.address)
        return job

    def remove(self, job: Job) -> None:
        """Drop a job from the queue; its unit stays open."""
        if self.running.pop(job.token, None) is not None:
            self.busy.discard(job.address)
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
