"""docs/security.md: each promise has its test, and no command that reads foreign data is left
out."""

from __future__ import annotations

import ast
import re

import click

from consistency.cli.main import main
from tests.support.fuzzing.targets import TARGETS
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
# Commands that read nothing but their own words, modules and programs that the user names, and
# packages.
OWN_WORDS = {"backends", "operators", "model", "debug"}


def commands(group: click.Group) -> set[str]:
    """``corpus show`` and its like for the commands of a group."""
    found = set()
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found |= {f"{name} {inner}" for inner in command.commands}
        else:
            found.add(name)
    return found


def test_each_promise_names_a_test() -> None:
    named = re.findall(r"\| `(tests/[\w/]+\.py)::(\w+)` \|", PAGE)
    assert len(named) >= 15
    assert PAGE.count("| `tests/") == len(named)
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert name in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, (path, name)


def test_every_command_is_fuzzed_and_described() -> None:
    """``corpus make`` reads nothing; each other one is a target of the fuzzer, and on the page."""
    present = commands(main) - OWN_WORDS - {"corpus make"}
    fuzzed = {command for command in present for t in TARGETS if t.line.startswith(f"{command} ")}
    assert fuzzed == present
    for command in present:
        assert re.search(rf"`{command}\b|`{command.split()[-1]}`", PAGE), command
