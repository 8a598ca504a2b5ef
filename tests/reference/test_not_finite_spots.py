"""Spot checks of float64: a NaN that finite inputs do not explain is among the elements that are
proved, wherever it is; one that follows from NaN among the inputs need not be."""

from __future__ import annotations

import torch

from consistency import operators
from consistency.core.model import Case, Output
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.reference import Reference, high_precision

COUNT, PLACE = 1000, 613


def reference(**more: object) -> Reference:
    tensor = TensorRecipe((COUNT,), "float64", ("uniform", 0.5, 2.0), 3000, **more)  # type: ignore[arg-type]
    return Reference(operators.get("log"), prepare(Case("log", "float64", (tensor,))), "forward")


def with_nan(found: Reference) -> Reference:
    (output,) = found.outputs
    assert output.tensor is not None
    numbers = output.tensor.clone()
    numbers[PLACE] = torch.nan
    found.outputs = (Output(output.name, numbers, output.dtype),)
    return found


def test_a_nan_of_finite_inputs_is_proved_wrong() -> None:
    found = with_nan(reference())
    high_precision._prove(found, high_precision.SPOTS)
    assert (0, PLACE) in found.proofs.wrong
    assert found.outputs[0].tensor is not None
    assert found.outputs[0].tensor[PLACE].isfinite()


def test_what_is_finite_is_proved_at_a_few_places() -> None:
    found = reference()
    high_precision._prove(found, high_precision.SPOTS)
    assert not found.proofs.wrong
    assert found.proofs.count(0) == high_precision.SPOTS


def test_nan_that_is_given_is_no_reason() -> None:
    found = with_nan(reference(special=((PLACE, "nan"),)))
    high_precision._prove(found, high_precision.SPOTS)
    assert not found.proofs.wrong
