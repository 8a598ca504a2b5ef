"""Fifty planted faults: the script of each fails where the fault is, passes where it is not, and
neither knows this project."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from consistency import backends, operators
from consistency.backends import Backend
from consistency.backends.subprocess.backend import SubprocessBackend
from consistency.core.model import Result
from consistency.diagnose.shrink import minimize
from consistency.engine import engine
from consistency.generate.materialize import case_of
from consistency.judge import tolerances
from consistency.operators.declare import Operator
from consistency.report import repro_script
from tests.support.paths import SITE_PACKAGES, SUPPORT

CASES = 40
HANG = 3.0  # seconds until a call counts as one that hangs
MOST_LINES = 48

# operator, dtype, direction: what the fault is judged as
FAULTS = {
    ("exp", "float32", "forward"): "divergent",
    ("sin", "float32", "forward"): "reduced-precision",
    ("matmul", "float32", "forward"): "reduced-precision",
    ("sum", "float32", "forward"): "divergent",
    ("mean", "float32", "forward"): "divergent",
    ("nn.functional.gelu", "float32", "forward"): "divergent",
    ("nn.functional.layer_norm", "float32", "forward"): "divergent special-values",
    ("cumsum", "float32", "forward"): "reduced-precision",
    ("nn.functional.conv2d", "float32", "forward"): "divergent",
    ("mm", "bfloat16", "forward"): "divergent reduced-precision",
    ("bitwise_and", "int64", "forward"): "divergent",
    ("sub", "int64", "forward"): "divergent",
    ("_foreach_add", "float32", "forward"): "divergent",
    ("topk", "float32", "forward"): "divergent",
    ("fft.rfft", "float32", "forward"): "divergent",
    ("angle", "float32", "forward"): "divergent",
    ("nn.functional.embedding", "float32", "forward"): "divergent",
    ("linalg.matrix_norm", "float32", "forward"): "divergent",
    ("formula.softmax", "float32", "forward"): "divergent",
    ("tanh", "float32", "backward"): "divergent",
    ("sigmoid", "float64", "backward"): "divergent",
    ("nn.functional.softplus", "float32", "backward"): "divergent",
    ("mv", "float32", "backward"): "divergent",
    ("nn.functional.mse_loss", "float32", "backward"): "divergent",
    ("formula.linear", "float32", "backward"): "structure",
    ("mul_", "float32", "forward"): "divergent",
    ("neg_", "float32", "forward"): "divergent",
    ("fill_diagonal_", "float32", "forward"): "divergent",
    ("mul.out", "float32", "forward"): "divergent special-values",
    ("program", "float32", "forward"): "divergent",
    ("erf", "float32", "forward"): "structure error",
    ("abs", "float32", "forward"): "divergent",
    ("neg", "float16", "forward"): "divergent special-values",
    ("sqrt", "float32", "forward"): "divergent",
    ("cos", "float64", "forward"): "divergent",
    ("maximum", "float32", "forward"): "special-values",
    ("ceil", "float32", "forward"): "special-values",
    ("log", "float32", "forward"): "special-values",
    ("nn.functional.relu", "float32", "forward"): "special-values",
    ("argmax", "float32", "forward"): "structure",
    ("unsqueeze", "float32", "forward"): "structure",
    ("aminmax", "float32", "forward"): "structure",
    ("flip", "float32", "forward"): "error",
    ("linalg.inv", "float32", "forward"): "error",
    ("trace", "float32", "forward"): "crash",
    ("tril", "float32", "forward"): "timeout",
    ("prod", "float32", "forward"): "nondeterministic",
    ("var", "float32", "forward"): "nondeterministic",
    ("sinh", "float64", "forward"): "precision-scaling",
    ("expm1", "float64", "forward"): "precision-scaling",
    ("bernoulli", "float32", "forward"): "divergent",
}
ALONE = ("trace", "tril")  # what ends its process
OTHERS = ("tanh", "exp", "argmax")  # that run as processes in the nightly
PROCESSES = (*ALONE, *(pytest.param(name, marks=pytest.mark.nightly) for name in OTHERS))
GIVEN = {"linalg.inv": lambda: case_of("linalg.inv", "float32", (torch.zeros(2, 2),), {})}


class Found:
    """The failures of the faulty torch, by fault, with their scripts; and what became of these."""

    def __init__(
        self,
        folder: Path,
        chosen: Callable[[Any], bool] = lambda fault: True,
        minimized: bool = False,
    ) -> None:
        self.folder, self.seconds = folder, {}
        self.chosen, self._minimized = [fault for fault in FAULTS if chosen(fault)], minimized
        shutil.copy(SUPPORT / "faulty_torch.py", folder / "sitecustomize.py")
        self.spec = f"cpu+env:PYTHONPATH={folder}"
        self.results = self._judged()
        self.scripts = {
            fault: repro_script.script_of(result, self.spec)
            for fault, result in self.results.items()
        }
        self.faulty, self.healthy = self._ran(str(folder)), self._ran()

    def _judged(self) -> dict[tuple[str, str, str], Result]:
        backend = backends.resolve(self.spec)
        assert isinstance(backend, SubprocessBackend)
        backend.limits = replace(backend.limits, seconds=HANG)
        rules, found = tolerances.load(), {}
        try:
            for fault in self.chosen:
                name, dtype, direction = fault
                operator = operators.get(name)
                cases = (
                    [GIVEN[name]()] if name in GIVEN else engine.draw(operator, dtype, CASES, 0)[0]
                )
                for case in cases:
                    (result,) = engine.judge_case(
                        case,
                        operator,
                        [backend],
                        rules,
                        (direction,),
                        diagnosis_budget=engine.DiagnosisBudget(),
                    )
                    if result.verdict.fails:
                        found[fault] = result
                    if result.verdict.value in FAULTS[fault].split():
                        break
                if fault in found:
                    found[fault] = self._made_small(found[fault], operator, backend)
        finally:
            backend.close()
        return found

    def _made_small(self, result: Result, operator: Operator, backend: Backend) -> Result:
        if not self._minimized:
            return result
        began = time.monotonic()
        small = minimize(result, operator, backend, tolerances.load(), seconds=10.0).result
        self.seconds[result.key] = time.monotonic() - began
        return small

    def _ran(self, *faults: str) -> dict[str, Any]:
        path = self.folder / "scripts.json"
        rows = [
            [":".join(fault), script.text]
            for fault, script in self.scripts.items()
            if fault[0] not in ALONE
        ]
        path.write_text(json.dumps(rows), encoding="utf-8")
        command = [
            sys.executable,
            "-I",
            "-S",
            str(SUPPORT / "script_runner.py"),
            SITE_PACKAGES,
            str(path),
            *faults,
        ]
        answer = subprocess.run(
            command, capture_output=True, encoding="utf-8", timeout=120, check=False
        )
        assert answer.returncode == 0, answer.stderr[-2000:]
        found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
        return found


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(8, id="every eighth"),
        pytest.param(1, id="all", marks=pytest.mark.nightly),
    ],
)
def found(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Found:
    faults = list(FAULTS)
    return Found(
        tmp_path_factory.mktemp("faulty"),
        lambda fault: fault[0] in (*ALONE, *OTHERS) or not faults.index(fault) % request.param,
    )


def test_every_fault_is_found_for_what_it_is(found: Found) -> None:
    assert len(FAULTS) >= 50
    judged = {fault: result.verdict.value for fault, result in found.results.items()}
    wrong = {
        fault: judged.get(fault, "not found")
        for fault in found.chosen
        if judged.get(fault) not in FAULTS[fault].split()
    }
    assert wrong == {}


def test_every_script_fails_on_the_faulty_torch_and_passes_on_the_healthy_one(found: Found) -> None:
    assert {name: text for name, (text, _) in found.faulty.items() if text == "passed"} == {}
    assert {name: text for name, (text, _) in found.healthy.items() if text != "passed"} == {}
    assert len(found.faulty) == sum(fault[0] not in ALONE for fault in found.chosen)


def test_scripts_are_short_and_whole(found: Found) -> None:
    assert {fault: script.limits for fault, script in found.scripts.items() if script.limits} == {}
    assert {fault: script.files for fault, script in found.scripts.items() if script.files} == {}
    lines = {fault: len(script.text.splitlines()) for fault, script in found.scripts.items()}
    assert {fault: count for fault, count in lines.items() if count > MOST_LINES} == {}
    assert sorted(lines.values())[len(lines) // 2] <= 30
    assert not [
        fault for fault, script in found.scripts.items() if "import consistency" in script.text
    ]


def test_issue_texts_say_what_was_found(found: Found) -> None:
    for fault, result in found.results.items():
        text = repro_script.issue(result, spec=found.spec)
        assert text.startswith("# "), fault
        assert len([line for line in text.partition("```python")[0].splitlines() if line]) <= 20, (
            fault
        )
        if result.cause and result.cause != "nondeterministic":
            assert "- Likely cause: " in text, fault


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(5))
def test_minimized_scripts_are_shorter_and_fail_alike(part: int, tmp_path: Path) -> None:
    """Made small first: at most 40 lines, a few numbers, and in less than 30 s each."""
    found = Found(
        tmp_path,
        lambda fault: list(FAULTS).index(fault) % 5 == part and fault[0] not in ALONE,
        minimized=True,
    )
    assert {fault: script.limits for fault, script in found.scripts.items() if script.limits} == {}
    assert {
        fault: len(script.text.splitlines())
        for fault, script in found.scripts.items()
        if script.text.count("\n") > 40
    } == {}
    assert max(found.seconds.values()) < 30.0
    assert {name: text for name, (text, _) in found.faulty.items() if text == "passed"} == {}
    assert {name: text for name, (text, _) in found.healthy.items() if text != "passed"} == {}
    assert len(found.faulty) >= 9


@pytest.mark.nightly
@pytest.mark.parametrize("name", PROCESSES)
def test_as_a_process_of_its_own(name: str, found: Found, tmp_path: Path) -> None:
    """Exit status 1 (or the death of the process) on the faulty torch, 0 on the healthy one,
    without this project."""
    (fault,) = (fault for fault in FAULTS if fault[0] == name)
    folder = tmp_path / "artifact"
    repro_script.write(folder, found.results[fault], spec=found.spec)
    faults = (SUPPORT / "faulty_torch.py").read_text(encoding="utf-8")
    statuses = []
    for label, text in (("faulty", faults), ("healthy", "")):
        place = tmp_path / label
        place.mkdir()
        (place / "sitecustomize.py").write_text(
            f"{text}\nimport sys\nsys.modules['consistency'] = None\n", encoding="utf-8"
        )
        environment = os.environ | {"PYTHONPATH": str(place)}
        command = [sys.executable, str(folder / "repro.py")]
        answer = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
            check=False,
            cwd=tmp_path,
        )
        statuses.append(answer.returncode)
    assert statuses[1] == 0
    assert statuses[0] == (41 if name == "trace" else 1)
