"""Every executor judges the same work units and gives the same results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from packaging.version import Version

import consistency
from consistency.backends.subprocess.process import LostError
from consistency.cli.main import main
from consistency.core.model import MEASURED_ELSEWHERE, Case
from consistency.core.recipe import TensorRecipe
from consistency.engine import engine
from consistency.engine.bundle_writer import BundleWriter
from consistency.engine.engine import Collect, Executor
from consistency.engine.events import Event, Judged, ResumeState
from consistency.engine.executors.inline import InlineExecutor
from consistency.engine.executors.processes import ProcessExecutor
from consistency.engine.executors.workers import crashing_cases
from consistency.engine.executors.workers.coordinator import Coordinator
from consistency.engine.executors.workers.crashing_cases import (
    REFERENCE_ENDED,
    _single_backend_crashes,
)
from consistency.engine.executors.workers.start import start_process
from consistency.engine.resume import earlier_results
from consistency.errors import UsageError
from consistency.report import bundles
from consistency.report.summary import RunSummary
from consistency.storage import bundle
from consistency.storage.bundle import row_of
from consistency.storage.corpus.corpus import Corpus
from tests.support.fake_client import FakeClient

# Ends its process on every call of one operator.
DEADLY = """
import os
import consistency

class Deadly(consistency.Backend):
    name = "deadly"

    def call(self, operator, args, kwargs):
        if operator.name == "sign":
            os.kill(os.getpid(), 9)
        return super().call(operator, args, kwargs)
"""

# Its softmax is a hundredth too large.
WRONG = """
import consistency

class Wrong(consistency.Backend):
    name = "wrong"

    def call(self, operator, args, kwargs):
        out = super().call(operator, args, kwargs)
        return out * 1.01 if operator.name == "softmax" else out
