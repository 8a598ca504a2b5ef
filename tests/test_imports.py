"""Data flows one way, and so do imports; a worker gets by with torch and NumPy."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "consistency"

# From left to right; no room imports one to its right, wherever in a file it does.
ROOMS = [
    "core", "operators", "generate", "backends", "reference", "judge", "diagnose", "probes",
    "storage", "engine", "report", "training", "api", "cli",
]  # fmt: skip
LOOSE = {
    "errors": -1,
    "pytest_plugin": 100,
    "suite": 101,
    "__init__": 102,
    "__main__": 103,
}
RANK = {room: rank for rank, room in enumerate(ROOMS)} | LOOSE
# A worker process in an environment of its own may have none of these.
HEAVY = ("hypothesis", "pydantic", "rich", "click", "yaml", "pytest", "duckdb", "jinja2")

SOURCES = sorted(PACKAGE.rglob("*.py"))


def place_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of every module of our own that ``path`` imports, wherever in the file it
    does."""
    package = ["consistency", *path.relative_to(PACKAGE).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = [*base, *(node.module.split(".") if node.module else [])]
            names = [[*module, alias.name] for alias in node.names]
        else:
            continue
        for name in names:
            if name[0] == "consistency" and name[1:2] and name[1] in RANK:
                yield node.lineno, name[1]


def wrong_way(path: Path) -> list[str]:
    here, where = RANK[place_of(path)], path.relative_to(ROOT).as_posix()
    return [
        f"{where}:{line} imports {there}" for line, there in imports(path) if RANK[there] > here
    ]


def test_every_module_has_its_place() -> None:
    assert {place_of(path) for path in SOURCES} == RANK.keys()


def test_few_modules_are_in_no_room() -> None:
    assert len(LOOSE) - len({"__init__", "__main__"}) <= 5


def test_no_public_class_has_the_name_of_another() -> None:
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.M):
            places.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert len(places) > 300
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_every_room_says_what_is_in_it() -> None:
    for room in ROOMS:
        text = ast.get_docstring(
            ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8"))
        )
        assert text, room


def test_nothing_imports_what_stands_to_its_right() -> None:
    assert [line for path in SOURCES for line in wrong_way(path)] == []


def test_an_import_the_wrong_way_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    (tmp_path / "operators").mkdir()
    module = tmp_path / "operators" / "new.py"
    lines = [
        "import torch",
        "from ..judge import judge",
        "def late():",
        "  from .. import engine, errors",
        "  import consistency.cli.main",
    ]
    module.write_text("\n".join(lines))
    assert wrong_way(module) == [
        "operators/new.py:2 imports judge", "operators/new.py:4 imports engine",
        "operators/new.py:5 imports cli",
    ]  # fmt: skip


def loaded_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after ``code``."""
    text = f"import sys\n{code}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", text],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return set(run.stdout.split())


def test_a_worker_needs_torch_and_numpy_only() -> None:
    code = (
        "import consistency.backends.base, consistency.generate.materialize, "
        "consistency.operators\n"
        "consistency.operators.registry()"
    )
    loaded = loaded_after(code)
    assert "torch" in loaded
    assert loaded & set(HEAVY) == set()


def test_importing_the_package_costs_next_to_nothing() -> None:
    assert loaded_after("import consistency") & {"torch", "numpy", *HEAVY} == set()


def test_reading_stores_needs_no_torch() -> None:
    """It takes 230 MB, more than the results of two nights."""
    rooms = "bundle_sources", "site", "snapshot", "sql", "store"
    code = "\n".join(f"import consistency.report.history.{name}" for name in rooms)
    loaded = loaded_after(f"{code}\nimport consistency.cli.commands.matrix")
    assert "torch" not in loaded
    assert "numpy" in loaded


def test_the_public_names_are_there() -> None:
    import consistency

    assert set(dir(consistency)) == set(consistency.__all__)
    for name in consistency.__all__:
        assert getattr(consistency, name) is not None
    with pytest.raises(AttributeError, match="module 'consistency' has no attribute 'tolerate'"):
        consistency.tolerate  # noqa: B018
