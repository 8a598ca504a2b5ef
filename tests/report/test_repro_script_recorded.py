"""Artifacts of outcomes recorded on a DirectML device elsewhere: scripts for the machine that has
it, checked here on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from consistency.core.model import Result
from consistency.engine.events import Judged
from consistency.engine.judge_recordings import RecordingPlan, events, plan
from consistency.report import repro_script
from consistency.storage.recording.import_folder import convert
from tests.support.paths import DATA, SITE_PACKAGES, SUPPORT

OPENED = "    import torch_directml\n\n    device = torch_directml.device()\n"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[RecordingPlan, list[Result]]:
    folder = tmp_path_factory.mktemp("recording")
    convert(DATA / "directml-recording", folder / "it")
    planned = plan([folder / "it"])
    results = [
        result
        for event in events(planned, closer=False)
        if isinstance(event, Judged)
        for result in event.results
    ]
    planned.close()
    return planned, results


@pytest.mark.nightly
def test_scripts_open_the_device_and_are_right_about_the_call(
    judged: tuple[RecordingPlan, list[Result]], tmp_path: Path
) -> None:
    """With the CPU in the device's place, which is healthy, every script of a failure passes."""
    planned, results = judged
    failing = [result for result in results if result.verdict.fails]
    assert len(failing) > 60
    identities = {backend.name: backend.identity for backend in planned.config.backends}
    scripts = []
    for result in failing:
        made = repro_script.script_of(
            result, planned.config.specs[result.backend], identities[result.backend]
        )
        assert made.limits == (), result.recorded_id
        assert made.text.count(OPENED) == 1
        assert "# Its outputs were recorded elsewhere (torch 2.4.1+cu121, llvmpipe" in made.text
        assert ("a configuration called 'float64'" in made.text) == (
            result.backend == "directml+float64"
        )
        scripts.append(
            (
                f"{result.recorded_id} {result.backend}",
                made.text.replace(OPENED, "    device = 'cpu'\n"),
            )
        )
    path = tmp_path / "scripts.json"
    path.write_text(json.dumps(scripts), encoding="utf-8")
    command = [
        sys.executable,
        "-I",
        "-S",
        SUPPORT / "script_runner.py",
        SITE_PACKAGES,
        str(path),
    ]
    answer = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=100, check=True)
    outcomes = json.loads(answer.stdout.splitlines()[-1])
    assert {name: outcome for name, outcome in outcomes.items() if outcome[0] != "passed"} == {}
    assert len(outcomes) == len(failing)


def test_issues_say_where_the_outputs_come_from(judged: tuple[RecordingPlan, list[Result]]) -> None:
    planned, results = judged
    (result,) = (result for result in results if result.recorded_id == "mul-float32-f-6")
    backend = next(backend for backend in planned.config.backends if backend.name == result.backend)
    text = repro_script.issue(
        result, spec=planned.config.specs[result.backend], identity=backend.identity
    )
    assert text.splitlines()[0] == "# `torch.mul`, float32: wrong shape or dtype on directml"
    assert "the result has dtype bool instead of float32" in text
    assert "| device | `llvmpipe (vkd3d-proton, lavapipe)` |" in text
    assert f"| judged with | `torch {torch.__version__}, where the outputs were not made` |" in text
    assert "which judges the recorded outputs so" in text
    assert f"consistency judge {planned.config.specs[result.backend]} --id mul-float32-f-6" in text