"""


def config(**changes: Any) -> engine.RunConfig:
    arguments: dict[str, Any] = {
        "operators": ["softmax", "sign", "outer"],
        "backends": ["cpu", "numpy"],
        "dtypes": ["float32", "float64"],
        "examples": 4,
        "seed": 3,
    }
    return engine.configure(**{**arguments, **changes})


def collected(executor: Executor, resume: ResumeState | None = None) -> Collect:
    collect = Collect()
    for _, event in executor.run(lambda environment: resume or ResumeState()):
        collect(event)
    return collect


def rows(collect: Collect) -> list[str]:
    return [json.dumps(row_of(result), sort_keys=True) for result in collect.results]


def test_all_executors_give_the_same_results_in_the_same_order() -> None:
    inline = collected(InlineExecutor(config()))
    processes = collected(ProcessExecutor(config(), 2))
    client = FakeClient({"a": frozenset(), "b": frozenset()})
    workers = collected(Coordinator(config(), client))
    assert len(inline.results) > 40
    assert rows(processes) == rows(inline)
    assert rows(workers) == rows(inline)
    scalings = [scaling.to_json() for scaling in inline.scalings]
    assert scalings
    assert [scaling.to_json() for scaling in processes.scalings] == scalings
    assert [scaling.to_json() for scaling in workers.scalings] == scalings


def test_a_process_that_holds_much_memory_is_replaced_between_units(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = []

    def start(*args: Any, **options: Any) -> Any:
        started.append(start_process(*args, **options))
        return started[-1]

    monkeypatch.setattr("consistency.engine.executors.processes.start_process", start)
    for kept, processes in ((1 << 40, 1), (1 << 20, 3)):
        started.clear()
        monkeypatch.setattr(crashing_cases, "KEPT_BYTES", kept)
        monkeypatch.setattr(crashing_cases, "KEPT_SECONDS", 0.0)
        chosen = config(
            operators=["sign", "neg", "exp"], dtypes=["float32"], directions=["forward"]
        )
        judged = collected(ProcessExecutor(chosen, 1))
        assert rows(judged) == rows(collected(InlineExecutor(chosen)))
        assert processes <= len(started) <= processes + 2  # and what describes the machine
    monkeypatch.setattr(crashing_cases, "KEPT_SECONDS", 3600.0)  # none that has just begun
    started.clear()
    collected(ProcessExecutor(chosen, 1))
    assert len(started) == 1


def test_a_crashing_process_costs_its_case_only_and_an_interrupted_run_is_completed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "deadly.py"
    path.write_text(DEADLY, encoding="utf-8")
    chosen = config(
        operators=["sign", "neg"], backends=["cpu", f"{path}:Deadly"], dtypes=["float32"],
        directions=["forward"], examples=1, exhaustive=False,
    )  # fmt: skip
    folder = tmp_path / "bundle"

    class StopRunError(Exception):
        pass

    def stop(event: Event) -> None:
        if isinstance(event, Judged) and event.case.operator == "neg":
            raise StopRunError

    writer = bundles.writer(folder)
    with pytest.raises(StopRunError):
        engine.drive(chosen, [writer, stop], executor=ProcessExecutor(chosen, 1))
    writer.close()
    writer = bundles.writer(folder, resume=True)
    engine.drive(
        chosen, [writer], earlier_results(folder), executor=ProcessExecutor(chosen, 1)
    )  # fmt: skip
    writer.close()
    found = bundle.read_results(folder)
    verdicts = {(r.operator, r.backend): set[str]() for r in found}
    for r in found:
        verdicts[r.operator, r.backend].add(r.verdict.value)
    assert verdicts["sign", "deadly"] == {"crash"}
    assert "crash" not in set().union(
        *(kinds for key, kinds in verdicts.items() if key != ("sign", "deadly"))
    )
    assert len({r.key for r in found}) == len(found) == 2 * 2


def test_a_crash_of_the_process_that_an_entry_expects_is_known(tmp_path: Path) -> None:
    path, entry = tmp_path / "deadly.py", tmp_path / "known.yaml"
    path.write_text(DEADLY, encoding="utf-8")
    entry.write_text(
        "expectations:\n"
        "  - {operator: sign, backend: deadly, verdicts: [crash], reason: it dies}\n",
        encoding="utf-8",
    )
    chosen = config(
        operators=["sign"], backends=[f"{path}:Deadly"], dtypes=["float32"],
        directions=["forward"], examples=1, exhaustive=False, expectations=[entry],
    )  # fmt: skip
    found = collected(ProcessExecutor(chosen, 1, expectations=[str(entry)])).results
    assert found
    assert {r.verdict.value for r in found} == {"known"}
    assert all(r.explanation.startswith("known (it dies): the process ended") for r in found)


def test_objects_cannot_be_sent_to_processes() -> None:
    class Mine(consistency.Backend):
        name = "mine"

    with pytest.raises(UsageError, match=r"'mine' is an object of this program"):
        ProcessExecutor(config(backends=["cpu", Mine()]), 1)


def test_the_command_judges_in_processes(tmp_path: Path) -> None:
    arguments = ["run", "neg", "--backend", "cpu", "--dtype", "float32", "--examples", "1"]
    out = ["--out", str(tmp_path / "bundle"), "--no-fingerprint"]
    result = CliRunner().invoke(main, [*arguments, "--jobs", "1", *out])
    assert result.exit_code == 0, result.output
    verdicts = {r.verdict.value for r in bundle.read_results(tmp_path / "bundle")}
    assert {"exact"} <= verdicts <= {"exact", "inconclusive"}
    result = CliRunner().invoke(main, [*arguments, "--jobs", "1", "--cluster", "tcp://x:1"])
    assert result.exit_code == 2
    assert "--jobs is for this machine" in result.output


@pytest.mark.parametrize("jobs", [33, 10**9])
def test_more_processes_than_the_machine_can_start(
    jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("consistency.engine.executors.early_processes.usable_cores", lambda: 2)
    result = CliRunner().invoke(main, ["run", "relu", "--jobs", str(jobs), "--no-bundle"])
    assert result.exit_code == 2
    assert result.output.count("\n") == 1
    assert f"{jobs:,} jobs: 1 to 32 are possible here (2 cores)" in result.output
    with pytest.raises(ValueError, match="1 to 32 are possible here"):
        consistency.run(["relu"], jobs=jobs)


def test_of_what_only_counts_the_measurements_stay_in_the_row(tmp_path: Path) -> None:
    """A run that stores rows and counts gets the same bundle and the same table from results that
    come without their measurements; what fails comes whole."""
    chosen = config(
        operators=["softmax", "sign"], dtypes=["float32"],
        backends=["cpu", f"{wrong_softmax(tmp_path)}:Wrong"],
    )  # fmt: skip
    bundles, summaries, taken = {}, {}, []
    for brief in (False, True):
        folder, summary = tmp_path / str(brief), RunSummary()

        def handle(event: Event, summary: RunSummary = summary) -> None:
            if isinstance(event, Judged):
                taken.append(event)
                for result in event.results:
                    summary.add(result)

        executor = ProcessExecutor(chosen, 2, brief=brief)
        engine.drive(chosen, [BundleWriter(folder), handle], executor=executor)
        text = (folder / "results.jsonl").read_text(encoding="utf-8")
        stored = [json.loads(line) for line in text.splitlines()]
        drawn = [row for row in stored if not row.get("shrunk")]
        bundles[brief] = sorted(json.dumps(row, sort_keys=True) for row in drawn)
        summaries[brief] = summary
    assert bundles[True] == bundles[False]
    whole, counted = summaries[False], summaries[True]
    assert counted.verdicts == whole.verdicts
    assert counted.verdicts["divergent"] > 0
    assert counted.reasons == whole.reasons
    assert {f: {b: c.text() for b, c in r.items()} for f, r in counted.cells.items()} == {
        f: {b: c.text() for b, c in r.items()} for f, r in whole.cells.items()
    }
    results = [result for event in taken[len(taken) // 2 :] for result in event.results]
    without = [r for r in results if r.comparison is MEASURED_ELSEWHERE]
    assert without
    assert not any(r.verdict.fails for r in without)
    assert all(r.comparison is None or r.comparison.outputs for r in results if r.verdict.fails)


def wrong_softmax(folder: Path) -> Path:
    path = folder / "wrong.py"
    path.write_text(WRONG, encoding="utf-8")
    return path


class Probed:
    """A process in which a case dies, unless it is tried as ``survives`` says."""

    def __init__(self, survives: Callable[[dict[str, Any]], dict[str, Any] | None]) -> None:
        self.survives = survives

    def request(self, header: dict[str, Any], *more: Any) -> dict[str, Any]:
        reply = self.survives(header)
        if reply is None:
            raise LostError("crash", "the process ended (SIGSEGV)")
        return reply


@pytest.mark.parametrize(
    ("alone", "status", "text"),
    [
        (None, "crash", "the process ended (SIGSEGV), again when the case was tried by itself"),
        ({"status": "crash", "text": "exp: the process ended (SIGSEGV)"}, "crash", "exp: the"),
        ({"status": "ok", "text": ""}, "inconclusive", f"{REFERENCE_ENDED}: the process ended"),
    ],
)
def test_whose_call_ends_the_process(alone: dict[str, Any] | None, status: str, text: str) -> None:
    """A backend whose own call returns is not blamed for that of the CPU beside it."""
    header = {"directions": ["forward"], "backends": ["one", "other"]}

    def survives(probe: dict[str, Any]) -> dict[str, Any] | None:
        if probe["backends"] == ["other"]:
            return {"kind": "survived"}
        return alone if probe["alone"] else None

    process: Any = Probed(survives)
    (row,) = _single_backend_crashes(header, (), process, "exp-1", 1.0, list)
    assert row[:4] == ["exp-1", "one", "forward", status]
    assert row[4].startswith(text)


def test_a_call_that_ends_the_process_on_the_cpu_does_not_end_the_run(tmp_path: Path) -> None:
    """Nothing about it is computed in the process that hands out the cases and writes them."""
    image = TensorRecipe(
        (2, 3, 5, 6), "float32", ("uniform", -1.0, 1.0), 9000,
        view=(("permute", 0, 3, 1, 2),), leaf=False,
    )  # fmt: skip
    weight = TensorRecipe((6,), "float32", ("uniform", -1.0, 1.0), 500)
    case = Case("nn.functional.group_norm", "float32", (image, 3, weight), {}, 7)
    chosen = config(
        operators=[case.operator], backends=["cpu"], dtypes=["float32"], explore=False,
        exhaustive=False, corpus=Corpus("drawn", (case,)),
    )  # fmt: skip
    writer, collect = bundles.writer(tmp_path / "bundle"), Collect()
    engine.drive(chosen, [writer, collect], executor=ProcessExecutor(chosen, 1))
    found = {result.direction: result for result in collect.results}
    assert found["forward"].verdict.passes
    if found["backward"].verdict.passes:
        assert Version(torch.__version__) >= Version("2.14"), "where it was corrected"
        return
    assert found["backward"].verdict.value == "crash"
    (folder,) = (tmp_path / "bundle" / "failures").iterdir()
    assert (folder / "result.json").is_file()
    again = CliRunner().invoke(main, ["repro", str(folder), "--backend", "cpu"])
    assert again.exit_code == 1
    assert "nn.functional.group_norm · float32   crash: the process that ran it ended" in (
        again.output
    )
