"""A run whose bundle cannot be written: a full disk, a read-only one, a folder that vanishes. One
line, exit status 2; the verdicts known so far are shown, and the bundle can be completed."""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import consistency
from consistency.core.output import LineWriter, OutputError, writing
from consistency.engine.events import Finished, Started, dispatch
from consistency.engine.smallest_case import smallest_failure  # noqa: F401 - loaded once, before
from consistency.storage.bundle import read_header
from tests.support.commands import command
from tests.support.faulty_files import Disk, failing

OFF = """
import shutil
from pathlib import Path
import consistency

class Off(consistency.Backend):
    name = "off"
    def call(self, operator, args, kwargs):
        return super().call(operator, args, kwargs) * 1.001

class Removes(Off):
    calls = 0
    def call(self, operator, args, kwargs):
        type(self).calls += 1
        if self.calls == 2:
            shutil.rmtree(FOLDER)
        return super().call(operator, args, kwargs)

class Replaces(Removes):
    def call(self, operator, args, kwargs):
        found = super().call(operator, args, kwargs)
        if self.calls == 2:
            FOLDER.mkdir()
            (FOLDER / "mine.txt").write_text("mine")
        return found
"""
KNOWN = """
expectations:
  - {operator: exp, backend: "off", direction: forward, verdicts: [divergent],
     reason: planted, ticket: T-1, max_rho: 1.0e+9}
"""
ERRORS = ("ENOSPC", "EROFS", "EACCES", "EIO", "ENOENT")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("failed")
    text = OFF + f"\nFOLDER = Path({str(place / 'bundle')!r})\n"
    (place / "users.py").write_text(text, encoding="utf-8")
    (place / "known.yaml").write_text(KNOWN, encoding="utf-8")
    return place


def run(folder: Path, out: Path, *more: object, backend: str = "Off") -> Any:
    return command(
        "run exp --dtype float32 --examples 2 --no-shipped --no-exhaustive --repeat 1 "
        "--no-fingerprint --backend cpu --backend {} --expectations {} --out {}",
        f"{folder / 'users.py'}:{backend}", folder / "known.yaml", out, *more,
    )  # fmt: skip


def totals(bundle: Path) -> Any:
    """Verdicts, rows of every kind, and the names of all files."""
    rows = [json.loads(line) for line in (bundle / "results.jsonl").read_text().splitlines()]
    others = {
        path.name: len(path.read_text(encoding="utf-8").splitlines())
        for path in bundle.glob("*.jsonl")
    }
    files = sorted(
        p.relative_to(bundle).as_posix() for p in bundle.rglob("*") if p.suffix != ".tmp"
    )
    ended = read_header(bundle)
    return Counter(row["verdict"] for row in rows), others, files, ended["complete"]


def place_kind(place: str) -> str:
    """An operation without what differs from run to run, and from failure to failure."""
    return re.sub(r"[0-9a-f]{32}\.tmp", "*.tmp", re.sub(r"exp-[0-9a-f]{10}-off-\w+", "*", place))


@pytest.fixture(scope="module")
def undisturbed(folder: Path) -> Any:
    result = run(folder, folder / "undisturbed")
    assert result.exit_code == 1, result.output
    assert "complete it" not in result.output
    return totals(folder / "undisturbed")


def places(folder: Path, number: int) -> list[str]:
    disk = Disk(folder / "counted", number=number)
    with failing(disk):
        assert run(folder, disk.root).exit_code == 1
    shutil.rmtree(disk.root)
    return disk.places


