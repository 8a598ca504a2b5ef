"""A portable zip records in processes that can import torch and NumPy and nothing else of what this
package needs; what comes back is judged as any recording."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import consistency
from consistency.errors import BundleError
from consistency.storage.portable import archive
from tests.support.commands import command
from tests.test_imports import HEAVY

# In every process of the machine that records, workers included.
BLOCK = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {(*HEAVY, "safetensors", "jsonschema", "filelock")!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked zip on the other machine."""
    folder = tmp_path_factory.mktemp("elsewhere")
    packed = folder / "cases.zip"
    done = command(
        "record --portable -o {} add_ softmax linalg.inv --dtype float32 --dtype bfloat16 "
        "--dtype int64 --examples 3 --no-shipped --literal --backend cpu",
        packed,
    )
    assert done.exit_code == 0, done.output
    assert "README.txt" in done.output
    with zipfile.ZipFile(packed) as zipped:
        zipped.extractall(folder / "unpacked")
    (folder / "blocked").mkdir()
    (folder / "blocked" / "sitecustomize.py").write_text(BLOCK, encoding="utf-8")
    return folder / "unpacked"


def run_there(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PYTHON")
    }
    environment["PYTHONPATH"] = str(folder.parent / "blocked")
    return subprocess.run(
        [sys.executable, "record.py", *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8",
        timeout=300.0, check=False,
    )  # fmt: skip


def test_what_a_bare_process_records_is_judged(elsewhere: Path) -> None:
    done = run_there(elsewhere, "-o", "mine")
    assert (done.returncode, done.stderr) == (0, "")
    recorded = elsewhere / "mine"
    header = json.loads((recorded / "recording.json").read_text(encoding="utf-8"))
    assert header["complete"] is True
    assert header["backend"] == "cpu"
    cases = (elsewhere / "cases.jsonl").read_bytes()
    assert (recorded / "cases.jsonl").read_bytes() == cases
    run = consistency.judge_recordings(recorded)
    assert len(run.results) > len(cases.splitlines())
    assert {r.dtype for r in run.results} == {"float32", "bfloat16", "int64"}
    assert not run.failures


@pytest.mark.nightly
def test_a_wrong_number_that_comes_back_is_found(elsewhere: Path) -> None:
    assert run_there(elsewhere, "-o", "changed").returncode == 0
    shard = next((elsewhere / "changed" / "tensors").iterdir())
    data = bytearray(shard.read_bytes())
    start = 8 + int.from_bytes(data[:8], "little")
    data[start:] = bytes(len(data) - start)
    shard.write_bytes(bytes(data))
    assert consistency.judge_recordings(elsewhere / "changed").failures


@pytest.mark.nightly
def test_an_interrupted_recording_is_completed(elsewhere: Path) -> None:
    assert run_there(elsewhere, "-o", "twice").returncode == 0
    lines = elsewhere / "twice" / "outcomes.jsonl"
    whole = lines.read_text(encoding="utf-8").splitlines()
    lines.write_text("\n".join(whole[:4]) + "\n" + whole[4][:20], encoding="utf-8")
    assert run_there(elsewhere, "-o", "twice").returncode == 0
    again = lines.read_text(encoding="utf-8").splitlines()
    ids = [json.loads(line)["id"] for line in again]
    assert sorted(ids) == sorted(json.loads(line)["id"] for line in whole)
    assert not consistency.judge_recordings(elsewhere / "twice").failures


@pytest.mark.nightly
def test_a_backend_that_is_not_there_says_why(elsewhere: Path) -> None:
    done = run_there(elsewhere, "--backend", "directml", "-o", "none")
    assert done.returncode == 3
    assert "directml cannot run here: " in done.stderr
    assert not (elsewhere / "none").exists()
    assert run_there(elsewhere, "--backend", "directl").returncode == 2


def test_a_python_without_torch_is_told_in_one_line(elsewhere: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-E", "record.py"], cwd=elsewhere, capture_output=True, text=True,
        encoding="utf-8", timeout=60.0, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("torch and numpy not installed for ")
    assert done.stderr.count("\n") == 1


@pytest.mark.nightly
def test_what_comes_back_is_not_trusted(elsewhere: Path) -> None:
    assert run_there(elsewhere, "-o", "damaged").returncode == 0
    lines = elsewhere / "damaged" / "outcomes.jsonl"
    text = lines.read_text(encoding="utf-8")
    lines.write_text(text.replace('/out/0"', '/../../out/0"', 1), encoding="utf-8")
    with pytest.raises(BundleError, match=r"outcomes\.jsonl:\d+  no file of the recording holds"):
        consistency.judge_recordings(elsewhere / "damaged")


def test_cases_that_need_other_packages_stay_here(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    drawn = command("record -o {} add --source opinfo --dtype float32 --examples 1", corpus)
    assert drawn.exit_code == 0
    with pytest.raises(BundleError, match="drawn cases only"):
        archive.write(corpus, tmp_path / "cases.zip", "cpu")


def test_the_zip_says_how_it_is_run(elsewhere: Path) -> None:
    names = {path.name for path in elsewhere.iterdir()}
    assert {"README.txt", "record.py", "record.cmd", "cases.jsonl", "portable.json"} <= names
    assert "\\Scripts\\python record.py" in (elsewhere / "README.txt").read_text(encoding="utf-8")
