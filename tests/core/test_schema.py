"""Data from files, checked against the types of those who write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field
from typing_extensions import TypedDict

from consistency.core import schema
from consistency.core.schema import Count, Finite, Name, Number, Scalar, check, checked_lines
from consistency.errors import BundleError
from tests.support.snapshots import Snapshot


class _Inner(TypedDict):
    names: list[Name]
    by_name: dict[str, Scalar]


class _Outer(TypedDict, total=False):
    count: Count
    number: Finite
    any_number: Number
    flag: bool
    short: Annotated[str, Field(max_length=5)]
    inner: _Inner | None


HEALTHY: list[dict[str, Any]] = [
    {},
    {"count": 0, "number": 3, "any_number": "inf", "flag": True, "short": "µ×日本👩"},
    {"any_number": 1e308, "inner": None, "of a later version": [[{}]]},
    {"inner": {"names": [], "by_name": {"a": None, "b": "text", "c": 1.5, "d": True}}},
    {"short": "\ud800"},
]
WRONG: list[dict[str, Any]] = [
    {"count": -1}, {"count": True}, {"count": 1.0}, {"count": 10**400}, {"count": None},
    {"number": 10**400}, {"number": float("nan")}, {"number": float("inf")}, {"number": "1"},
    {"any_number": 10**400}, {"any_number": "infinity"}, {"any_number": [1]},
    {"flag": 1}, {"short": "123456"}, {"short": ["x"]}, {"inner": 1}, {"inner": {}},
    {"inner": {"names": [["x"]], "by_name": {}}},
    {"inner": {"names": ["a", {"b": 1}], "by_name": {}}},
    {"inner": {"names": [], "by_name": {"a\x1b[31m\nb": ["\x1b[31m" * 1000]}}},
    {"inner": {"names": ["x" * 200_000], "by_name": {}}},
]  # fmt: skip


@pytest.mark.parametrize("data", HEALTHY, ids=range(len(HEALTHY)))
def test_healthy_data_pass(data: dict[str, Any]) -> None:
    check(data, _Outer, "here")


def test_a_wrong_value_is_one_short_line(snapshot: Snapshot) -> None:
    told = []
    for data in WRONG:
        with pytest.raises(BundleError) as caught:
            check(data, _Outer, Path("b") / "x.json")
        told.append(str(caught.value).replace("\\", "/"))
    assert all(line.isprintable() and len(line) < 300 for line in told)
    snapshot("\n".join(told))


def test_rows_are_told_by_file_and_line(snapshot: Snapshot, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(
        '{"count": 1, "unread": [1]}\n{"count": 2, "short": "\\ud800"}\n{"count": "3"}\n'
    )
    rows = checked_lines(path, _Outer)
    assert next(rows) == (1, {"count": 1})  # what is not in the type is not read
    assert next(rows)[1]["short"] == "\ud800"
    with pytest.raises(BundleError) as caught:
        next(rows)
    snapshot(str(caught.value))


@pytest.mark.parametrize("text", ["nonsense", "[1]", '{"count": 1', "[" * 100_000])
def test_what_is_no_object_is_told_as_everywhere(text: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{text}\n")
    with pytest.raises(BundleError, match=r"rows\.jsonl:1  damaged"):
        list(checked_lines(path, _Outer))


def test_a_type_of_rows_follows_its_dataclass() -> None:
    from consistency.engine.known.standing import KnownStatus, KnownStatusRow

    status = KnownStatus("entry", "file:3", "about", failed=2, rho=3.0)
    check(json.loads(json.dumps(status.to_json())), KnownStatusRow, "row")
    with pytest.raises(BundleError, match=r"row failed is 'many'; expected is a whole number"):
        check(status.to_json() | {"failed": "many"}, KnownStatusRow, "row")


def test_paths_of_keys_are_short_and_printable() -> None:
    assert schema.key_path(("settings", "backends", 0)) == "settings.backends[0]"
    assert schema.key_path(("a\n\x1b[31m", 3)).isprintable()
    assert len(schema.key_path(("x" * 100_000,))) < 100
