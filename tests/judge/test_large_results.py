"""Large results whose S is not computed, because their ulp settles the matter."""

from __future__ import annotations

from dataclasses import replace

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
