"""Gradients that only move cotangents: an element that is one of them has no room for rounding."""

from __future__ import annotations

import pytest
import torch

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import Literal, TensorRecipe
from consistency.generate.materialize import literal, prepare
from consistency.reference import Reference, quiet
from consistency.reference.high_precision import refine


def numbers(*values: float) -> Literal:
    return literal(torch.tensor(values, dtype=torch.float32))


def sizes(name: str, *args: object, **kwargs: object) -> list[list[float]]:
    """S of every gradient."""
    case = Case(name, "float32", tuple(args), kwargs, 12)  # type: ignore[arg-type]
    with quiet():
        found = Reference(operators.get(name), prepare(case), "backward")
        assert found.outcome.ok
        return [torch.as_tensor(s).broadcast_to(o.tensor.shape).tolist()  # type: ignore[union-attr]
                for s, o in zip(found.magnitudes, found.outputs, strict=True)]  # fmt: skip


def test_an_element_that_is_read_once_is_copied_and_one_that_is_read_twice_is_a_sum() -> None:
    positions = literal(torch.tensor([2, 0, 2]))
    ((first, unread, twice),) = sizes("index_select", numbers(1, 2, 3), 0, positions)
    assert first == unread == 0.0 < twice


@pytest.mark.parametrize("name", ["clone", "neg", "flip", "sum", "nn.functional.relu"])
def test_moved_and_negated_cotangents_have_no_room(name: str) -> None:
    args = [[0]] if name == "flip" else []
    for size in sizes(name, numbers(1, 2, 3), *args):
        assert size == [0.0] * 3


def test_what_broadcasts_is_added_up() -> None:
    whole, one = sizes("add", numbers(1, 2, 3), numbers(1))
    assert whole == [0.0] * 3
    assert one[0] > 0.0


def test_a_product_is_rounded() -> None:
    scaled = sizes("add", numbers(1, 2, 3), numbers(1, 2, 3), alpha=0.3)[1]
    assert min(scaled) > 0.0


def test_complex_numbers() -> None:
    x = TensorRecipe((4,), "complex64", ("uniform", -1.0, 1.0), 40)
    case = Case("conj", "complex64", (x,), {}, 12)
    with quiet():
        (size,) = Reference(operators.get("conj"), prepare(case), "backward").magnitudes
    assert torch.as_tensor(size).count_nonzero() == 0


def test_a_literal_cotangent_keeps_its_room() -> None:
    cotangent = numbers(1, 2, 3)
    case = Case("clone", "float32", (numbers(1, 2, 3),), {}, cotangents=(cotangent,))
    with quiet():
        (size,) = Reference(operators.get("clone"), prepare(case), "backward").magnitudes
    assert float(torch.as_tensor(size).min()) > 0.0


def test_no_size_of_a_sum_is_smaller_than_the_sum() -> None:
    """torch writes the gradient of `gather` by a wide expanded index to other places, where the
    cotangent is contiguous: with marks in its place, and with moduli."""
    x = TensorRecipe((5, 33, 5), "float32", ("uniform", 0.0, 1.0), 5303)
    index = TensorRecipe((8, 1, 1), "int64", ("integers", 0, 4), 4460, (("expand", 8, 8, 3),))
    case = Case("gather", "float32", (x, 0, index), {}, 8489, cotangent_layout="transposed")
    with quiet():
        found = Reference(operators.get("gather"), prepare(case), "backward")
        (size,), (right,) = found.magnitudes, found.outputs
    assert right.tensor is not None
    places = prepare(case).build().tensors[1][:, 0, 0]
    summed = [place for place in range(5) if (places == place).sum() > 1]
    assert summed
    assert (torch.as_tensor(size) >= right.tensor.abs())[summed].all()


def test_whole_numbers_of_which_sizes_decide_the_dtype() -> None:
    """Where `einsum` adds with sum it returns int64, in which nothing wraps that does in int32."""
    one = literal(torch.ones(1, 1, 1, dtype=torch.int32))
    many = literal(torch.full((4, 3, 5), 1 << 28, dtype=torch.int32))
    case = Case("einsum", "int32", ("bij,bjk->ik", one, many), {}, 0)
    with quiet():
        found = Reference(operators.get("einsum"), prepare(case), "forward")
        refine(found)
    assert found.outputs[0].tensor is not None
    assert found.outputs[0].tensor.unique().tolist() == [12 << 28]
