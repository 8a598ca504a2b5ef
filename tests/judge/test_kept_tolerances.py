"""What was read of the packaged tolerances is kept, is the same, and is never trusted blindly."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from consistency.core import paths
from consistency.judge import kept_tolerances, tolerances
from consistency.judge.known.predicate import parse
from tests.support.paths import ROOT

TEXT = """
defaults:
  any: {c: 1, lambda: 2, source: a test}
operators:
  exp:
    float32:
      c: 3
      source: a test
      ranges: [{high: -80, absolute: 1.0e-30}, {argument: 1, low: 2, c: 5}]
expectations:
  - operator: [matmul, mm]
    when: "layout(arg0) != 'contiguous' and K > 256"
    verdicts: [divergent]
    reason: a test
    since: 2026-01-02
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(paths.CACHE, str(tmp_path))
    return tmp_path / "tolerances"


def kept(text: str = TEXT) -> tolerances.Tolerances:
    """What is read from a text, which is kept."""
    read = tolerances.from_text("tolerances.yaml", text)
    kept_tolerances.keep(text, read.entries, read.expectations)
    return read


def test_what_is_found_is_what_was_read(folder: Path) -> None:
    assert kept_tolerances.find(TEXT) is None
    read = kept()
    assert kept_tolerances.find(TEXT) == (read.entries, read.expectations)
    assert [entry.operator for entry in read.expectations] == ["matmul", "mm"]
    assert kept_tolerances.find(TEXT + "# another text") is None


def test_the_packaged_file_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "tolerances.yaml").read_text(encoding="utf-8")
    read = kept(text)
    monkeypatch.setattr(tolerances, "from_text", lambda *_: pytest.fail("is read again"))
    loaded = tolerances._packaged_tolerances.__wrapped__()
    assert loaded.digest == read.digest
    assert loaded.entries == read.entries
    assert loaded.expectations == read.expectations
    assert [entry.id for entry in loaded.expectations] == [entry.id for entry in read.expectations]


def test_conditions_are_kept_in_a_form_that_means_the_same() -> None:
    conditions = {e.when for e in tolerances.load().expectations if e.when is not None}
    assert len(conditions) > 100
    for condition in conditions:
        again = parse(condition.text)
        assert (again, again.names) == (condition, condition.names)


DAMAGES: dict[str, Callable[[str], str]] = {
    "half of it": lambda text: text[: len(text) // 2],
    "something else": lambda text: "[]",
    "no entries": lambda text: json.dumps({"expectations": []}),
    "another field": lambda text: text.replace('"verdicts"', '"words"'),
    "no date": lambda text: text.replace("2026-01-02", "soon"),
    "too deep": lambda text: "[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_none(folder: Path, damage: str) -> None:
    kept()
    (path,) = folder.iterdir()
    path.write_text(DAMAGES[damage](path.read_text(encoding="utf-8")), encoding="utf-8")
    assert kept_tolerances.find(TEXT) is None
    kept()
    assert kept_tolerances.find(TEXT) is not None


def test_one_that_is_too_large_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept()
    monkeypatch.setattr(kept_tolerances, "MAX_BYTES", 100)
    assert kept_tolerances.find(TEXT) is None


def test_other_code_reads_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept()
    monkeypatch.setattr(kept_tolerances, "_code", lambda: "other")
    assert kept_tolerances.find(TEXT) is None


def test_few_are_kept(folder: Path) -> None:
    for number in range(kept_tolerances.MOST + 2):
        kept(f"{TEXT}# {number}")
        newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (number, number))
    assert len(list(folder.iterdir())) == kept_tolerances.MOST
    assert kept_tolerances.find(f"{TEXT}# {kept_tolerances.MOST + 1}") is not None


def test_where_nothing_can_be_written_nothing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv(paths.CACHE, str(tmp_path / "file"))
    kept()
    assert kept_tolerances.find(TEXT) is None
