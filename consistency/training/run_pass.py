"""What a backend does with a model: one pass through all of its steps, each operator looked at on
its way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..backends._outputs import told
from ..backends.base import Backend
from ..errors import UsageError
from .call_markers import Mark
from .per_op_check import Judge, Local
from .runs import World, quietly
from .traces import Tap
from .training_task import Subject


@dataclass(frozen=True, slots=True)
class Pass:
    """How it went: calls and how many were looked at, what was not judged and why, what was raised,
    and, of a process of its own, how that was lost."""

    calls: int = 0
    looked_at: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    raised: str = ""
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done: so many steps (those of the subject, or up to one of them and no
    ``after``), and which calls are looked at: with ``every`` all of them, without ``local``
    none."""

    steps: int
    every: bool = False
    local: bool = True

    def of(self, subject: Subject) -> Subject:
        return replace(subject, steps=self.steps, after=None if self.every else subject.after)


def take(
    subject: Subject, backend: Backend, order: Order, tap: Tap, judge: Judge | None,
    stepped: Callable[[int], Any],
    mark: Mark | None = None,
) -> Pass:  # fmt: skip
    """Do it in this process. ``stepped`` is told the number of each step that is over, ``mark``
    each call before it is made."""
    raised = ""
    with quietly() as modules:
        mode = Local(backend, modules, judge, every=order.every, off=not order.local, mark=mark)
        try:
            with (
                backend.switches(),
                contextlib.closing(World(order.of(subject), tap, mode,
                device=backend.device)) as world,
            ):  # fmt: skip
                mode.begin(1)
                for step in world.run():
                    stepped(step)
                    mode.begin(step + 1)
                backend.finish()
        except UsageError:
            raise
        except (Exception, SystemExit) as error:
            raised = told(error)
    return Pass(mode.calls, mode.looked_at, dict(mode.left_out.most_common()), raised)
