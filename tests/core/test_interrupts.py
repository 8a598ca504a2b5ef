"""Ctrl-C ends a run; what a backend raises by that name does not."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from consistency.backends.base import Backend
from consistency.core import interrupts
from consistency.core.model import Outcome
from consistency.core.verdict import OutcomeStatus
from consistency.generate.materialize import case_of, prepare
from consistency.operators import get


@pytest.fixture(autouse=True)
def _as_in_a_command() -> Iterator[None]:
    """Processes of a distributed test run ignore the signal."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class Raising(Backend):
    name = "raising"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        raise KeyboardInterrupt


class Pressed(Backend):
    """The user presses Ctrl-C during a call."""

    name = "pressed"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(10**9):  # the handler runs between two instructions
            pass


def run(backend: Backend) -> Outcome:
    case = case_of("relu", "float32", (torch.ones(3),), {}, cotangent=100)
    return backend.run(get("relu"), prepare(case))


def test_what_a_backend_raises_is_its_own_failure() -> None:
    with interrupts.watched():
        outcome = run(Raising())
    assert outcome.status is OutcomeStatus.RAISED
    assert "KeyboardInterrupt" in outcome.exception


@pytest.mark.skipif(os.name == "nt", reason="os.kill ends a process there")
def test_the_users_interrupt_ends_the_call() -> None:
    with interrupts.watched(), pytest.raises(KeyboardInterrupt):
        run(Pressed())


def test_where_nobody_watches_it_may_be_the_users() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(Raising())


def test_the_handler_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with interrupts.watched():
        assert signal.getsignal(signal.SIGINT) is not before
        with interrupts.watched():  # a command within a program that watches already
            pass
        assert not interrupts.was_pressed()
    assert signal.getsignal(signal.SIGINT) is before
    thread = threading.Thread(target=lambda: interrupts.watched().__enter__())
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGINT) is before
