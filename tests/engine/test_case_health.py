"""The draws of every operator are valid, tell something and differ, as far as few of them can tell
(limits: health.py). Every fourth operator; the others run nightly.

``-m nightly`` draws many more.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from consistency import operators
from consistency.engine import case_health
from consistency.operators.declare import Call, call
from tests.support.commands import command

NAMES = sorted(name for name, operator in operators.registry().items() if operator.form_of is None)
DRAWS, MANY = 40, 200
# Strided tensors that torch refuses, and runs expect that (docs/findings.md): words of the error.
REFUSED = {
    "take_along_dim": "view size is not compatible",
    "kron": "view size is not compatible",
    "sub": "with a bool tensor is not supported",
    "rsub": "with a bool tensor is not supported",
}


def check(name: str, draws: int) -> None:
    operator = operators.get(name)
    if operator.callable is None:
        pytest.skip(f"torch {torch.__version__} has no {name}")
    found = case_health.examine(operator, operator.dtypes[0], draws)
    if torch.__version__.startswith("2.4.") and "not implemented" in found.invalid:
        pytest.skip(found.invalid)
    assert found.drawn, f"no draw of {name}"
    refused = REFUSED.get(name.removesuffix(".method").removesuffix(".out"))
    if refused is not None and found.invalid:
        assert refused in found.invalid
        assert found.valid_share > 0.8
        return
    assert found.valid_share >= case_health.VALID, found.invalid
    assert found.good, (
        f"{found.blind} of {found.ordinary} ordinary draws of {name} can tell nothing: "
        f"{dict(found.reasons)}"
    )


@pytest.mark.one_in(64)
@pytest.mark.parametrize("name", NAMES)
def test_draws_are_healthy(name: str) -> None:
    check(name, DRAWS)


def test_draws_of_forms_are_healthy() -> None:
    """Some of them, the same ones every time: they draw what their operators draw."""
    forms = sorted(
        name for name, operator in operators.registry().items() if operator.form_of is not None
    )
    for name in random.Random(0).sample(forms, 12):
        if operators.get(name).callable is not None:
            check(name, DRAWS)


def test_draws_with_a_mask_are_ordinary() -> None:
    """A sparse mask is no special value, or nothing would be asked of such operators."""
    assert case_health.examine(operators.get("masked.sum"), "float32", 20).ordinary > 10


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_many_draws_are_healthy(name: str) -> None:
    check(name, MANY)


def test_bad_strategies_are_noticed() -> None:
    def zeros(d: Any) -> Call:
        return call(d.tensor((5,), values=("integers", 0, 0)))

    def refused(d: Any) -> Call:
        return call(d.tensor((d.size(1, 64), 2)), dim=7)

    flat = case_health.examine(
        replace(operators.get("exp"), sample=zeros, differentiable=False), "float32", 20
    )
    assert not flat.good
    assert flat.valid_share == 1.0
    assert flat.blind == flat.ordinary > 5
    invalid = case_health.examine(replace(operators.get("cumsum"), sample=refused), "float32", 20)
    assert not invalid.good
    assert invalid.valid == 0
    assert "Dimension out of range" in invalid.invalid


def test_the_command_shows_it() -> None:
    answer = command("operators exp --health --examples 20 --json")
    assert answer.exit_code == 0, answer.output
    row = json.loads(answer.output.splitlines()[-1])
    assert (row["operator"], row["valid_share"], row["good"]) == ("exp", 1.0, True)
    shown = command("operators exp --health --examples 20").output
    assert "1 of 1 operators within bounds" in shown
    assert command("operators --health --coverage").exit_code == 2
