"""What every batch asks of gradients: layouts of cotangents, inputs that track no gradient."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from consistency import backends, operators
from consistency.backends._cotangents import cotangent
from consistency.backends.base import Backend
from consistency.core.model import COTANGENT_LAYOUTS, Case, Outcome
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.errors import RecipeError
from consistency.generate.materialize import leaves, prepare
from consistency.generate.search import batch
from consistency.judge import tolerances


class Off(Backend):
    """Gradients are 1% off."""

    name = "off"

    def run(self, *args: Any, **kwargs: Any) -> Outcome:
        outcome = super().run(*args, **kwargs)
        wrong = (
            output if output.tensor is None else replace(output, tensor=output.tensor * 1.01)
            for output in outcome.outputs
        )
        return replace(outcome, outputs=tuple(wrong))


NAMES = ("matmul", "nn.functional.layer_norm", "mul", "softmax", "index_select")


def _has_all(case: Case) -> bool:
    """Whether every tensor tracks a gradient, or lies in the memory of one that does."""
    return all(
        tensor.leaf or (isinstance(tensor, TensorRecipe) and tensor.shared)
        for tensor in case.tensors
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_five_cases_ask_for_both_layouts(name: str) -> None:
    drawn = batch(operators.get(name), "float32", 10)
    for five in (drawn[:5], drawn[5:]):
        asked = sorted(case.cotangent_layout for case in five if case.cotangent_layout)
        assert asked == ["expanded", "transposed"]


@pytest.mark.parametrize("name", ["matmul", "nn.functional.layer_norm", "mul"])
def test_of_every_five_cases_one_leaves_a_gradient_out(name: str) -> None:
    operator = operators.get(name)
    drawn = batch(operator, "float32", 15)
    without = [case for case in drawn if not _has_all(case)]
    for five in (drawn[:5], drawn[5:10], drawn[10:]):
        floats = [sum(t.dtype == case.dtype for t in case.tensors) for case in five]
        left_out = sum(case in without for case in five if all(t.base for t in case.tensors))
        assert left_out == (max(floats) > 1), "numbers beside tensors may track none, too"
    assert not without[0].tensors[0].leaf
    assert all(leaves(case, operator.leaves) for case in without)


@pytest.mark.parametrize("count", [1, 2])
def test_nothing_is_asked_of_very_few_cases(count: int) -> None:
    for case in batch(operators.get("matmul"), "float32", count):
        assert not case.cotangent_layout
        assert _has_all(case)


def test_nothing_is_asked_of_what_has_no_gradient() -> None:
    for case in batch(operators.get("argmax"), "float32", 10):
        assert not case.cotangent_layout
        assert _has_all(case)


def test_a_line_keeps_what_is_asked() -> None:
    for case in batch(operators.get("matmul"), "float32", 5):
        assert Case.from_line(case.line) == case


@pytest.mark.parametrize("layout", COTANGENT_LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_the_numbers_of_a_layout(layout: str, dtype: str) -> None:
    case = replace(batch(operators.get("mul"), dtype, 1)[0], cotangent=90)
    root = torch.zeros(3, 4, 5, dtype=getattr(torch, dtype))
    plain, other = (
        cotangent(root, 90, prepare(replace(case, cotangent_layout=each)).build())
        for each in ("", layout)
    )
    assert other.shape == root.shape
    assert other.dtype == root.dtype
    if layout in ("expanded", "constant"):
        assert bool((other == plain.reshape(-1)[-1]).all())
        assert other.stride() == ((0, 0, 0) if layout == "expanded" else (20, 5, 1))
    else:
        assert torch.equal(other, plain)
        assert other.stride() == ((1, 3, 12) if layout == "transposed" else (20, 5, 1))


def test_a_perturbed_cotangent_has_a_number_of_its_own_for_each_element() -> None:
    """S of a gradient is found by changing signs; those of one number would show no term."""
    case = replace(batch(operators.get("mul"), "float32", 1)[0], cotangent_layout="expanded")
    signs, last = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64), len(case.tensors)
    arguments = prepare(case).build(
        "float64", adjust=lambda base, position: base * signs if position == last else base
    )
    changed = cotangent(torch.zeros(4, dtype=torch.float64), 90, arguments)
    assert torch.equal(changed, changed[0] * signs)
    assert math.isfinite(float(changed[0]))


@pytest.mark.parametrize("wrong", ["sideways", 3, ["expanded"], "Expanded"])
def test_another_layout_is_refused(wrong: object) -> None:
    case = batch(operators.get("mul"), "float32", 1)[0]
    with pytest.raises(RecipeError, match=r"is not the layout of a cotangent.*known: expanded"):
        Case.from_json(case.to_json() | {"cotangent_layout": wrong})


@pytest.mark.parametrize("name", ["nn.functional.layer_norm", "nn.functional.prelu", "mul"])
def test_a_gradient_that_is_left_out_costs_the_others_nothing(name: str) -> None:
    """The healthy CPU passes, and a wrong gradient of the parameters is noticed, other than in
    cases in which a wrong one is expected: of numbers whose squares leave the format."""
    operator, rules = operators.get(name), tolerances.load()
    judged = [
        (case, *judge_case(case, operator, backends.resolve_all(["cpu"]), rules, ("backward",)))
        for case in batch(operator, "float32", 40)
        if not _has_all(case)
        and all(t.values[0] != "beyond" for t in case.tensors if isinstance(t, TensorRecipe))
    ]
    assert not [case.line for case, found in judged if found.verdict.fails]
    case = next(
        case
        for case, found in judged
        # The gradient of one number in half precision is a sum that may cancel.
        if found.verdict.value == "rounding" and {t.dtype for t in case.tensors} == {"float32"}
    )
    faulty = judge_case(case, operator, [Off()], rules, ("backward",))
    assert [result.verdict.fails for result in faulty] == [True]
