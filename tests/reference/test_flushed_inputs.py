"""Subnormal inputs that a backend takes for zero, each by the limit of its own format."""

from __future__ import annotations

import torch

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.reference import Reference


def added(dtype: str, token: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    """A sum beside float32, and the same with subnormal inputs flushed."""
    ones = TensorRecipe((3,), "float32", ("constant", "0"), 90)
    other = TensorRecipe((3,), dtype, ("constant", token), 90)
    reference = Reference(
        operators.get("add"), prepare(Case("add", "float32", (ones, other), {}, 7)), "forward"
    )
    flushed = reference.flushed()
    (output,) = reference.outputs
    assert output.tensor is not None
    return output.tensor, None if flushed is None else flushed[0].tensor


def test_an_operand_of_float16_is_flushed_by_the_limit_of_float16() -> None:
    plain, flushed = added("float16", "subnormal")
    assert plain.tolist() == [2.0**-24] * 3  # a normal number of float32
    assert flushed is not None
    assert flushed.tolist() == [0.0] * 3


def test_normal_numbers_stay() -> None:
    assert added("float16", "tiny")[1] is None
    assert added("float32", "1")[1] is None
    plain, flushed = added("float32", "subnormal")
    assert plain.tolist() == [2.0**-149] * 3
    assert flushed is not None
    assert flushed.tolist() == [0.0] * 3
