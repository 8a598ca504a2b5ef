"""Data flows one way, and so do imports; a worker gets by with torch and NumPy."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "consistency"

# From left to right; nothing imports what stands to its right. A name stands for a module, or for what else is in a package.
LAYERS = {
    "values": "errors profiles places threads dtypes model recipe tape values",
    "generate": "own_defaults layouts materialise operators strategies generate probing",
    "execute": "backends workers opinfo named_calls aten_calls aten_models aten_references",
    "compare": "reference magnitudes steps own_steps wider metrics elements measure casting comparison fingerprint",
    "judge": "_file_vocabulary _located_yaml expectations _tolerances_file tolerances judge monte_carlo formulations "
    "attribution trials circumstances second_look evidence",
    "run and record": "evaluate scaling determinism settings events one_case collecting engine coverage provable health literals "
    "bundle find fingerprint.ulp_map cluster explain expectations.ledger expectations.narrowing expectations.trying "
    "expectations.writing expectations.proposing calibrate recording minimise report.failure report.repeating artefact "
    "manifest bisection environments sweep changes diffing planning corpus",
    "fronts": "__init__ __main__ api cli cli_options misread commands matrix pytest_plugin report suite watching models",
}
RANK = {module: rank for rank, modules in enumerate(LAYERS.values()) for module in modules.split()}
# A worker process in an environment of its own may have none of these.
HEAVY = ("hypothesis", "pydantic", "rich", "click", "yaml", "pytest", "duckdb", "jinja2")

SOURCES = sorted(PACKAGE.rglob("*.py"))


def known(parts: Sequence[str]) -> str:
    """What the table calls a module: by two parts of its name below the package, or by the first."""
    return next((name for name in (".".join(parts[:2]), *parts[:1]) if name in RANK), "")


def place_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return known(parts) or parts[0]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and name of every module of our own that ``path`` imports, wherever in the file it does."""
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
            if name[0] == "consistency":
                yield node.lineno, known(name[1:])


def wrong_way(path: Path) -> list[str]:
    here, where = RANK[place_of(path)], path.relative_to(ROOT).as_posix()
    return [f"{where}:{line} imports {there}" for line, there in imports(path) if there and RANK[there] > here]


def test_every_module_has_its_place() -> None:
    assert {place_of(path) for path in SOURCES} - RANK.keys() == set()
    assert RANK.keys() - {place_of(path) for path in SOURCES} == set()


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
        "  import consistency.cli",
    ]
    module.write_text("\n".join(lines))
    assert wrong_way(module) == [
        "operators/new.py:2 imports judge", "operators/new.py:4 imports engine", "operators/new.py:5 imports cli",
    ]  # fmt: skip


def loaded_after(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter holds after ``code``."""
    text = f"import sys\n{code}\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", text], env=environment, capture_output=True, check=True, text=True, timeout=60)
    return set(run.stdout.split())


def test_a_worker_needs_torch_and_numpy_only() -> None:
    code = "import consistency.backends.base, consistency.materialise, consistency.operators\nconsistency.operators.registry()"
    loaded = loaded_after(code)
    assert "torch" in loaded
    assert loaded & set(HEAVY) == set()


def test_importing_the_package_costs_next_to_nothing() -> None:
    assert loaded_after("import consistency") & {"torch", "numpy", *HEAVY} == set()


def test_the_public_names_are_there() -> None:
    import consistency

    assert set(dir(consistency)) == set(consistency.__all__)
    for name in consistency.__all__:
        assert getattr(consistency, name) is not None
    with pytest.raises(AttributeError, match="module 'consistency' has no attribute 'tolerate'"):
        consistency.tolerate  # noqa: B018
