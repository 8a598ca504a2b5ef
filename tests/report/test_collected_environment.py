"""What torch's own command says of a machine is collected once an hour, and whatever lies in the
cache in its place is harmless."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from consistency.report.repro_script import collected_environment
from consistency.report.repro_script.collected_environment import COMMAND, collected

Calls = list[list[str]]
TOLD = "Collecting environment information...\nPyTorch version: 9.9\nFlags: fpu vme\nOS: here\n"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Calls:
    """The commands that were started; each prints TOLD."""
    started: Calls = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        started.append(command)
        return SimpleNamespace(stdout=TOLD)

    monkeypatch.setattr(collected_environment.subprocess, "run", run)
    monkeypatch.setenv("CONSISTENCY_CACHE", str(tmp_path / "cache"))
    return started


@pytest.fixture
def anew() -> Callable[[], str]:
    """Collects as a new process does."""

    def call() -> str:
        collected.cache_clear()
        return collected()

    return call


@pytest.fixture(autouse=True)
def _forgotten() -> object:
    yield
    collected.cache_clear()


def only(folder: Path) -> Path:
    (file,) = (folder / "cache" / "collected").iterdir()
    return file


def test_once_an_hour(calls: Calls, anew: Callable[[], str], tmp_path: Path) -> None:
    assert [anew(), anew()] == ["PyTorch version: 9.9\nOS: here"] * 2
    assert len(calls) == 1
    assert calls[0][:1] == [sys.executable]
    past = time.time() - 3700.0
    os.utime(only(tmp_path), (past, past))
    anew()
    assert len(calls) == 2


def test_other_devices_are_another_environment(
    calls: Calls, anew: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    anew()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    anew()
    assert len(calls) == 2


def test_what_lies_in_its_place(calls: Calls, anew: Callable[[], str], tmp_path: Path) -> None:
    anew()
    only(tmp_path).write_bytes(b"PyTorch version: 1\x1b[31m" + b"x" * 100_000)
    found = anew()
    assert "\x1b" not in found
    assert len(found) <= 8_100
    only(tmp_path).write_bytes(b"\xff\xfe")  # no UTF-8
    assert anew() == "PyTorch version: 9.9\nOS: here"


def test_a_cache_that_cannot_be_written(
    calls: Calls, anew: Callable[[], str], tmp_path: Path
) -> None:
    (tmp_path / "cache").write_text("a file", encoding="utf-8")
    assert anew().startswith("PyTorch version")
    assert len(calls) == 1


def test_a_command_that_fails_is_named(
    calls: Calls, anew: Callable[[], str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise subprocess.SubprocessError

    monkeypatch.setattr(collected_environment.subprocess, "run", fail)
    assert anew() == f"the output of: {COMMAND}"
    assert not (tmp_path / "cache").exists()
