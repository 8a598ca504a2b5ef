"""torch factors the matrices of a batch in several threads at once, which MKL does not allow
(pytorch#142815): results are wrong, or none comes. Reference and CPU compute them in one thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from consistency import operators
from consistency.backends.batched_factors import needs_one_thread
from consistency.backends.cpu import Cpu
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


@pytest.mark.usefixtures("two_threads")
def test_the_cpu_of_this_process_comes_back() -> None:
    batch = TensorRecipe((3, 257, 257), "float32", ("diagonal", 257, 6.0), 397_451)
    operator, materials = (
        operators.get("linalg.lu_factor"),
        prepare(Case("linalg.lu_factor", "float32", (batch,))),
    )
    outcome = Cpu().run(operator, materials, "forward")
    assert torch.get_num_threads() == 2
    factors, pivots = (output.tensor for output in outcome.outputs[:2])
    assert factors is not None
    assert pivots is not None
    (matrices,) = (m.double() for m in materials.build("float32").tensors)
    left, lower, upper = torch.lu_unpack(factors.double(), pivots)
    # Higham, Accuracy and Stability, theorem 9.3: |A - PLU| <= n u P |L| |U|.
    off = (matrices - left @ lower @ upper).abs()
    assert bool((off <= 257 * 2.0**-24 * (left @ lower.abs() @ upper.abs())).all())


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("linalg.det", (3, 151, 151), True),
        ("linalg.det", (3, 150, 150), False),
        ("linalg.det", (151, 151), False),
        ("matmul", (3, 257, 257), False),
    ],
)
def test_which_calls_need_one_thread(name: str, shape: tuple[int, ...], expected: bool) -> None:
    tensor = TensorRecipe(shape, "float32", ("uniform", -1.0, 1.0))
    arguments = prepare(Case(name, "float32", (tensor, tensor)[: 1 + (name == "matmul")]))
    assert needs_one_thread(operators.get(name), arguments.build("float32")) is expected
