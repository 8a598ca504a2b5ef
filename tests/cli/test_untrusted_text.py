"""Text that a backend or a file wrote reaches no terminal, page, script or issue with anything that
these obey: every command that prints what is stored."""

from __future__ import annotations

import ast
import io
import json
import shutil
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table
from rich.text import Text

from consistency.report.safe_console import SafeConsole
from tests.support.commands import command
from tests.support.example_bundles import hostile, ordinary, stored_run
from tests.support.paths import DATA

PACKAGE = Path(__file__).resolve().parents[2] / "consistency"
NASTY = (
    "\x1b[2J\x1b]0;owned\x07\x9b31m\u202eABC\u2066\u200b\r\x08\x00\ud800\n✓ nothing fails\u2028x"
    "<script>[red]{{7*7}}"
)
HEALTHY = "µ × ≤ ἀλήθεια 日本語 👩\u200d💻 é"


def obeyed(text: str) -> list[str]:
    """The characters that are not just shown."""
    joined = text.replace("👩\u200d💻", "").replace("\n", "")
    return sorted({c for c in joined if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")})


def planted(value: Any, text: str, keep: frozenset[str]) -> Any:
    """JSON data with ``text`` at the end of every text that is not under one of the keys
    ``keep``."""
    if isinstance(value, str):
        return value + text
    if isinstance(value, list):
        return [planted(item, text, keep) for item in value]
    if isinstance(value, dict):
        return {k: v if k in keep else planted(v, text, keep) for k, v in value.items()}
    return value


def rewrite(path: Path, text: str, keep: str) -> None:
    kept = frozenset(keep.split())
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        body = "".join(json.dumps(planted(row, text, kept)) + "\n" for row in rows)
    else:
        body = json.dumps(planted(json.loads(path.read_text(encoding="utf-8")), text, kept))
    path.write_text(body, encoding="utf-8")


@pytest.fixture(scope="module", params=[NASTY, HEALTHY], ids=["nasty", "healthy"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with the text in every field that is not an identifier."""
    folder = stored_run(tmp_path_factory.mktemp("planted") / "bundle")
    identifiers = "id format created kind name status verdict direction operator dtype"
    rewrite(folder / "bundle.json", request.param, f"{identifiers} operators directions digest")
    rewrite(folder / "environment.json", request.param, "fingerprint")
    rows = f"{identifiers} case_id sha256 shrunk index metrics detail initial_verdict place"
    rewrite(folder / "results.jsonl", request.param, rows)
    rewrite(folder / "scaling.jsonl", request.param, identifiers)
    rewrite(folder / "determinism.jsonl", request.param, identifiers)
    (folder / "planted").write_text(request.param, encoding="utf-8", errors="replace")
    return folder


def check(text: str) -> None:
    assert not obeyed(text), obeyed(text)
    assert "\n✓ nothing fails" not in text
    text.encode("utf-8")


@pytest.mark.parametrize("line", [
    "report --text", "report --text --not-tested", "report --markdown", "matrix", "query",
    "expect", "corpus merge -o {}",
])  # fmt: skip
def test_what_commands_print(
    bundle: Path, tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = command(line, *([tmp_path / "out"] if "{}" in line else []), bundle)
    assert shown.exception is None or isinstance(shown.exception, SystemExit), shown.exception
    check(shown.output)
    assert shown.output
    assert "bundle.json  " not in shown.output  # it is not refused
    if line == "report --text" and "👩" in (bundle / "planted").read_text(encoding="utf-8"):
        assert HEALTHY in shown.output


@pytest.mark.parametrize("options", ["", "--markdown", "--json"])
def test_diff(bundle: Path, tmp_path: Path, options: str) -> None:
    other = stored_run(tmp_path / "other")
    for pair in ((bundle, other), (other, bundle), (bundle, bundle)):
        check(command(f"diff {options}", *pair).output)


def test_the_page(bundle: Path, tmp_path: Path) -> None:
    command("report -o {}", tmp_path / "page.html", bundle)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not set(obeyed(page)) - {"\t"}


def test_a_recording(tmp_path: Path) -> None:
    folder = tmp_path / "r"
    shutil.copytree(DATA / "recording-format-1", folder)
    rewrite(folder / "recording.json", NASTY, "kind format created configurations settings")
    rewrite(folder / "outcomes.jsonl", NASTY, "id case_id direction status outputs configuration")
    shown = command("judge {} --not-tested", folder)
    assert shown.exit_code in (0, 1, 3), shown.output
    check(shown.output)
    for line in ("record --corpus {} -b nobody -o {}", "judge {} {}", "repro {} --id {}"):
        check(command(line, folder, f"x{NASTY}").output)


def test_errors_quote_what_they_name() -> None:
    for line in ("run {}", "run --backend {}", "repro {}", "report {}", "query {}", "diff {} {}"):
        # As the operating system gives bytes that are not UTF-8.
        word = f"no{NASTY}".replace("\x00", "").replace("\ud800", "\udcff")
        shown = command(line, *[word] * line.count("{}"))
        assert shown.exit_code == 2
        check(shown.output)
        assert len(shown.output.strip().splitlines()) == 1


def test_the_folders_of_failures(tmp_path: Path) -> None:
    results = [
        replace(one, explanation=f"{one.explanation}{NASTY}", backend=f"{one.backend}{NASTY}")
        for one in [*ordinary(), *hostile()]
        if one.verdict.fails
    ]
    folder = stored_run(tmp_path / "bundle", results)
    files = [
        path for path in (folder / "failures").rglob("*") if path.suffix in (".py", ".md", ".txt")
    ]
    assert len(files) > 10
    for path in files:
        # After @ there is a mark that keeps GitHub from writing to people.
        text = path.read_text(encoding="utf-8").replace("@\u200b", "@")
        assert not obeyed(text), path.name


# --- the edge


def test_a_console_shows_control_characters_as_text() -> None:
    stream = io.StringIO()
    console = SafeConsole(file=stream, width=200, force_terminal=True, color_system="standard")
    table = Table("name")
    table.add_row(NASTY)
    table.add_row(Text(NASTY))
    for what in (NASTY, Text(NASTY), table, HEALTHY):
        console.print(what)
    console.print("styled", style="bold red")
    text = stream.getvalue()
    assert "\x1b[1;31mstyled" in text  # its own styles stay
    for word in ("\x1b[2J", "\x1b]0", "\x07", "\x9b", "\u202e", "\r", "\x08", "\x00", "\ud800"):
        assert word not in text
    assert HEALTHY in text


def calls(name: str) -> Iterator[str]:
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if name.rpartition(".")[2] not in text:
            continue  # most of six hundred modules: parsing them all takes seconds
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == name:
                yield path.relative_to(PACKAGE).as_posix()


def test_everything_is_printed_through_one_edge() -> None:
    assert set(calls("click.echo")) == {"cli/echo.py"}
    assert set(calls("click.secho")) == set()
    assert set(calls("Console")) == set()
