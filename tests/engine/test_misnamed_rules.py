"""Rules for operators that do not exist."""

from __future__ import annotations

from pathlib import Path

from consistency.engine.misnamed_rules import misnamed_rules
from consistency.judge import tolerances

FILE = """extends: packaged
operators:
  matmull, "conv?d", matmul:
    any: {c: 4, lambda: 2, source: "mine"}
"""


def test_a_name_that_matches_nothing_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(FILE, encoding="utf-8")
    found = list(misnamed_rules(tolerances.load(file)))
    assert len(found) == 2
    assert found[0].startswith("mine.yaml:4: operator 'matmull' matches none that is known; did")
    assert "operator 'conv?d' matches none that is known" in found[1].replace('"', "")


def test_every_rule_of_our_own_is_for_an_operator() -> None:
    assert not list(misnamed_rules(tolerances.load()))
