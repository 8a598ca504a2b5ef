"""Odd values in every file of a bundle, a recording, a corpus and the folder of a failure: one line
with the key's path, never a traceback."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from consistency.errors import ConsistencyError
from consistency.report import bundle_view
from consistency.storage import bundle, lookup, manifest
from consistency.storage.corpus import reading
from consistency.storage.recording.reading import Recording
from tests.support.commands import command
from tests.support.example_bundles import stored_run
from tests.support.paths import DATA
from tests.support.snapshots import Snapshot

ODD: tuple[Any, ...] = (
    None, True, -1, 1.5, 10**400, float("nan"), float("inf"), "", "\ud800", "\x1b[31m\n",
    "x" * 99_999, [], ["x"], [["x"]], {}, {"x": ["x"]}, {"x": {"x": [1]}}, [1, "x", None],
)  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored_run(tmp_path_factory.mktemp("made") / "bundle")


def variants(data: Any, depth: int = 3) -> Iterator[Any]:
    """The data with each value down to ``depth`` replaced by odd ones, or removed."""
    if not depth or not isinstance(data, (dict, list)):
        return
    keys = list(data)[:12] if isinstance(data, dict) else range(min(len(data), 2))
    for key in keys:
        for odd in ODD:
            changed = copy.copy(data)
            changed[key] = odd
            yield changed
        changed = copy.copy(data)
        del changed[key]
        yield changed
        for inner in variants(data[key], depth - 1):
            changed = copy.copy(data)
            changed[key] = inner
            yield changed


def check_variants(path: Path, read: Callable[[], object], depth: int = 3) -> int:
    """Every variant of a JSON file, or of the first line of a file of lines, is read or refused
    with one short line; returns how many were refused."""
    text = path.read_text(encoding="utf-8")
    first, _, rest = text.partition("\n") if path.suffix == ".jsonl" else (text, "", "")
    refused = 0
    for changed in variants(json.loads(first), depth):
        path.write_text(json.dumps(changed) + "\n" + rest, encoding="utf-8")
        try:
            read()
        except ConsistencyError as error:
            refused += 1
            words = str(error).replace(str(path.parent), "")
            assert words.isprintable(), words
            assert len(words) < 400, words
    path.write_text(text, encoding="utf-8")
    read()
    return refused


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["bundle.json", "environment.json"])
def test_headers_of_a_bundle(made: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "b"
    shutil.copytree(made, folder)
    assert check_variants(folder / name, lambda: bundle_view.read(folder).corpus_lines) > 100


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "name", ["results.jsonl", "scaling.jsonl", "determinism.jsonl", "cases.jsonl"]
)
def test_rows_of_a_bundle(made: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "b"
    shutil.copytree(made, folder)
    shutil.rmtree(folder / "failures")

    def read() -> None:
        bundle_view.read(folder)
        bundle.read_results(folder)

    depth = 2 if name == "results.jsonl" else 1
    assert check_variants(folder / name, read, depth) > 10


@pytest.mark.parametrize("name", ["environment.json", "result.json", "case.json"])
def test_files_of_a_failure(made: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "f"
    shutil.copytree(next((made / "failures").iterdir()), folder)
    (folder / manifest.FILE).unlink(missing_ok=True)
    assert check_variants(folder / name, lambda: lookup.find(str(folder)), 1) > 10


def test_a_manifest(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "f"
    shutil.copytree(next((made / "failures").iterdir()), folder)
    assert check_variants(folder / manifest.FILE, lambda: manifest.check(folder)) > 100


@pytest.mark.parametrize("name", ["recording.json", "outcomes.jsonl", "cases.jsonl"])
def test_files_of_a_recording(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "r"
    shutil.copytree(DATA / "recording-format-1", folder)
    assert check_variants(folder / name, lambda: Recording(folder).close(), 2) > 50


@pytest.mark.parametrize("name", ["recording.json", "cases.jsonl"])
def test_files_of_a_corpus(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "c"
    shutil.copytree(DATA / "corpus-format-1", folder)
    assert check_variants(folder / name, lambda: reading.load(folder), 2) > 20


@pytest.mark.parametrize("line", ["report", "matrix", "diff", "repro --id exp-0"])
def test_commands_tell_it_in_one_line(
    snapshot: Snapshot, made: Path, tmp_path: Path, line: str
) -> None:
    folder = tmp_path / "b"
    shutil.copytree(made, folder)
    header = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    corpus = {"digest": "00", "name": "c", "cases": 3, "replayed": [1]}
    told = []
    for changes in (
        {"settings": header["settings"] | {"backends": [["x"]]}},
        {"settings": header["settings"] | {"specs": {"cpu": ["x"]}}},
        {"seconds": 10**400}, {"corpus": corpus}, {"label": "\x1b[31m" * 50_000, "id": 7},
    ):  # fmt: skip
        (folder / "bundle.json").write_text(json.dumps(header | changes), encoding="utf-8")
        shown = command(line, folder, *([folder] if line == "diff" else []))
        told += [f"{shown.exit_code}: {shown.output.strip()}"]
    assert all("\x1b" not in words and len(words) < 400 for words in told)
    snapshot("\n".join(told))
