"""The audit of budgets: a rule that admits everything is found, and one of rounding is not."""

from __future__ import annotations

import importlib.util
from statistics import median
from types import ModuleType
from typing import Any

import pytest

from consistency import operators
from consistency.generate.search import batch
from consistency.judge.tolerances import Tolerances, load
from consistency.reference import quiet
from tests.support.paths import ROOT

WIDE = """extends: packaged
operators: {NAME: {any: {lambda: 1e9, c: 1e9, source: planted}}}
"""


@pytest.fixture(scope="module")
def audit() -> ModuleType:
    spec = importlib.util.spec_from_file_location("budget_audit", ROOT / "tools/budget_audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def largest(audit: ModuleType, name: str, rules: Tolerances) -> list[float]:
    operator = operators.get(name)
    cases = batch(operator, "float32", 4)
    with quiet():
        return [
            max(found)
            for case in cases
            if (found := list(audit.budgets(operator, case, "forward", rules)))
        ]


@pytest.mark.parametrize("name", ["exp", "sum", "matmul", "softmax"])
def test_a_rule_that_admits_everything_is_found(
    audit: ModuleType, name: str, tmp_path: Any
) -> None:
    healthy = load(ROOT / "tolerances.yaml")
    assert 0.0 < median(largest(audit, name, healthy)) < audit.LIMITS["float32"]
    file = tmp_path / "wide.yaml"
    file.write_text(WIDE.replace("NAME", name), encoding="utf-8")
    assert median(largest(audit, name, load(file))) > 1.0


def test_the_page_lists_what_exceeds_the_limit(audit: ModuleType) -> None:
    row = {"operator": "exp", "dtype": "float32", "direction": "forward", "cases": 3,
    "median": 1e-6, "largest": 0.1}  # fmt: skip
    wide = row | {"operator": "affine", "median": 7.0, "largest": 1e300}
    page = audit.page([row, wide, row | {"operator": "empty", "cases": 0}])
    assert "| float32 | forward | 2 | 3.5e+00 | 1 | 2 |" in page
    assert "| `affine` | float32 | forward | 7 | any |" in page
    assert "`exp`" not in page
    assert "None." in audit.page([row])
