"""The interface of an executor, which judges the work units of a run."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol

from ..config import RunConfig
from ..events import Event, ResumeState


class RunEnvironment(Protocol):
    """Machines that compute alike. Each environment judges every work unit and has its own bundle,
    called ``name``; ``config`` is the run's with the environment's backends."""

    name: str
    config: RunConfig


ResumeFrom = Callable[[RunEnvironment], ResumeState]
EnvironmentEvent = tuple[RunEnvironment, Event]
EnvironmentEvents = Generator[EnvironmentEvent, None, None]  # closed where a handler raises


class Executor(Protocol):
    """Judges the work units of one run.

    The units of an environment are numbered as the plan gives them; their events may come in
    another order and carry the number
    (:class:`~consistency.engine.result_collector.Collect` sorts by it).
    """

    def run(self, resume: ResumeFrom) -> EnvironmentEvents:
        """The events of every environment. Results that ``resume`` returns for one are not judged
        again."""
        ...
