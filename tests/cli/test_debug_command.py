"""consistency debug: a program that nobody edited, and the first of its calls that diverges."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

TRAIN = """
import sys
import torch
from torch import nn
import helper

if "--broken" in sys.argv:
    library = torch.library.Library("aten", "IMPL")

    def wrong(x):
        e = torch.exp(2 * x)
        y = (e - 1) / (e + 1)
        return y * 1.001 if x.dtype == torch.float32 else y

    library.impl("tanh", wrong, "CPU")

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), helper.Act(), nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def step(x):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


for _ in range(2):
    try:
        step(torch.rand(16, 8))
    except Exception:
        print("swallowed")
print("argv", sys.argv[1:], __name__)
if "--raise" in sys.argv:
    raise ValueError("no data")
sys.exit(7 if "--seven" in sys.argv else 0)
"""
HELPER = """
import torch

class Act(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x)
"""
BACKEND = """
import consistency

class Broken(consistency.Backend):
    name = "broken"
    def call(self, operator, args, kwargs):
        out = super().call(operator, args, kwargs)
        return out * 1.001 if "tanh_backward" in operator.name else out
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in (("train.py", TRAIN), ("helper.py", HELPER), ("backend.py", BACKEND)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def debug(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "consistency", "debug", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip


def test_the_first_call_that_diverges_with_its_line(project: Path) -> None:
    done = debug(project, "train.py", "--broken")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "made at helper.py:6, in forward: return torch.tanh(x)" in done.stdout
    assert "called from train.py:23, in step: loss = model(x).square().mean()" in done.stdout
    assert "aten.tanh.default (call" in done.stdout
    assert 'in Act "1")' in done.stdout
    assert "argv" not in done.stdout  # the program was ended, and could not swallow that
    assert "swallowed" not in done.stdout
    assert [p.name for p in (project / "reports" / "debug").glob("*/repro.py")] == ["repro.py"]
    assert "again:   consistency repro" in done.stdout
    again = debug(project, "--keep-going", "train.py", "--broken", "x")
    assert again.returncode == 1
    assert "argv ['--broken', 'x'] __main__" in again.stdout
    assert "made at helper.py:6" in again.stdout
    assert (project / "reports" / "debug-2").is_dir()


@pytest.mark.nightly
@pytest.mark.one_in(8)
@pytest.mark.parametrize(("argument", "status"), [("--fine", 0), ("--seven", 7), ("--raise", 1)])
def test_a_healthy_program_keeps_its_status(project: Path, argument: str, status: int) -> None:
    done = debug(project, "train.py", argument)
    assert done.returncode == status, done.stdout + done.stderr
    assert ", 0 differ" in done.stdout
    assert "was passed on to" not in done.stderr
    assert f"argv ['{argument}'] __main__" in done.stdout
    assert ("ValueError: no data" in done.stderr) == (argument == "--raise")
    assert "runpy" not in done.stderr
    assert "consistency/training" not in done.stderr
    assert not (project / "reports").exists()


LOADER = """
import torch

class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        return torch.full((8,), float(i + 1)).exp()

if __name__ == "__main__":
    for batch in torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=1):
        print("batch", batch.tanh().shape)
"""


@pytest.mark.nightly
def test_workers_of_a_loader_are_left_alone(project: Path) -> None:
    (project / "loader.py").write_text(LOADER, encoding="utf-8")
    done = debug(project, "loader.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("batch torch.Size([2, 8])") == 2
    assert "aten.exp" not in done.stdout


@pytest.mark.nightly
def test_gradients_on_another_backend_and_modules(project: Path) -> None:
    done = debug(project, "--backend", "backend.py:Broken", "-m", "train")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "aten.tanh_backward" in done.stdout
    assert "backward of Act" in done.stdout
    assert "loss.backward()" in done.stdout
    assert "· broken" in done.stdout


@pytest.mark.one_in(16)
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("nowhere.py",), "there is no program 'nowhere.py'"),
        (("-m", "no.where"), "there is no module 'no.where' to run"),
        (("--out", ".", "train.py"), "holds something already"),
        (("--backend", "cpuu", "train.py"), "did you mean cpu"),
    ],
)
def test_a_mistake_is_one_line(project: Path, arguments: tuple[str, ...], text: str) -> None:
    done = debug(project, *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_an_option_behind_the_program_is_told() -> None:
    from consistency.cli.commands.debug import _own_options

    assert _own_options(["--backend", "cuda", "--epochs=3", "--out=x"]) == ["--backend", "--out"]


@pytest.mark.nightly
def test_a_program_without_calls_is_not_tested(project: Path) -> None:
    (project / "empty.py").write_text("print('nothing')\n", encoding="utf-8")
    done = debug(project, "empty.py")
    assert done.returncode == 3
    assert "nothing" in done.stdout
