"""Files that grow while they are read, packed bombs, and the limits of whole files."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from consistency.core import reading
from consistency.core.files import mend, write_named
from consistency.core.folders import remove_files, subfolder
from consistency.core.locking import Lock
from consistency.core.regular_files import regular
from consistency.errors import BundleError
from consistency.report.history import store_reading
from tests.support.commands import command
from tests.support.example_bundles import stored_run
from tests.support.planting import limited, needs_unix

MIB = 1 << 20


def test_a_file_that_grows_is_read_up_to_its_size(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"a": 1}\n' * 10_000, encoding="utf-8")
    count = 0
    with limited():
        for count, _ in reading.lines(path):  # noqa: B007 - the last one is asked for
            with path.open("a", encoding="utf-8") as stream:
                stream.write('{"a": 1}\n' * 2)
    assert count == 10_000


def test_a_whole_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    path.write_bytes(b"x" * 100)
    assert reading.read_bytes(path, 100) == b"x" * 100
    with pytest.raises(BundleError, match="is larger than 99 bytes"):
        reading.read_bytes(path, 99)
    with path.open("wb") as stream:
        stream.truncate(1 << 40)  # takes no room on the disk
    for read in (
        lambda: reading.read_bytes(path, 1 << 24),
        lambda: reading.read_object(path, "a case"),
        lambda: list(reading.lines(path)),
    ):
        with limited(), pytest.raises(BundleError, match="larger than"):
            read()


def pack(path: Path, block: bytes, times: int) -> Path:
    with gzip.open(path, "wb", 9) as stream:
        for _ in range(times):
            stream.write(block)
    return path


BOMBS: dict[str, Callable[[Path], object]] = {
    "newlines": lambda folder: pack(folder / "results.jsonl.gz", b"\n" * MIB, 200),
    "objects": lambda folder: pack(folder / "results.jsonl.gz", b"{}\n" * (MIB // 3), 200),
    "one long line": lambda folder: pack(folder / "results.jsonl.gz", b" " * MIB, 200),
    "bombs one behind the other": lambda folder: (folder / "results.jsonl.gz").write_bytes(
        gzip.compress(b"\n" * 16 * MIB, 9) * 12
    ),
    "names": lambda folder: flood(folder / "results.jsonl.gz"),
    "zstd": lambda folder: zstd(folder / "results.jsonl.zst"),
}


def flood(path: Path) -> None:
    """As many operators as results."""
    row = {
        "dtype": "float32", "direction": "forward", "backend": "cpu", "verdict": "divergent",
        "fails": True, "metrics": {}, "explanation": "", "family": "",
    }  # fmt: skip
    with gzip.open(path, "wt", 6, encoding="utf-8") as stream:
        for number in range(20_000):
            one = row | {"operator": f"o{number}", "case_id": f"c{number}"}
            stream.write(json.dumps(one) + "\n")


def zstd(path: Path) -> None:
    with duckdb.connect() as db:
        db.execute(
            "COPY (SELECT repeat(' ', 1000) FROM range(200_000)) TO "
            f"'{path}' (FORMAT csv, HEADER false, QUOTE '', COMPRESSION zstd)"
        )


@pytest.mark.one_in(6)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_packed_bomb_keeps_no_command_busy(bomb: str, tmp_path: Path) -> None:
    folder = stored_run(tmp_path / "bundle")
    (folder / "results.jsonl").unlink()
    BOMBS[bomb](folder)
    size = next(folder.glob("results.jsonl.*")).stat().st_size
    assert size < 2 * MIB, size
    lines = ("matrix {} -o SITE", "query 'SELECT 1' {}", "report {} --text", "diff {} {}")
    refused = 0
    for line in lines:
        with limited():
            places = [folder] * line.count("{}")
            said = command(line.replace("SITE", str(tmp_path / "site")), *places)
        assert said.exception is None or isinstance(said.exception, SystemExit), said.output
        refused += "results.jsonl" in said.output or "more than" in said.output
    assert refused >= (4 if bomb not in ("names", "zstd") else 2)


def test_a_query_that_takes_too_long_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stored_run(tmp_path / "bundle")
    (folder / "results.jsonl").unlink()
    with duckdb.connect() as db:
        db.execute(
            "COPY (SELECT repeat(' ', 1000) FROM range(2_000_000)) TO "
            f"'{folder / 'results.jsonl.zst'}' (FORMAT csv, HEADER false, QUOTE '', COMPRESSION "
            "zstd)"
        )
    monkeypatch.setattr(store_reading, "SECONDS", 0.1)
    with limited():
        said = command("matrix {} -o {}", folder, tmp_path / "site")
    assert said.exit_code == 0
    assert "cannot be read: not read within 0 s of processor time" in said.output


def test_an_ordinary_packed_file_is_read(tmp_path: Path) -> None:
    rows = [{"number": number, "text": "the same in every line"} for number in range(50_000)]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (tmp_path / "results.jsonl.gz").write_bytes(gzip.compress(data))
    assert [row for _, row in reading.lines(tmp_path / "results.jsonl")] == rows


@pytest.mark.parametrize("repeated", [1, 40])
def test_a_file_that_packs_too_well_stays_plain(repeated: int, tmp_path: Path) -> None:
    """What is packed can be read again, however regular it is."""
    folder = stored_run(tmp_path / "bundle")
    path = folder / "results.jsonl"
    line = path.read_bytes().splitlines(keepends=True)[-1]
    path.write_bytes(path.read_bytes() + line * (40_000 * repeated // 40))
    before = path.read_bytes()
    assert command("pack {}", folder).exit_code == 0
    assert reading.opened(path).read() == before


def test_many_files_are_not_searched_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from consistency.storage.bundle import bundle_search

    monkeypatch.setattr(bundle_search, "MAX_ENTRIES", 50)
    for first, second in itertools.product(range(8), range(8)):
        (tmp_path / str(first) / str(second)).mkdir(parents=True)
    said = command("matrix {} -o {}", tmp_path, tmp_path / "site")
    assert said.exit_code == 2
    assert "is in a folder of more than 50 files" in said.output


@needs_unix
def test_a_lock_is_a_file_of_the_folder(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine\n", encoding="utf-8")
    for plant in (
        lambda path: path.symlink_to(victim), lambda path: path.hardlink_to(victim),
        lambda path: os.mkfifo(path),
    ):  # fmt: skip
        folder = tmp_path / "folder"
        folder.mkdir()
        plant(folder / "running.lock")
        with limited(), pytest.raises(BundleError, match=r"running\.lock is"):
            Lock(folder)
        (folder / "running.lock").unlink()
        Lock(folder).release()
        assert list(folder.iterdir()) == []
        folder.rmdir()
    assert victim.read_text(encoding="utf-8") == "mine\n"


@needs_unix
def test_links_are_resolved_within_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner" / "file").write_text("x", encoding="utf-8")
    (folder / "link").symlink_to("inner/file")
    (folder / "through").symlink_to("inner")
    (folder / "out").symlink_to("../bundle/../other")
    assert regular(folder / "link") == (folder / "inner" / "file").resolve()
    assert regular(folder / "through" / "file", folder).is_file()
    (tmp_path / "other").write_text("x", encoding="utf-8")
    with pytest.raises(BundleError, match="leads out of its folder"):
        regular(folder / "out")
    assert regular(folder / "out", follow=True) == folder / "out"
    with pytest.raises(BundleError, match="is a folder"):
        regular(folder / "inner")
    with pytest.raises(FileNotFoundError):
        regular(folder / "missing")
    with pytest.raises(BundleError, match="is a link, and nothing is written through it"):
        subfolder(folder, "through")
    remove_files(folder, ["through/file", "link", "missing", "inner"])
    assert (folder / "inner" / "file").is_file()
    assert (folder / "link").is_symlink()
    with pytest.raises(BundleError, match="is a link, which is not written through"):
        mend(folder / "link")
    write_named(folder / "out", "new")
    assert (tmp_path / "other").read_text(encoding="utf-8") == "x"
    assert (folder / "out").read_text(encoding="utf-8") == "new"


def test_an_incomplete_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    for before, after in ((b"", b""), (b"{}\n", b"{}\n"), (b"{}\n{", b"{}\n"), (b"{", b"")):
        path.write_bytes(before)
        mend(path)
        assert path.read_bytes() == after
    path.unlink()
    mend(path)
    assert not path.exists()


def test_a_file_of_millions_of_empty_rows_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting a hundred million of them takes ten seconds, packed they have 4 MB."""
    monkeypatch.setattr(reading, "MAX_LINES", 1000)
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"{}\n" * 1000)
    assert len(list(reading.lines(path))) == 1000
    path.write_bytes(b"{}\n" * 1001)
    with pytest.raises(BundleError, match=r"rows.jsonl has more than 1000 lines: that is no run's"):
        list(reading.lines(path, only={3}))
