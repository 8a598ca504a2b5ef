"""The command for a borrowed device runs every step, keeps what is not right, and packs what was
recorded."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from tests.support.paths import ROOT


@pytest.mark.nightly
def test_it_does_all_of_it_on_a_cpu(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable, str(ROOT / "tools" / "device_suite.py"), "--backend", "cpu+isolated",
            "--minutes", "2", "--jobs", "2", "-o", str(tmp_path),
        ],
        capture_output=True, text=True, encoding="utf-8", timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "('rounding', " in done.stdout
    assert (tmp_path / "rows.jsonl.xz").stat().st_size
    assert "outcomes in" in (tmp_path / "record.txt").read_text(encoding="utf-8")
    assert '"facts"' in (tmp_path / "fingerprint.txt").read_text(encoding="utf-8")
    with tarfile.open(tmp_path / "recorded.tar.xz") as archive:
        assert {"failing", "recorded"} <= set(archive.getnames())


def test_an_unknown_option_is_one_line() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "device_suite.py"), "--minutes", "soon", "-o", "x"],
        capture_output=True, text=True, encoding="utf-8", timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert "invalid float value: 'soon'" in done.stderr
