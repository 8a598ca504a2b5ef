"""Runs on a real file system without room: a small tmpfs, in a namespace of its own."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

OFF = """
import consistency

class Off(consistency.Backend):
    name = "off"
    def call(self, operator, args, kwargs):
        return super().call(operator, args, kwargs) * 1.001
"""
# Mounts $1 with $2 KiB, runs the rest, gives the disk room, and runs it again with --resume; what
# is in the bundle is copied to $3, since the mount ends with its namespace.
SCRIPT = """
disk=$1 size=$2 kept=$3; shift 3
mount -t tmpfs -o size=${size}k none "$disk" || exit 99
"$@" --out "$disk/b" > "$kept/first.txt" 2> "$kept/error.txt"; echo $? > "$kept/status"
mount -o remount,size=64m "$disk" || exit 99
"$@" --out "$disk/b" --resume > "$kept/second.txt" 2>&1; echo $? >> "$kept/status"
cp -r "$disk/b" "$kept/b"
"""


@functools.cache
def why_not() -> str:
    """Why no file system can be mounted here; empty if it can."""
    if shutil.which("unshare") is None:
        return "there is no unshare(1): this is not Linux"
    test = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    tried = subprocess.run(test, capture_output=True, encoding="utf-8", check=False)
    return tried.stderr.strip() or "mounting failed" if tried.returncode else ""


def totals(bundle: Path) -> Any:
    rows = [json.loads(line) for line in (bundle / "results.jsonl").read_text().splitlines()]
    folders = {path.name: len(list(path.iterdir())) for path in bundle.glob("failures/*")}
    return Counter((row["case_id"], row["backend"], row["verdict"]) for row in rows), folders


def check(tmp_path: Path, size: int, undisturbed: Any) -> None:
    disk, kept = tmp_path / f"disk{size}", tmp_path / f"kept{size}"
    disk.mkdir()
    kept.mkdir()
    script = ["unshare", "-rm", "sh", "-c", SCRIPT, "sh", disk, size, kept, *RUN, spec(tmp_path)]
    subprocess.run([str(word) for word in script], check=True)
    assert (kept / "status").read_text().split() == ["2", "1"], (kept / "second.txt").read_text()
    (line,) = (kept / "error.txt").read_text(encoding="utf-8").splitlines()
    assert line.startswith("consistency: cannot write ")
    assert "No space left on device" in line
    assert "make room, " in line
    assert totals(kept / "b") == undisturbed


RUN = (
    sys.executable, "-m", "consistency", "run", "exp", "--dtype", "float32", "--examples", "2",
    "--backend", "cpu", "--no-fingerprint", "--backend",
)  # fmt: skip


def spec(tmp_path: Path) -> str:
    (tmp_path / "users.py").write_text(OFF, encoding="utf-8")
    return f"{tmp_path / 'users.py'}:Off"


@pytest.fixture
def undisturbed(tmp_path: Path) -> Any:
    if why_not():
        pytest.skip(f"no small disk can be mounted: {why_not()}")
    ended = subprocess.run(
        [*RUN, spec(tmp_path), "--out", str(tmp_path / "b")], capture_output=True, check=False
    )
    assert ended.returncode == 1
    return totals(tmp_path / "b")


@pytest.mark.nightly
def test_a_disk_that_fills_up_during_the_run(tmp_path: Path, undisturbed: Any) -> None:
    check(tmp_path, 100, undisturbed)


@pytest.mark.nightly
def test_disks_of_many_sizes(tmp_path: Path, undisturbed: Any) -> None:
    """From one that does not even take the header to one that lacks room for the page only."""
    for size in (4, 8, 12, 16, 24, *range(32, 352, 16)):
        check(tmp_path, size, undisturbed)