def check_place(folder: Path, undisturbed: Any, disk: Disk) -> None:
    """One line and status 2; then the bundle is completed, with the totals of another run."""
    with failing(disk):
        result = run(folder, disk.root)
    where = f"{disk.places[-1]}: {result.output}"
    assert result.exit_code == 2, where
    (line,) = result.stderr.splitlines()
    assert line.startswith("consistency: cannot write "), where
    began = (disk.root / "results.jsonl").exists()
    assert line.endswith(f"complete it with --resume --out {disk.root}") or (
        "name another folder with --out" in line
        if not began or not (disk.root / "results.jsonl").stat().st_size
        else "report.html: " in line and "`consistency report " in line
    ), where
    assert disk.number != errno.ENOSPC or "; make room, " in line, where
    assert ".tmp" not in line, where
    if "later ones are lost" in line:
        assert "exp · float32" in result.stdout, where
        assert " did not end " in result.stdout.splitlines()[-1], where
    result = run(folder, disk.root, "--resume")
    assert result.exit_code == 1, result.output
    assert totals(disk.root) == undisturbed, where
    shutil.rmtree(disk.root)


@pytest.mark.nightly
def test_a_full_disk_at_every_kind_of_place(folder: Path, undisturbed: Any) -> None:
    """One of each kind, the last one, and a first one; all of them by night."""
    counted = places(folder, errno.ENOSPC)
    first = {place_kind(place): number for number, place in reversed([*enumerate(counted, 1)])}
    assert {name.partition(" ")[2] for name in first} == {
        ".", "running.lock", "*.tmp", "cases.jsonl", "results.jsonl", "determinism.jsonl",
        "failures", "failures/*", "failures/*/*.tmp",
    }  # fmt: skip
    chosen = {1, *first.values(), len(counted)}
    assert len(chosen) >= 12
    for number in sorted(chosen):
        check_place(folder, undisturbed, Disk(folder / f"n{number}", number))


