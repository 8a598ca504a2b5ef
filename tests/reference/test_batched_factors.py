"""torch factors the matrices of a batch in several threads at once, which MKL does not allow
(pytorch#142815): the reference computes them in one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.reference.float64 import Reference


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("name", ["linalg.inv", "linalg.slogdet"])
def test_the_reference_of_a_batch_is_that_of_its_matrices(name: str) -> None:
    batch = TensorRecipe((3, 257, 257), "float32", ("diagonal", 257, 9.0), 400_000)
    case = Case(name, "float32", (batch,))
    operator, materials = operators.get(name), prepare(case)
    found = Reference(operator, materials, "forward").outcome.outputs[-1].tensor
    (matrices,) = materials.build("float64").tensors
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    alone = [operator(matrix) for matrix in matrices]
    last = [one if isinstance(one, torch.Tensor) else one[-1] for one in alone]
    torch.testing.assert_close(found, torch.stack(last), rtol=1e-9, atol=1e-12)
