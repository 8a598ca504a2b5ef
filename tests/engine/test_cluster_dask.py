"""The same with Dask itself: real workers, real processes, and one that is killed."""

from __future__ import annotations

import json
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from consistency.engine import engine
from consistency.engine.events import Event, Judged, Started, UnitDone
from consistency.engine.executors.dask import client
from consistency.engine.executors.dask.client import DaskClient
from consistency.engine.executors.processes import ProcessExecutor
from consistency.engine.executors.workers.coordinator import Coordinator
from consistency.errors import UsageError
from consistency.storage import bundle
from consistency.storage.bundle import row_of
from tests.support.commands import command
from tests.support.paths import SUPPORT

distributed = pytest.importorskip("distributed")


@contextmanager
def cluster(workers: int, *, processes: bool, **options: Any) -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = distributed.LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=processes,
            dashboard_address=":0",
            silence_logs=50,
            **options,
        )
    try:
        yield made
    finally:
        made.close()


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def chosen(operators: list[str], examples: int) -> engine.RunConfig:
    return engine.configure(
        operators, ["cpu", "numpy"], ["float32", "float64"], examples=examples, shrink=False
    )


def rows(events: list[Event]) -> list[str]:
    found = [
        row_of(result) for event in events if isinstance(event, Judged) for result in event.results
    ]
    return sorted(json.dumps(row, sort_keys=True) for row in found)


def run(
    address: str,
    settings: engine.RunConfig,
    meanwhile: Callable[[Coordinator, Event], None] = lambda coordinator, event: None,
) -> list[Event]:
    there = DaskClient(address)
    try:
        coordinator = Coordinator(settings, there)
        coordinator.gather()
        found = []
        for _, event in coordinator.run():
            meanwhile(coordinator, event)
            found.append(event)
        return found
    finally:
        there.close()


@pytest.mark.nightly
def test_one_worker_equals_the_serial_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSISTENCY_LABEL", "lab 1")
    plan = [
        "softmax", "--dtype", "float32", "--examples", "3", "--no-shrink", "-b", "cpu", "-b",
        "numpy",
    ]  # fmt: skip
    with cluster(1, processes=False) as made:
        done = command(
            "run", *plan, "--cluster", made.scheduler_address, "--out", tmp_path / "there"
        )
    assert done.exit_code == 0, done.output
    assert "lab_1 · torch" in done.output
    with one_thread():
        assert command("run", *plan, "--out", tmp_path / "here").exit_code == 0
    there, here = (
        [row_of(r) for r in bundle.read_results(tmp_path / name)]
        for name in ("there/lab_1", "here")
    )
    assert sorted(map(repr, there)) == sorted(map(repr, here))
    assert bundle.read_environment(tmp_path / "there" / "lab_1")["cpu"]["threads"] == "1"


def test_a_scheduler_that_goes_away_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        def scheduler_info(self) -> dict[str, Any]:
            return {}

    there = DaskClient.__new__(DaskClient)
    monkeypatch.setattr(there, "_client", Client(), raising=False)
    monkeypatch.setattr(there, "_every", {}, raising=False)
    monkeypatch.setattr(there, "_address", "tcp://head:8786", raising=False)
    with pytest.raises(
        client.LostSchedulerError,
        match=r"^the Dask scheduler at tcp://head:8786 went away; what was judged is kept, and",
    ):
        there.members()


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CONNECT_SECONDS", 0.5)
    with pytest.raises(
        UsageError,
        match=(
            r"^no Dask scheduler answers at tcp://127.0.0.1:9: .*; start one with: dask "
            r"scheduler$"
        ),
    ):
        DaskClient("tcp://127.0.0.1:9")


def test_without_dask_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(
        UsageError,
        match=(
            r"--cluster needs Dask distributed \(.*\); install it with: pip install "
            r'"consistency\[cluster\]"'
        ),
    ):
        DaskClient("tcp://127.0.0.1:9")


@pytest.mark.nightly
def test_a_killed_worker_changes_nothing() -> None:
    settings = chosen(["softmax", "sign", "sum", "matmul"], 30)
    killed: list[str] = []
    with (
        cluster(2, processes=True) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        processes = client.run(os.getpid)

        def kill(coordinator: Coordinator, event: Event) -> None:
            if (
                isinstance(event, UnitDone)
                and len(killed) < 2
                and coordinator.jobs.busy & processes.keys()
            ):
                (address, *_) = coordinator.jobs.busy & processes.keys()
                os.kill(processes.pop(address), signal.SIGKILL)
                killed.append(address)

        events = run(made.scheduler_address, settings, kill)
    assert killed
    with one_thread():
        assert rows(events) == rows(list(engine.run(settings)))


@pytest.mark.nightly
def test_a_case_that_kills_its_process_costs_only_itself(tmp_path: Path) -> None:
    spec = f"{SUPPORT / 'bad_backends.py'}:Segfaults"
    settings = engine.configure(
        ["softmax"], ["cpu", spec], ["float32"], ["forward"], examples=12, shrink=False
    )
    with cluster(1, processes=True) as made:
        events = run(made.scheduler_address, settings)
    results = [r for event in events if isinstance(event, Judged) for r in event.results]
    ended = [r for r in results if r.verdict.value == "crash"]
    assert ended
    assert {r.backend for r in ended} == {"segfaults"}
    assert all("SIGSEGV" in r.explanation for r in ended)
    assert sum(r.backend == "cpu" and r.comparison is not None for r in results) == 12
    assert isinstance(events[0], Started)


@pytest.mark.nightly
def test_thirty_thousand_results_are_the_same_in_one_process_two_and_on_dask() -> None:
    settings = chosen(["family:reduction", "family:matmul", "family:unary"], 60)
    with one_thread():
        alone = rows(list(engine.run(settings)))
        two = [event for _, event in ProcessExecutor(settings, 2).run()]
        assert len(alone) >= 30_000
        assert rows(two) == alone
        with cluster(2, processes=True) as workers:
            assert rows(run(workers.scheduler_address, settings)) == alone
