"""What is told of units that no worker judges in an environment: once for each operator × dtype,
with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ....backends.base import Backend
from ....core.model import Case
from ...events import Event, numbered
from ...unit_runner import untested_results
from ...work_unit import NOT_BEGUN, WorkUnit
from .environments import WorkerEnvironment

WorkerEvent = tuple[WorkerEnvironment, Event]


def told_once(
    environment: WorkerEnvironment,
    unit: WorkUnit,
    serial: int,
    absent: Mapping[str, str],
    present: Sequence[Backend] = (),
) -> Iterator[WorkerEvent]:
    """The results of ``absent`` backends, each with its reason, and the unit's problem on those
    that are ``present``: with its first case, of the first unit of an operator × dtype."""
    if not unit.first:
        return
    case = unit.cases[0] if unit.cases else Case(unit.operator.name, unit.dtype)
    config = environment.config
    for event in untested_results(config, unit.operator, case, dict(absent), present, unit):
        yield environment, numbered(event, serial)


def untested(environment: WorkerEnvironment, unit: WorkUnit, serial: int) -> Iterator[WorkerEvent]:
    """The results of a unit in an environment whose workers were lost."""
    absent = {backend.name: environment.lost for backend in environment.config.backends}
    yield from told_once(environment, unit, serial, absent)


def not_begun(environment: WorkerEnvironment, unit: WorkUnit, serial: int) -> Iterator[WorkerEvent]:
    """The results of a unit whose turn did not come before the time was over."""
    present = [b for b in environment.config.backends if b.name not in environment.absent]
    unbegun = replace(unit, problem=NOT_BEGUN, fresh=None)
    yield from told_once(environment, unbegun, serial, {}, present)
