"""Whose cases a folder holds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from consistency.core.model import Case
from consistency.storage import provenance
from consistency.storage.bundle.packing import pack
from consistency.storage.cases import CaseEntry
from consistency.storage.corpus.merging import write
from tests.support.commands import command

CASE = Case("exp", "float32")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own") / "bundle"
    backend = Path(__file__).parent.parent / "data" / "wrong_backend.py"
    line = (
        "run matmul --dtype float32 --examples 3 --no-shipped --no-shrink --no-fingerprint "
        "-b {} -o {}"
    )
    assert command(line, f"{backend}:backend", folder).exit_code in (0, 1)
    return folder


def _failure(bundle: Path) -> Path:
    return next(path.parent for path in sorted(bundle.glob("failures/*/case.json")))


def test_a_bundle_of_ones_own_is_recognized_wherever_it_lies(bundle: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(bundle, tmp_path / "copy")
    for folder in (bundle, copy):
        assert provenance.is_own_folder(folder)
        assert provenance.names_own_case(str(folder), "any", tmp_path)
        assert provenance.names_own_case(str(_failure(folder)), None, tmp_path)
        assert provenance.names_own_case(str(_failure(folder) / "case.json"), None, tmp_path)
    pack(copy)
    assert provenance.is_own_folder(copy)


def test_a_changed_one_is_foreign(bundle: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(bundle, tmp_path / "copy")
    with (copy / "cases.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"id": CASE.id, "case": CASE.to_json()}) + "\n")
    assert not provenance.is_own_folder(copy)
    # A failure's folder inside of it is as it was.
    assert provenance.names_own_case(str(_failure(copy)), None, tmp_path)


def test_a_failure_is_recognized_alone_unless_it_is_changed(bundle: Path, tmp_path: Path) -> None:
    alone = shutil.copytree(_failure(bundle), tmp_path / "alone")
    assert provenance.is_own_folder(alone)
    (alone / "bundle.json").write_text("{}", encoding="utf-8")  # then its cases.jsonl is read
    assert not provenance.is_own_folder(alone)
    (alone / "bundle.json").unlink()
    (alone / "case.json").write_text(CASE.line + "\n", encoding="utf-8")
    assert not provenance.is_own_folder(alone)


def test_an_id_is_looked_up_in_the_newest_bundle_that_holds_it(
    bundle: Path, tmp_path: Path
) -> None:
    identifier = str(json.loads((bundle / "cases.jsonl").read_text("utf-8").splitlines()[0])["id"])
    shutil.copytree(bundle, tmp_path / "a")
    assert provenance.names_own_case(identifier, None, tmp_path)
    changed = shutil.copytree(bundle, tmp_path / "b")
    with (changed / "cases.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"id": CASE.id, "case": CASE.to_json()}) + "\n")
    assert not provenance.names_own_case(identifier, None, tmp_path)
    assert not provenance.names_own_case("exp-0000000000", None, tmp_path)


@pytest.mark.parametrize("text", [CASE.line, f"  {CASE.line}", "nothing", "\0", "x" * 9999])
def test_what_is_written_out_is_foreign(text: str, tmp_path: Path) -> None:
    assert not provenance.names_own_case(text, None, tmp_path)


def test_without_a_cache_everything_is_foreign(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONSISTENCY_CACHE", str(tmp_path / "other"))
    assert not provenance.is_own_folder(bundle)
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("CONSISTENCY_CACHE", str(tmp_path / "file"))  # cannot be written
    provenance.register(bundle / "cases.jsonl")
    assert not provenance.is_own_folder(bundle)


def test_merging_foreign_cases_does_not_make_them_ones_own(tmp_path: Path) -> None:
    write(tmp_path / "foreign", [CaseEntry(CASE)], "foreign", own=False)
    write(tmp_path / "mine", [CaseEntry(Case("sin", "float32"))], "mine")
    assert not provenance.is_own_folder(tmp_path / "foreign")
    assert provenance.is_own_folder(tmp_path / "mine")
    for sources, own in (("mine",), True), (("mine", "foreign"), False):
        out = tmp_path / f"of-{len(sources)}"
        places = [tmp_path / name for name in sources]
        merged = command(f"corpus merge {'{} ' * len(places)} -o {{}}", *places, out)
        assert merged.exit_code == 0
        assert provenance.is_own_folder(out) is own
