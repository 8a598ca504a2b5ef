"""Large calls whose S is not computed, because ulp or a lower bound of S settles the matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.judge.compare import compare
from consistency.reference import Reference, quiet


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "nn.functional.softmin"])
def test_a_large_result_is_bounded_without_its_magnitude(name: str) -> None:
    """S is not computed where ulp settles the matter; what is recorded then bounds the maximum."""
    operator = operators.get(name)
    rows = TensorRecipe((64, 1024), "float32", ("uniform", -3.0, 3.0), 1 << 23)
    materials = prepare(Case(name, "float32", (rows, 1)))
    with quiet():
        outcome, reference = (
            Cpu().run(operator, materials),
            Reference(operator, materials, "forward"),
        )
        group = compare(outcome, reference).outputs[0].element_groups[0]
        assert "magnitudes" not in vars(reference)
        magnitude, ref = reference.magnitudes[0], reference.outputs[0].tensor
        actual = outcome.outputs[0].tensor
        assert isinstance(magnitude, torch.Tensor)
        assert actual is not None
        assert ref is not None
        assert bool((magnitude >= ref.abs()).all())
        unit = reference.growth(0) * 2.0**-24
        exact = float(((actual.double() - ref).abs() / (unit * magnitude)).max())
        assert exact <= group.scaled_max <= 0.5
        wrong = replace(
            outcome, outputs=(replace(outcome.outputs[0], tensor=actual * (1.0 + 2.0**-16)),)
        )
        assert compare(wrong, reference).outputs[0].element_groups[0].pareto_front


def rows(*shape: int, values: tuple[Any, ...] = ("uniform", -1.0, 1.0), stop: int = 1 << 23) -> Any:
    return TensorRecipe(shape, "float32", values, stop)


LARGE_CALLS: dict[str, Case] = {
    "rows": Case("sum", "float32", (rows(300, 256), 1)),
    "columns": Case("sum", "float32", (rows(2048, 64), 0)),
    "kept": Case("sum", "float32", (rows(8, 90, 101), -1), {"keepdim": True}),
    "two dims": Case("sum", "float32", (rows(40, 40, 40),), {"dim": [0, -1]}),
    "all": Case("sum", "float32", (rows(70000, values=("uniform", 0.0, 1.0)),)),
    "mean": Case("mean", "float32", (rows(64, 2048), 1)),
    "mean of all": Case("mean", "float32", (rows(300, 300),)),
    "layers": Case("nn.functional.layer_norm", "float32", (rows(256, 256), [256])),
    "layers of two dims": Case("nn.functional.layer_norm", "float32", (rows(40, 30, 40), [30, 40])),
    "with weight": Case(
        "nn.functional.layer_norm",
        "float32",
        (
            rows(256, 256),
            [256],
            rows(256, stop=1 << 20, values=("uniform", 1.0, 2.0)),
            rows(256, stop=1 << 19),
        ),
    ),
}


@pytest.mark.parametrize("case", LARGE_CALLS.values(), ids=LARGE_CALLS)
def test_a_lower_bound_of_a_large_magnitude_is_never_above_it(case: Case) -> None:
    operator, materials = operators.get(case.operator), prepare(case)
    with quiet():
        reference = Reference(operator, materials, "forward")
        below, magnitude = reference.magnitude_below, reference.magnitudes[0]
    assert below is not None
    assert isinstance(magnitude, torch.Tensor)
    assert bool((torch.as_tensor(below) <= magnitude * (1.0 + 1e-12)).all())
    assert bool((torch.as_tensor(below) > 0.0).all())
    if isinstance(below, torch.Tensor):
        assert below.shape == magnitude.shape


@pytest.mark.parametrize("name", ["rows", "columns", "kept", "mean", "layers"])
def test_a_healthy_large_call_is_settled_by_the_lower_bound(name: str) -> None:
    """What is recorded bounds the maxima, and faults that leave the budget are measured by S."""
    case = LARGE_CALLS[name]
    operator, materials = operators.get(case.operator), prepare(case)
    with quiet():
        outcome = Cpu().run(operator, materials)
        reference, exact = (Reference(operator, materials, "forward") for _ in range(2))
        vars(exact)["magnitude_below"] = None
        bounded = compare(outcome, reference).outputs[0]
        assert "magnitudes" not in vars(reference)
        measured = compare(outcome, exact).outputs[0]
        assert measured.element_groups[0].scaled_max <= bounded.element_groups[0].scaled_max <= 0.5
        assert measured.sigma_rms <= bounded.sigma_rms <= 1.0
        assert measured.sigma_max <= bounded.sigma_max <= 3.0
        assert (measured.rms, measured.independent, measured.cluster) == (
            bounded.rms,
            bounded.independent,
            bounded.cluster,
        )
        tensor = outcome.outputs[0].tensor
        assert tensor is not None
        wrong = tensor.clone()
        wrong.view(-1)[7] += 40.0 * 2.0**-24 * reference.growth(0) * exact.magnitudes[0].view(-1)[7]
        faulty = replace(outcome, outputs=(replace(outcome.outputs[0], tensor=wrong),))
        assert compare(faulty, reference) == compare(faulty, exact)
        assert "magnitudes" in vars(reference)


def test_special_values_and_small_calls_have_no_lower_bound() -> None:
    special = TensorRecipe(
        (300, 256), "float32", ("uniform", -1.0, 1.0), 1 << 23, (), ((5, "inf"),)
    )
    for recipe in (special, rows(8, 8)):
        case = Case("sum", "float32", (recipe, 1))
        with quiet():
            reference = Reference(operators.get("sum"), prepare(case), "forward")
            assert reference.magnitude_below is None
