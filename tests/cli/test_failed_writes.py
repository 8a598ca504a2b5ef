"""Commands that write something else than a run's bundle, on a full disk: one line, status 2."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from consistency.storage.recording.reading import Recording
from tests.support.commands import command
from tests.support.faulty_files import Disk, failing

OFF = """
import consistency

class Off(consistency.Backend):
    name = "off"
    def call(self, operator, args, kwargs):
        return super().call(operator, args, kwargs) * 1.001
"""
MODEL = """
import torch
def factory():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 2), (torch.rand(4, 3),)
"""
RECORD = "record exp --dtype float32 --examples 2"
# With words for the place of the sources, and for the disk that fills up.
LINES = {
    "record": RECORD + " -b cpu -o DISK/x",
    "record a corpus": RECORD + " --literal -o DISK/x",
    "judge": "judge FROM/recording -o DISK/x",
    "report": "report FROM/bundle -o DISK/x.html",
    "report --markdown": "report FROM/bundle --markdown -o DISK/x.md",
    "matrix": "matrix FROM/bundle -o DISK/x --store FROM/x.duckdb",
    "corpus": "corpus merge -o DISK/x FROM/bundle FROM/corpus",
    "repro": "repro FAILURE --minimize -b FROM/users.py:Off -o DISK/x",
    "sweep": "sweep exp -b cpu -o DISK/x",
    "model": "model FROM/model.py:factory -b cpu --json DISK/x.json -o DISK/x.html",
    "expect": "expect FAILURE --reason x --ticket T-1 -o DISK/x.yaml",
    "calibrate": "calibrate exp --examples 5 --seeds 0 --proposal DISK/x.yaml --json DISK/x.json",
    "pack": "pack DISK/bundle",
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sources")
    (place / "users.py").write_text(OFF, encoding="utf-8")
    (place / "model.py").write_text(MODEL, encoding="utf-8")
    for line in (
        "run exp --dtype float32 --examples 2 -b cpu -b FROM/users.py:Off --no-fingerprint "
        "--no-shrink -o FROM/bundle",
        RECORD + " -b cpu -o FROM/recording",
        RECORD + " -o FROM/corpus",
    ):
        assert command(line.replace("FROM", place.as_posix())).exit_code in (0, 1)
    return place


def prepared(sources: Path, disk: Path, name: str) -> str:
    """The command line, and an empty disk (for ``pack`` one with a bundle)."""
    shutil.rmtree(disk, ignore_errors=True)
    disk.mkdir()
    if name == "pack":
        shutil.copytree(sources / "bundle", disk / "bundle")
    failure = min((sources / "bundle" / "failures").iterdir()).as_posix()
    line = LINES[name].replace("FROM", sources.as_posix()).replace("DISK", disk.as_posix())
    return line.replace("FAILURE", failure)


@pytest.mark.one_in(32)
@pytest.mark.parametrize("number", ["ENOSPC", "EROFS"])
@pytest.mark.parametrize("name", LINES)
def test_one_line(sources: Path, tmp_path: Path, name: str, number: str) -> None:
    """At the first operation, one in the middle, and the last one that makes anything."""
    code = getattr(errno, number)
    whole = Disk(tmp_path / "disk", number=code)
    line = prepared(sources, whole.root, name)
    with failing(whole):
        result = command(line)
    assert result.exit_code in (0, 1), result.output
    assert whole.count > 0
    making = [n for n, place in enumerate(whole.places, 1) if not place.startswith("unlink ")]
    for first in sorted({1, making[len(making) // 2], making[-1]}):
        prepared(sources, whole.root, name)
        disk = Disk(whole.root, first, code)
        with failing(disk):
            result = command(line)
        where = f"{whole.places[first - 1]}: {result.output}"
        assert result.exit_code == 2, where
        (told,) = result.stderr.splitlines()
        assert told.startswith("consistency: cannot write "), where
    assert command(prepared(sources, whole.root, name)).exit_code in (0, 1)


def stored(folder: Path) -> Any:
    """A recording without times; its tensors by their bits."""
    recording = Recording(folder)
    lines = (folder / "outcomes.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) | {"seconds": 0} for line in lines]
    recording.close()
    tensors = [path.read_bytes() for path in sorted((folder / "tensors").iterdir())]
    header = json.loads((folder / "recording.json").read_text(encoding="utf-8"))
    return rows, sum(map(len, tensors)) > 0, header["complete"]


@pytest.mark.nightly
def test_a_recording_is_completed(tmp_path: Path) -> None:
    line = RECORD + " -b cpu -o {}"
    counted = Disk(tmp_path / "whole")
    with failing(counted):
        assert command(line, counted.root).exit_code == 0
    for first in range(1, counted.count + 1):
        disk = Disk(tmp_path / f"n{first}", first)
        with failing(disk):
            result = command(line, disk.root)
        assert result.exit_code == 2, result.output
        (told,) = result.stderr.splitlines()
        assert told.endswith(f"make room, then complete it with --resume -o {disk.root}") or (
            "name another folder" in told
        )
        result = command(line + " --resume", disk.root)
        assert result.exit_code == 0, result.output
        assert stored(disk.root) == stored(counted.root)
