"""Foreign data of every kind, read by every command: no traceback, no signal, no file touched that
is not the command's own, nothing that takes 10 s or 1 GB.

A pull request tries a few mutations, ``-m nightly`` ten thousand. ``python -m tests.support.fuzzing
--help`` runs others, and repeats one by its number.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fuzzing.targets import TARGETS
from tests.support.paths import ROOT

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="mutations are read in forks, which Windows lacks"
)
SHARDS, MUTATIONS = 10, 1000
FEW, REPEATED = 2, 1
# Commands that call no kernel: hundreds of these take as long as a few of the others.
CHEAP = "^(report|diff|pack|corpus merge|corpus check|explain .fingerprint|query .*bundle)"


def fuzz(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.fuzzing", "--folder", str(folder), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzzing")


@pytest.mark.nightly
def test_planted_defects_are_found(folder: Path) -> None:
    """… and healthy data read by a healthy command gives no complaint."""
    ended = fuzz("--planted", "--command", "^report .bundle.$", folder=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[0] == "none: nothing"
    assert len(lines) == 13


@pytest.mark.nightly
def test_a_few_mutations(folder: Path) -> None:
    """… each of which its number repeats."""
    several = ("--mutations", str(FEW), "--command", CHEAP)
    ended = fuzz(*several, "--json", str(folder / "all.jsonl"), folder=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith(f"{FEW} mutations, 0 with complaints")
    again = ("--only", *map(str, range(REPEATED)), "--command", CHEAP)
    fuzz(*again, "--json", str(folder / "again.jsonl"), folder=folder)
    repeated = mutations(folder / "again.jsonl")
    assert len(repeated) == REPEATED
    assert repeated.items() <= mutations(folder / "all.jsonl").items()


def mutations(path: Path) -> dict[int, tuple[str, int]]:
    """What was done and the exit status, by number."""
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return {row["number"]: (row["mutation"], row["ended"]["status"]) for row in rows}


@pytest.mark.nightly
def test_healthy_data_gives_no_complaint(folder: Path) -> None:
    ended = fuzz("--healthy", folder=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith(f"{len(TARGETS)} mutations, 0 with complaints")


@pytest.mark.nightly
@pytest.mark.parametrize("shard", range(SHARDS))
def test_ten_thousand_mutations(folder: Path, shard: int) -> None:
    first = str(shard * MUTATIONS)
    ended = fuzz("--first", first, "--mutations", str(MUTATIONS), folder=folder)
    assert ended.returncode == 0, ended.stdout + ended.stderr
