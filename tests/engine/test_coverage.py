"""What ``consistency operators --coverage`` measures, and that docs/coverage.md names the operators
that are declared now."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from consistency import operators
from consistency.cli.commands.coverage import page, summary
from consistency.engine import coverage
from tests.support.commands import command
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "coverage.md"
FEW = ["matmul", "nn.functional.linear", "relu_", "softmax", "svd"]


@pytest.fixture(scope="module")
def few() -> coverage.Coverage:
    return coverage.measure(
        [operators.registry()[name] for name in FEW if name in operators.registry()]
    )


@pytest.mark.nightly
def test_the_dispatcher_is_asked(few: coverage.Coverage) -> None:
    assert "aten::_softmax" in few.reached["softmax"]
    assert "aten::_softmax_backward_data" in few.backward
    assert "aten::relu_" in few.reached["relu_"]
    assert "aten::exp" not in few.aten
    assert not few.problems


@pytest.mark.nightly
def test_kernels_are_reached_or_missing_for_a_reason(few: coverage.Coverage) -> None:
    missing = few.missing_kernels
    assert "aten::_softmax" not in missing
    assert "aten::linear" not in missing  # nobody sees it, but it is declared
    assert missing["aten::_copy_from"].startswith("internal")
    assert missing["aten::exp"] == "not declared yet"
    assert "aten::exp" not in few.unreachable_kernels
    assert len(few.kernels) == len(set(few.kernels)) > 200
    assert all(name.startswith("aten::") and "." not in name for name in few.kernels)


def test_one_bad_operator_costs_itself_only() -> None:
    from dataclasses import replace

    bad = replace(operators.get("exp"), sample=lambda d: 1 / 0)  # type: ignore[arg-type,return-value]
    found = coverage.measure([bad, operators.get("sin")])
    assert "ZeroDivisionError" in found.problems["exp"]
    assert "aten::sin" in found.aten


def test_the_command_shows_it(tmp_path: Path) -> None:
    answer = command("operators exp --coverage --json --markdown {}", tmp_path / "page.md")
    assert answer.exit_code == 0, answer.output
    data = json.loads(answer.output.splitlines()[-1])
    assert data["operators"] == 1
    assert data["aten_by_operator"]["exp"]
    assert "| operators | 1 |" in (tmp_path / "page.md").read_text(encoding="utf-8")
    assert command("operators --markdown {}", tmp_path / "x.md").exit_code == 2


@pytest.mark.nightly
def test_what_is_shown(few: coverage.Coverage) -> None:
    text = "\n".join(summary(few))
    assert f"{len(few.operators)} operators in" in text
    assert "missing kernels:" in text
    assert any(line.startswith("| matmul |") for line in page(few))


def test_the_page_names_every_declared_operator() -> None:
    """Names and families, not what was measured: run the command that the page names after a
    change."""
    rows = re.findall(
        r"^\| ([^|]+) \| (\d+) \| (\d+) \| [^|]+ \| (.+) \|$",
        PAGE.read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    shown = {family: re.findall(r"`([^`]+)`", names) for family, _, _, names in rows}
    now: dict[str, list[str]] = {}
    for operator in operators.registry().values():
        now.setdefault(operator.family, []).append(operator.name)
    assert shown == now, "run: consistency operators --coverage --markdown docs/coverage.md"
    for family, count, backward, _ in rows:
        members = [o for o in operators.registry().values() if o.family == family]
        assert (int(count), int(backward)) == (
            len(members),
            sum(o.differentiable for o in members),
        ), family
