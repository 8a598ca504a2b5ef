"""Standard output that cannot be written: a full device, a reader that is gone, none at all; as
processes, because what matters is how they end."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from consistency.cli import streams

FULL = Path("/dev/full")
RUN = (
    "run", "neg", "--dtype", "float32", "--examples", "1", "--backend", "cpu", "--no-fingerprint",
)  # fmt: skip
needs_full = pytest.mark.skipif(
    not FULL.exists(), reason="this system has no device that is always full"
)
needs_shell = pytest.mark.skipif(os.name == "nt", reason="a POSIX shell closes the streams")
NO_ROOM = "consistency: cannot write standard output: No space left on device"


def words(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "consistency", *map(str, arguments)]


def full(*arguments: object) -> tuple[int, list[str]]:
    with FULL.open("wb") as stdout:
        ended = subprocess.run(
            words(*arguments), stdout=stdout, stderr=subprocess.PIPE, encoding="utf-8", check=False
        )
    return ended.returncode, ended.stderr.splitlines()


def test_an_error_of_something_else_is_not_blamed_on_the_output() -> None:
    told = [
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        OSError(errno.EACCES, "Permission denied", "python3.12"),
        OSError(errno.ENOSPC, "No space left on device"),
    ]
    assert [str(streams.failed_write(error)) for error in told] == [
        "the operating system reports: Cannot allocate memory",
        "python3.12: Permission denied",
        NO_ROOM.removeprefix("consistency: "),
    ]


@pytest.mark.one_in(3)
@needs_full
@pytest.mark.parametrize("arguments", [("--help",), ("run", "--help"), ("operators",)])
def test_a_full_device(arguments: tuple[str, ...]) -> None:
    assert full(*arguments) == (2, [NO_ROOM])


@pytest.mark.nightly
@needs_full
def test_a_run_on_a_full_device(tmp_path: Path) -> None:
    """The screen cannot begin: nothing was judged, and the bundle is to be completed."""
    out = tmp_path / "b"
    status, (line,) = full(*RUN, "--out", out)
    assert status == 2
    assert line == f"{NO_ROOM}; make room, then complete it with --resume --out {out}"
    ended = subprocess.run(words(*RUN, "--out", out, "--resume"), capture_output=True, check=False)
    assert ended.returncode == 0


@needs_full
def test_rows_on_a_full_device() -> None:
    status, lines = full(*RUN, "--no-bundle", "--json", "-")
    assert (status, lines[-1]) == (2, NO_ROOM)  # the screen is on standard error
    assert sum(line.startswith("consistency: ") for line in lines) == 1


@pytest.mark.nightly
@needs_shell
def test_a_reader_that_is_gone(tmp_path: Path) -> None:
    """As shells report it; a run with a bundle also says how it is completed, or shown."""
    out = tmp_path / "b"
    for arguments, lines in (
        (("operators",), 0),
        ((*RUN, "--no-bundle"), 0),
        ((*RUN, "--out", out), 1),
    ):
        process = subprocess.Popen(
            words(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        told = process.stderr.read().splitlines()
        process.stderr.close()
        assert process.wait(timeout=120) == streams.BROKEN_PIPE
        assert len(told) == lines, told
        if told:
            assert told[0].endswith(f"complete it with --resume --out {out}")


@pytest.mark.nightly
@needs_shell
def test_no_streams_at_all(tmp_path: Path) -> None:
    """The numbers of closed streams are not given to the files of the bundle."""
    out = tmp_path / "b"
    command = 'exec "$0" "$@" <&- >&- 2>&-'
    ended = subprocess.run(["sh", "-c", command, *words(*RUN, "--out", out)], check=False)
    assert ended.returncode == 0
    first = (out / "results.jsonl").read_text(encoding="utf-8").splitlines()[0]
    assert first.startswith("{")
    assert (out / "report.html").is_file()
