"""One pass of a backend through all steps of a model, with checks of its operators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..backends._messages import told
from ..backends.base import Backend, prepared
from ..errors import UsageError
from .call_markers import CallMarker
from .model_run import ModelRun, quietly
from .per_op_check import CallJudge, PerOpCheck
from .reference_samples import Tap
from .training_task import Subject


@dataclass(frozen=True, slots=True)
class PassReport:
    """The result of a pass: number of calls and checks, reasons for calls not judged, an
    exception, and how a separate process was lost."""

    calls: int = 0
    looked_at: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    raised: str = ""
    lost: str = ""


@dataclass(frozen=True, slots=True)
class PassRequest:
    """The request: the number of steps (with ``every``, up to a given one and without
    ``after``), and the calls to check: all with ``every``, none without ``local``."""

    steps: int
    every: bool = False
    local: bool = True

    def of(self, subject: Subject) -> Subject:
        return replace(subject, steps=self.steps, after=None if self.every else subject.after)


def run_pass(
    subject: Subject, backend: Backend, request: PassRequest, tap: Tap, judge: CallJudge | None,
    stepped: Callable[[int], Any],
    marker: CallMarker | None = None,
) -> PassReport:  # fmt: skip
    """Run the pass in this process. ``stepped`` receives the number of each finished step,
    ``marker`` records each call."""
    reason = prepared(backend)
    if reason is not None:
        return PassReport(lost=f"unavailable: {reason}")
    raised = ""
    with quietly() as modules:
        mode = PerOpCheck(
            backend,
            modules,
            judge,
            every=request.every,
            off=not request.local,
            marker=marker,
            device=backend.device,
        )
        try:
            with (
                backend.switches(),
                contextlib.closing(ModelRun(request.of(subject), tap, mode,
                device=backend.device)) as model_run,
            ):  # fmt: skip
                mode.begin(1)
                for step in model_run.run():
                    stepped(step)
                    mode.begin(step + 1)
                backend.finish()
        except UsageError:
            raise
        except (Exception, SystemExit) as error:
            raised = told(error)
    return PassReport(mode.calls, mode.looked_at, dict(mode.left_out.most_common()), raised)
