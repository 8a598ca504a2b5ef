"""The executor that judges in this process, one work unit after another."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from ... import backends as _backends
from ..config import RunConfig
from ..events import Event, Finished, ResumeState, numbered
from ..plan import plan
from ..unit_runner import RunState, judge_unit, minimization_seconds, started_event
from .protocol import EnvironmentEvents, ResumeFrom


@dataclass
class ThisMachine:
    """The one environment of a run that stays on this machine."""

    config: RunConfig
    name: str = ""


class InlineExecutor:
    def __init__(self, config: RunConfig) -> None:
        self._environment = ThisMachine(config)

    def run(self, resume: ResumeFrom) -> EnvironmentEvents:
        config = self._environment.config
        try:
            for event in _events(config, resume(self._environment)):
                yield self._environment, event
        finally:
            for backend in config.backends:
                backend.close()


def _events(config: RunConfig, resume: ResumeState) -> Iterator[Event]:
    started = time.monotonic()
    for backend in config.backends:
        backend.prefetch(())  # processes of their own load torch meanwhile
    reasons = {b.name: _backends.availability(b) for b in config.backends}
    state = RunState(
        {name: reason for name, reason in reasons.items() if reason},
        resume,
        deadline=started + config.seconds,
        effort=minimization_seconds(config),
    )
    yield started_event(config, state.absent)
    present = len(state.absent) < len(reasons)
    for number, unit in enumerate(plan(config, lambda: state.out_of_time, present)):
        for event in judge_unit(config, unit, state):
            yield numbered(event, number)
    yield Finished(time.monotonic() - started, state.out_of_time)
