"""Wording that is frozen once, as text files that people read. tests/snapshots/ mirrors tests/,
with a file for each module and a section for each text.

``snapshot(text)`` compares with the section of the name of the test; ``--update-snapshots`` writes
the sections of those tests anew that run. What differs between runs (the folder of the test, the
version of torch) is replaced by a word. A section that no test asks for fails."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch

from .paths import ROOT

FOLDER = ROOT / "tests" / "snapshots"
HEAD = "=== "
COLLECTED = pytest.StashKey[dict[Path, set[str]]]()


def file_of(module: Path) -> Path:
    """Where the texts of a test module are."""
    return FOLDER / module.relative_to(ROOT / "tests").with_suffix(".txt")


def read(path: Path) -> dict[str, str]:
    """The sections of a file."""
    if not path.exists():
        return {}
    parts = re.split(rf"^{HEAD}(.*)\n", path.read_text("utf-8"), flags=re.MULTILINE)
    return {name: text[:-2] for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def write(path: Path, sections: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{HEAD}{name}\n{sections[name]}\n\n" for name in sorted(sections))
    path.write_text(text, "utf-8")
    if not sections:
        path.unlink()


class Snapshot:
    """The texts of one test: the first has its name, others a label behind it."""

    def __init__(
        self,
        path: Path,
        test: str,
        update: bool = False,
        places: dict[str, str] | None = None,
        tests: frozenset[str] = frozenset(),
    ) -> None:
        self.path, self.test, self.update, self.places = path, test, update, places or {}
        self.tests = tests  # all of the module, where they are known
        self.told: dict[str, str] = {}

    def __call__(self, text: object, label: str = "") -> None:
        lines = [text] if isinstance(text, str) or not isinstance(text, Iterable) else text
        shown = "\n".join(map(str, lines))
        for place, word in self.places.items():
            shown = shown.replace(place, word)
        name = f"{self.test} {label}".strip()
        assert name not in self.told, f"{name}: two texts of one test need labels"
        assert not re.search(rf"^{HEAD}", shown, flags=re.MULTILINE)
        self.told[name] = shown
        if not self.update:
            assert shown == read(self.path).get(name), f"{self.path.name}: {name}"

    def gone(self, kept: Iterable[str]) -> set[str]:
        """Parametrizations of this test that are no more, but have sections."""
        named = {name.partition(" ")[0] for name in kept}
        family = self.test.partition("[")[0]
        return {
            name for name in named - self.tests if name.partition("[")[0] == family and self.tests
        }

    def finish(self) -> None:
        """Every section of this test was asked for."""
        kept = read(self.path)
        ours = {name for name in kept if name.partition(" ")[0] in {self.test, *self.gone(kept)}}
        if self.update:
            write(self.path, {k: v for k, v in kept.items() if k not in ours} | self.told)
        else:
            assert ours <= self.told.keys(), f"{self.path.name}: nobody asks for these sections"


@pytest.fixture
def snapshot(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Snapshot]:
    places = {str(tmp_path): "TMP", str(ROOT): "ROOT", torch.__version__: "TORCH"}
    whole = not any("::" in argument for argument in request.config.args)
    tests = frozenset(request.config.stash[COLLECTED][request.path]) if whole else frozenset()
    update = request.config.getoption("update_snapshots")
    held = Snapshot(file_of(request.path), name_of(request.node), update, places, tests)
    yield held
    if getattr(request.node, "passed", False):
        held.finish()


def name_of(item: pytest.Item) -> str:
    return re.sub(r"\s+", "_", item.name)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Also those that an option deselects afterwards."""
    names = item.config.stash.setdefault(COLLECTED, {})
    names.setdefault(item.path, set()).add(name_of(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report = yield
    if call.when == "call":
        item.passed = report.passed  # type: ignore[attr-defined]
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-snapshots", action="store_true", help="write tests/snapshots anew (not with -n)"
    )
