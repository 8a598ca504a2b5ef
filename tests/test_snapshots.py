"""The texts in tests/snapshots: each belongs to a test, and comparing notices every difference."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.snapshots import FOLDER, Snapshot, read, write


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.txt")), ids=lambda path: path.stem)
def test_every_section_belongs_to_a_test(path: Path) -> None:
    module = ROOT / "tests" / path.relative_to(FOLDER).with_suffix(".py")
    tests = {
        node.name
        for node in ast.parse(module.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and "snapshot" in {argument.arg for argument in node.args.args}
    }
    assert {name.partition(" ")[0].partition("[")[0] for name in read(path)} <= tests


def held(path: Path, update: bool = False) -> Snapshot:
    return Snapshot(path, "test_it", update, {"/tmp/xyz": "TMP"})


def test_a_text_is_compared_to_the_letter(tmp_path: Path) -> None:
    path = tmp_path / "test_some.txt"
    write(path, {"test_other": "kept", "test_it gone": "no longer"})
    first = held(path, update=True)
    first(["two lines\n", "at /tmp/xyz "])
    first(3, "number")
    first.finish()
    assert read(path) == {
        "test_other": "kept", "test_it": "two lines\n\nat TMP ", "test_it number": "3"
    }  # fmt: skip
    again = held(path)
    again("two lines\n\nat /tmp/xyz ")
    with pytest.raises(AssertionError, match="nobody asks"):
        again.finish()
    for text, label in (("two lines\n\nat /tmp/xyz", ""), ("3", "unknown")):
        with pytest.raises(AssertionError, match="test_it"):
            held(path)(text, label)
    with pytest.raises(AssertionError, match="nobody asks"):
        Snapshot(path, "test_other[b]", tests=frozenset({"test_other[b]"})).finish()
    with pytest.raises(AssertionError, match="need labels"):
        again("two lines\n\nat /tmp/xyz ")
