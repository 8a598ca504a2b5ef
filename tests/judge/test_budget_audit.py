"""The audit of budgets: a rule that admits everything is found, and one of rounding is not."""

from __future__ import annotations

from statistics import median
from typing import Any

import pytest

from consistency import operators
from consistency.generate.shipped.cases import cases
from consistency.judge.tolerances import Tolerances, load
from consistency.reference import quiet
from tests.support.budgets.measure import LIMITS, budgets, rules
from tests.support.budgets.page import COARSER, NO_REASON, TOO_WIDE, page, reason
from tests.support.paths import ROOT

WIDE = """extends: packaged
operators: {NAME: {any: {lambda: 1e9, c: 1e9, source: planted}}}
"""
MOST_OF_A_GRADIENT = 256.0  # times u of the format, what cancels in gradients of Bessel functions
HEALTHY = {"ratio": 1e-6, "largest": 1.0}
EXCEEDS = {
    "ratio": 7.0, "largest": 1.0, "error": 1e-8, "rounding": 1e-7, "magnitude": 1.0, "terms": 2.0,
    "judged": True, "stated": False, "flushed": False,
}  # fmt: skip


def row(*facts: dict[str, Any], **changes: Any) -> dict[str, Any]:
    entry = {"operator": "exp", "dtype": "float32", "direction": "forward", "cases": [*facts]}
    return entry | changes


def largest(name: str, rules: Tolerances) -> list[dict[str, Any]]:
    operator = operators.get(name)
    with quiet():
        return [
            max(found, key=lambda fact: fact["ratio"])
            for case in cases(operator, "float32")
            if (found := list(budgets(operator, case, "forward", rules)))
        ]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["exp", "sum", "matmul", "softmax"])
def test_a_rule_that_admits_everything_is_found(name: str, tmp_path: Any) -> None:
    assert 0.0 < median(fact["ratio"] for fact in largest(name, rules())) < LIMITS["float32"]
    file = tmp_path / "wide.yaml"
    file.write_text(WIDE.replace("NAME", name), encoding="utf-8")
    found = largest(name, load(file))
    assert median(fact["ratio"] for fact in found) > 1.0
    assert NO_REASON in {reason(row(), fact) for fact in found if fact["ratio"] > 1.0}


@pytest.mark.parametrize(
    ("changes", "words"),
    [({}, NO_REASON), ({"largest": 1e-37}, "smallest normal"), ({"rounding": 0.2}, "at random"),
     ({"error": 0.2}, "the CPU itself"), ({"magnitude": 1e4}, "cancel"),
     ({"terms": 1e8}, "many terms"), ({"magnitude": None}, "no budget"),
     ({"judged": False}, "no budget"), ({"flushed": True}, "taken for zero"),
     ({"magnitude": 0.0, "stated": True}, "source")],
)  # fmt: skip
def test_what_explains_a_wide_budget(changes: dict[str, Any], words: str) -> None:
    assert words in reason(row(), EXCEEDS | changes)


def test_the_page_lists_what_exceeds_the_limit() -> None:
    wide = row(EXCEEDS, EXCEEDS | {"ratio": 1e300}, operator="affine")
    text = page([row(HEALTHY), wide, row(operator="empty")])
    assert "| float32 | forward | 2 | 2.5e+299 | 1 | 1 |" in text
    assert f"| {NO_REASON} | 2 | **`affine` float32 forward** |" in text
    assert "| `affine` | any / any | –" in text
    assert "| `exp` | 1e-06 / 1e-06 | –" in text
    assert "empty" not in text
    assert NO_REASON not in page([row(HEALTHY)])


def test_rules_that_are_too_wide_are_apart_from_reasons() -> None:
    wide = [row(EXCEEDS, operator="exp"), row(EXCEEDS, operator="prod")]
    text = page([*wide, row(EXCEEDS | {"magnitude": 1e4}, operator="mul")])
    assert "3 of 3 cases exceed it; 1 have a reason" in text
    assert "2 have none" in text
    reasons, _, rest = text.partition("## Rules that are too wide")
    assert "| 1 | **`mul` float32 forward** |" in reasons
    assert f"| {TOO_WIDE['prod', 'forward']} | 1 | **`prod` float32 forward** |" in rest
    assert "too wide" not in page([row(HEALTHY)])


def test_beside_half_precision_its_limit_counts() -> None:
    case = next(
        case
        for case in cases(operators.get("add"), "float32")
        if {tensor.dtype for tensor in case.tensors} == {"float32", "float16"}
    )
    beside = row(EXCEEDS | {"ratio": 0.4, "case": case.id}, operator="add")
    alone = row(EXCEEDS | {"ratio": 0.4}, operator="add")
    assert reason(beside, beside["cases"][0]) == COARSER
    assert reason(alone, alone["cases"][0]) != COARSER
    assert "0 of 1 cases exceed" in page([row(HEALTHY | {"ratio": 0.4}, operator="add")])


def test_every_wide_budget_of_the_page_has_a_reason() -> None:
    assert NO_REASON not in (ROOT / "docs" / "budgets.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("backend", ["cpu", "cuda", "directml", "numpy", "onnxruntime", "jax"])
def test_a_gradient_in_half_precision_does_not_take_the_factor_of_its_result(backend: str) -> None:
    """Results of half precision are accumulated in float32, gradients in their own format: a factor
    of 2^14 times u admits an error of some hundredths there, and of 16 times the terms here."""
    packaged = load()
    wide = [
        (operator.name, dtype)
        for operator in operators.registry().values()
        for dtype in ("float16", "bfloat16")
        if operator.differentiable
        and dtype in operator.dtypes
        and packaged.rule(
            operator.name, dtype, family=operator.family, direction="backward", backend=backend
        ).lam
        > MOST_OF_A_GRADIENT
    ]
    assert wide == []
