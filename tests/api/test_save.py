"""A failure in a user's hand becomes a folder, of assert_consistent and of a watch; its message
says how to repeat it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch.nn import functional as F

import consistency
from consistency.cli.main import main
from consistency.core.model import Case
from consistency.errors import Divergence, UsageError
from consistency.operators.catalog.functions import function_named, name_of
from consistency.storage import manifest
from tests.support.commands import command


class Off(consistency.Backend):
    """All results a hundredth too large."""

    name = "off"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return super().call(operator, args, kwargs) * 1.01


def divergence(fn: Any, *args: Any, **kwargs: Any) -> Divergence:
    with pytest.raises(Divergence) as caught:
        consistency.assert_consistent(fn, *args, backends=[Off()], **kwargs)
    return caught.value


def mine(x: torch.Tensor) -> torch.Tensor:
    shifted = (x - x.amax(1, keepdim=True)).exp()
    return shifted / shifted.sum(1, keepdim=True)


def test_a_function_of_torch_ends_with_its_command() -> None:
    error = divergence(F.softmax, torch.rand(3, 4), 1)
    (result,) = error.results
    assert result.case.source == "call/torch.nn.functional.softmax"  # type: ignore[attr-defined]
    command = re.search(r"^  again:   (consistency repro .*)$", str(error), re.MULTILINE)
    assert command is not None
    words = shlex.split(command.group(1).replace("--backend FILE.py:NAME", "--backend cpu"))
    assert Case.from_line(words[2]) == result.case  # type: ignore[attr-defined]
    answer = CliRunner().invoke(main, words[1:])
    assert answer.exit_code == 0, answer.output
    assert "✓ softmax · float32 · forward · cpu   rounding" in answer.output


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (torch.matmul, "torch.matmul"), (F.layer_norm, "torch.nn.functional.layer_norm"),
        (torch.Tensor.add_, "Tensor.add_"),
        (torch.linalg.svd, "torch.linalg.svd"), (mine, ""), (lambda x: x, ""), (torch.nn.Linear(2,
        2), ""), (len, ""),
    ],
)  # fmt: skip
def test_the_names_of_torchs_functions(function: Any, name: str) -> None:
    assert name_of(function) == name
    if name:
        assert function_named(name) is function


def test_large_tensors_take_two_steps(tmp_path: Path) -> None:
    error = divergence(torch.matmul, torch.rand(30, 40), torch.rand(40, 50))
    assert 'consistency.save(error.results[0], "FOLDER") in Python, and then' in str(error)
    assert "consistency repro FOLDER --backend FILE.py:NAME --direction forward" in str(error)
    folder = consistency.save(error.results[0], tmp_path / "kept")  # type: ignore[arg-type]
    assert manifest.check(folder)
    answer = command("repro {} --backend cpu --direction forward --json", folder)
    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.output)["verdict"] == "rounding"
    with pytest.raises(UsageError, match="holds something already; name another folder"):
        consistency.save(error.results[0], folder)  # type: ignore[arg-type]


@pytest.mark.nightly
def test_a_function_of_ones_own_says_so_and_is_kept(tmp_path: Path) -> None:
    error = divergence(mine, torch.rand(3, 4))
    assert "no command can call a function of your own" in str(error)
    assert 'consistency.save(error.results[0], "FOLDER", fn=mine): ' in str(error)
    assert "consistency repro" not in str(error)
    folder = consistency.save(error.results[0], tmp_path / "kept", fn=mine)  # type: ignore[arg-type]
    script = (folder / "repro.py").read_text(encoding="utf-8")
    assert ".amax(1, keepdim=True)" in script
    ran = subprocess.run(
        [sys.executable, "repro.py", "cpu"], cwd=folder, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    answer = command("repro {} --backend cpu", folder)
    assert answer.exit_code == 2
    assert "'mine' is a function of somebody's own" in answer.output
    assert "torch.softmax" not in (folder / "issue.md").read_text(encoding="utf-8")


def test_another_reference_is_a_function_of_ones_own() -> None:
    """The command would compare torch's function with itself, which is not what was asked."""
    error = divergence(F.softmax, torch.rand(3, 4), 1, reference=torch.softmax)
    assert error.results[0].case.source == "yours/softmax"  # type: ignore[attr-defined]


@pytest.mark.nightly
def test_failures_of_a_watch_are_kept_as_they_are_found(tmp_path: Path) -> None:
    x = torch.rand(64, 64)
    with consistency.watch(backends=[Off()], out=tmp_path / "failures", own=False) as w:
        for _ in range(4):
            x @ x
            x = x + 1.0
    folders = sorted((tmp_path / "failures").iterdir())
    assert len(folders) == 4  # two of each operator
    command = re.search(r"^  again:   (consistency repro .*)$", str(w), re.MULTILINE)
    assert command is not None
    answer = CliRunner().invoke(
        main, shlex.split(re.sub(r"--backend tests\S+:Off", "--backend cpu", command.group(1)))[1:]
    )
    assert answer.exit_code == 0, answer.output
    assert "aten.mm · float32 · forward · cpu   rounding" in answer.output
    script = subprocess.run(
        [sys.executable, str(folders[0] / "repro.py"), "cpu"], capture_output=True, text=True
    )
    assert script.returncode == 0, script.stdout + script.stderr


def test_what_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    error = divergence(torch.matmul, torch.rand(3, 4), torch.rand(4, 5))
    with pytest.raises(UsageError, match=r"cannot write .*file"):
        consistency.save(error.results[0], tmp_path / "file" / "kept")  # type: ignore[arg-type]