@pytest.mark.nightly
@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", ERRORS[1:])
def test_other_errors_at_some_places(folder: Path, undisturbed: Any, number: str) -> None:
    code = getattr(errno, number)
    count = len(places(folder, code))
    for first in (1, count // 2, count):
        check_place(folder, undisturbed, Disk(folder / f"n{first}", first, code))


@pytest.mark.nightly
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("number", ERRORS)
def test_every_error_at_every_place(
    folder: Path, undisturbed: Any, number: str, once: bool
) -> None:
    """Some minutes each."""
    code = getattr(errno, number)
    for first in range(1, len(places(folder, code)) + 1):
        disk = Disk(folder / f"n{first}", first, code, once=once)
        check_place(folder, undisturbed, disk)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("backend", ["Removes", "Replaces"])
def test_a_folder_that_is_removed_during_the_run(folder: Path, backend: str) -> None:
    """Nothing is written into what has taken its place, and no part of a bundle comes back."""
    out = folder / "bundle"
    result = run(folder, out, backend=backend)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert line == (
        f"consistency: cannot write {out / 'results.jsonl'}: it was removed or replaced meanwhile; "
        f"later results are lost; complete it with --resume --out {out}"
    )
    assert " did not end " in result.stdout
    assert [path.name for path in out.glob("*")] == ["mine.txt"] * (backend == "Replaces")
    shutil.rmtree(out, ignore_errors=True)
    again = run(folder, out, "--resume")
    assert again.exit_code == 1, again.output
    shutil.rmtree(out)


def test_rows_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    """``--json`` on a full disk, while the bundle is on another one."""
    disk = Disk(tmp_path / "rows", 2)
    disk.root.mkdir()
    rows = disk.root / "rows.jsonl"
    with failing(disk):
        result = run(folder, tmp_path / "bundle", "--json", rows)
    assert result.exit_code == 2
    assert result.stderr == (
        f"consistency: cannot write {rows}: No space left on device; make room, then complete it "
        f"with --resume --out {tmp_path / 'bundle'}\n"
    )
    result = run(folder, tmp_path / "bundle", "--json", rows, "--resume")
    assert result.exit_code == 1
    kept = (tmp_path / "bundle" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(rows.read_text(encoding="utf-8").splitlines()) >= len(kept) - 2  # without summaries


# --- from Python


def test_python_gets_one_error_with_the_results(tmp_path: Path) -> None:
    class Off(consistency.Backend):
        name = "off"

        def call(self, *args: Any) -> Any:
            return super().call(*args) * 1.001

    chosen: Any = {"dtypes": ["float32"], "examples": 2, "directions": ["forward"]}
    whole = consistency.run(["exp"], ["cpu", Off()], **chosen).results
    disk = Disk(tmp_path / "b", 60)
    with failing(disk), pytest.raises(consistency.ConsistencyError) as caught:
        consistency.run(["exp"], ["cpu", Off()], out=disk.root, **chosen)
    error = caught.value
    assert isinstance(error, OutputError)
    assert str(error).endswith("; make room, then complete it with resume=True")
    assert 0 < len(error.results) <= len(whole)
    completed = consistency.run(["exp"], ["cpu", Off()], out=disk.root, resume=True, **chosen)
    assert [r.verdict for r in completed.results] == [r.verdict for r in whole]


@pytest.mark.parametrize("name", ["a\0b", "a\udfffb", "x" * 5000])
def test_a_name_that_no_folder_can_have(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match="cannot write ") as caught:
        consistency.run(["neg"], ["cpu"], ["float32"], examples=1, out=tmp_path / name)
    assert len(str(caught.value)) < 700
    assert "\n" not in str(caught.value)


def test_a_folder_named_in_no_encoding(folder: Path, tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are a name on Linux, and nothing wrong."""
    out = tmp_path / "a\udcffb"
    try:
        out.mkdir()
    except OSError as error:
        pytest.skip(f"this file system refuses the name: {error}")
    out.rmdir()
    result = run(folder, out)
    assert result.exit_code == 1, result.output
    assert (out / "report.html").is_file()
    assert command("report {}", out).exit_code == 0


# --- the parts


def test_a_line_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("{}\n{", encoding="utf-8")
    with failing(Disk(tmp_path, 3)):
        file = LineWriter(path)
        with pytest.raises(OSError, match="No space left") as caught:
            file.write('{"a": 1}\n{"b": 2}\n')
        file.close()
    file.close()
    assert caught.value.filename == str(path)
    assert path.read_text(encoding="utf-8") == "{}\n"
    file = LineWriter(path)
    file.write('{"c": 3}\n')
    file.close()
    assert path.read_text(encoding="utf-8") == '{}\n{"c": 3}\n'


def test_a_file_that_was_replaced_is_noticed_at_the_latest_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look takes as long as a short write, so that few writes look; none is told as kept."""
    monkeypatch.setattr(LineWriter, "UNCHECKED_SECONDS", 3600.0)
    path = tmp_path / "x.jsonl"
    file = LineWriter(path)
    file.write("{}\n")
    path.rename(tmp_path / "elsewhere")
    file.write("{}\n")
    with pytest.raises(FileNotFoundError, match="removed or replaced"):
        file.close()
    file.close()
    monkeypatch.setattr(LineWriter, "UNCHECKED_SECONDS", 0.0)
    file = LineWriter(path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="removed or replaced"):
        file.write("{}\n")
    with pytest.raises(FileNotFoundError, match="removed or replaced"):
        file.close()


def test_an_error_that_is_no_failed_write_passes() -> None:
    with pytest.raises(ValueError, match="mine"), writing("x"):
        raise ValueError("mine")


def test_after_a_failed_write_the_others_get_the_event() -> None:
    seen: list[str] = []

    def cannot(event: object) -> None:
        seen.append("a")
        raise OutputError("cannot write a")

    def also_cannot(event: object) -> None:
        seen.append("b")
        raise OutputError("cannot write b")

    with pytest.raises(OutputError, match="write a"):
        dispatch(Finished(1.0, False), [cannot, also_cannot, lambda event: seen.append("c")])
    assert seen == ["a", "b", "c"]
    from consistency.engine import engine

    started = Started(engine.configure(["neg"], ["cpu"]), {}, 1, 1)
    with pytest.raises(OutputError, match="write a"):
        dispatch(started, [cannot, also_cannot])
    assert seen == ["a", "b", "c", "a"]
