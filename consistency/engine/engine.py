"""The engine: judge the work units of a run, and pass its events to handlers.

Commands, the pytest plugin and Python programs start here; what they need of the package's other
modules is exported here as well.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ..backends.subprocess.backend import AHEAD
from ..core.model import DIRECTIONS
from ..diagnose.case_runner import JUDGING_FAILED, judge_case
from ..diagnose.diagnosis_budget import DiagnosisBudget
from ..reference.high_precision import EACH
from .config import RunConfig, configure, operator_dtypes
from .events import Event, Handler, ResumeState, dispatch
from .executors.inline import InlineExecutor
from .executors.protocol import Executor
from .plan import plan
from .result_collector import Collect, Run
from .smallest_case import smallest_failure
from .unit_cases import (
    NO_LARGE_CASE,
    draw,
    further_cases,
    shipped_cases,
    without,
)
from .unit_runner import MINIMIZATION_SECONDS, judge_unit
from .work_unit import WorkUnit


def run(config: RunConfig, resume: ResumeState | None = None) -> Iterator[Event]:
    """The events of one run in this process. Results that ``resume`` holds are not judged again."""
    for _, event in InlineExecutor(config).run(lambda environment: resume or ResumeState()):
        yield event


def drive(
    config: RunConfig,
    handlers: Sequence[Handler],
    resume: ResumeState | None = None,
    executor: Executor | None = None,
) -> None:
    """Run to the end, passing every event to every handler
    (:func:`~consistency.engine.events.dispatch`). Without an ``executor``, in this process."""
    executor = executor or InlineExecutor(config)
    with contextlib.closing(executor.run(lambda environment: resume or ResumeState())) as events:
        for _, event in events:
            dispatch(event, handlers)


__all__ = [
    "AHEAD",
    "DIRECTIONS",
    "EACH",
    "JUDGING_FAILED",
    "MINIMIZATION_SECONDS",
    "NO_LARGE_CASE",
    "Collect",
    "DiagnosisBudget",
    "Executor",
    "Run",
    "RunConfig",
    "WorkUnit",
    "configure",
    "draw",
    "drive",
    "further_cases",
    "judge_case",
    "judge_unit",
    "operator_dtypes",
    "plan",
    "run",
    "shipped_cases",
    "smallest_failure",
    "without",
]
