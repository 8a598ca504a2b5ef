"""Judging processes that are started before torch is loaded."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from consistency.core import forkserver, interpreter
from consistency.core.foreign import Bounds
from consistency.engine.executors import early_processes, judging_program
from consistency.engine.executors.early_processes import EarlyProcesses, likely_processes
from consistency.engine.executors.workers.start import start_process


@pytest.fixture
def nothing_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows and macOS."""
    monkeypatch.setattr(forkserver, "USABLE", False)


@contextlib.contextmanager
def one_early() -> Iterator[EarlyProcesses]:
    # No fixture: pytest changes a variable of the environment between its phases.
    started = EarlyProcesses(1, 1)
    try:
        yield started
    finally:
        started.close()


@pytest.mark.nightly
@pytest.mark.usefixtures("nothing_forks")
def test_the_process_that_judges_is_the_one_started_early() -> None:
    with one_early() as early:
        (process,) = early._waiting
        worker = start_process(1, early=early)
        assert worker.process is process
        worker.send({"kind": "describe"})
        reply, _ = worker.reply(float("inf"))
        assert reply["text"] == "it has no configuration"
        second = start_process(1, early=early)  # none is left
        assert second.process is not process
        second.kill()
        worker.kill()


@pytest.mark.usefixtures("nothing_forks")
def test_a_process_with_another_number_of_threads_is_not_taken() -> None:
    with one_early() as early:
        variables = interpreter.changed_environment(judging_program.process_variables(2))
        assert early.take(sys.executable, variables) is None
        variables = interpreter.changed_environment(judging_program.process_variables(1))
        taken = early.take(sys.executable, variables)
        assert taken is not None
        taken.kill()
        taken.communicate()


@pytest.mark.usefixtures("nothing_forks")
def test_one_that_ended_is_not_taken_and_those_left_are_ended() -> None:
    with one_early() as early:
        (process,) = early._waiting
        process.kill()
        process.communicate()
        variables = interpreter.changed_environment(judging_program.process_variables(1))
        assert early.take(sys.executable, variables) is None
    other = EarlyProcesses(1, 1)
    (waiting,) = other._waiting
    other.close()
    assert waiting.poll() is not None


@pytest.mark.skipif(not forkserver.USABLE, reason="processes are forked on Linux only")
def test_where_processes_fork_the_one_that_forks_them_is_started_early() -> None:
    with one_early() as early:
        variables = interpreter.changed_environment(judging_program.process_variables(1))
        (server,) = [k.server for k in early_processes.FORKED._kept if k.environment == variables]
        assert not early._waiting
        first, second = start_process(1, early=early), start_process(1, early=early)
        assert first.process.server is second.process.server is server
        first.send({"kind": "describe"})
        reply, _ = first.reply(float("inf"))
        assert reply["text"] == "it has no configuration"
        first.kill()
        second.kill()


def test_cases_from_elsewhere_get_a_process_that_nothing_else_was_in() -> None:
    bounds = Bounds(1 << 30, 10.0)
    worker = start_process(1, bounds=bounds)
    assert isinstance(worker.process, subprocess.Popen)
    worker.kill()


def test_none_is_started_where_a_run_may_need_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_processes, "usable_cores", lambda: 4)
    monkeypatch.setattr(early_processes, "MEMORY_OF_ONE", 1)
    monkeypatch.setattr(early_processes, "_has_accelerator", lambda: False)
    # Of four cores, one loads torch for this process meanwhile.
    assert likely_processes(None, everything=True) == 3
    assert likely_processes(None, everything=False) == 0
    assert likely_processes(3, everything=False) == 2
    monkeypatch.setattr(early_processes, "_has_accelerator", lambda: True)
    assert likely_processes(None, everything=True) == 0
    assert likely_processes(2, everything=True) == 1


@pytest.mark.nightly
def test_the_guess_of_threads_is_torch_s_number() -> None:
    program = (
        "from consistency.engine.executors.early_processes import likely_threads as guess; "
        "import sys; assert 'torch' not in sys.modules; before = guess(); import torch; "
        "print(before, torch.get_num_threads())"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        encoding="utf-8",
    ).stdout.split()  # fmt: skip
    if torch.backends.mkl.is_available():  # elsewhere a wrong guess costs two seconds, no more
        assert output[0] == output[1]
