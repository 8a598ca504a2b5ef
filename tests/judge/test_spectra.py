"""Gradients by singular values, and sums of eigenvalues: S bounds what a backward error does."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
import torch

import consistency
from consistency.backends import resolve
from consistency.core.model import Case, Result
from consistency.diagnose.evaluation import evaluate
from consistency.generate.search import batch
from consistency.judge.tolerances import load
from consistency.operators import get
from consistency.operators.decompositions import of_power_sums
from consistency.operators.singular_vectors import (
    of_condition,
    of_matrix_norm,
    of_singular_vectors,
)

rules = functools.cache(load)


def judged(case: Case, *backends: Any, direction: str = "backward") -> list[Result]:
    return list(evaluate(case, [resolve(b) for b in backends], rules(), directions=(direction,)))


def gradient(function: Any, x: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    value = function(x)
    weights = torch.linspace(-1.0, 1.0, value.numel(), dtype=torch.float64).reshape(value.shape)
    against = weights if value.ndim else torch.ones((), dtype=torch.float64)
    return torch.autograd.grad(value, x, against)[0]


FUNCTIONS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "svdvals": (torch.linalg.svdvals, of_singular_vectors, ()),
    "cond": (torch.linalg.cond, of_condition, ()),
    "cond of -2": (lambda x: torch.linalg.cond(x, -2), of_condition, (-2,)),
    "spectral": (lambda x: torch.linalg.matrix_norm(x, 2), of_matrix_norm, (2,)),
    "least": (lambda x: torch.linalg.matrix_norm(x, -2), of_matrix_norm, (-2,)),
    "nuclear": (lambda x: torch.linalg.matrix_norm(x, "nuc"), of_matrix_norm, ("nuc",)),
    "turned": (
        lambda x: torch.linalg.matrix_norm(x, "nuc", (1, 0)), of_matrix_norm, ("nuc", (1, 0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("kind", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (3, 7), (9, 4)])
def test_no_perturbation_moves_a_gradient_by_more(
    name: str, kind: torch.dtype, shape: tuple[int, int]
) -> None:
    """In the direction of every pair of singular vectors, which is where gradients turn most."""
    function, magnitude, rest = FUNCTIONS[name]
    if name.startswith("cond") and shape == (1, 1):
        return
    generator = torch.Generator().manual_seed(shape[0])
    x = torch.randn(shape, generator=generator, dtype=kind)
    before = gradient(function, x)
    (size,) = {float(s) for s in magnitude((x, *rest), {}, (before,)).flatten()}
    root = max(shape) ** 0.5
    u, values, vh = torch.linalg.svd(x)
    step = 2.0**-28 * float(values[0])
    for i in range(shape[0]):
        for j in range(shape[1]):
            for phase in (1.0, 1j) if kind.is_complex else (1.0,):
                moved = gradient(function, x + step * phase * torch.outer(u[:, i], vh[j]))
                largest = float((moved - before).abs().max()) / 2.0**-28
                assert largest <= 1.5 * size / root


def test_the_bound_is_reached() -> None:
    """Of two singular values close to each other a perturbation turns the vectors."""
    x = torch.diag(torch.tensor([1.0, 0.999, 0.5], dtype=torch.float64))
    before = gradient(torch.linalg.svdvals, x)
    (size,) = {float(s) for s in of_singular_vectors((x,), {}, (before,)).flatten()}
    other = x.clone()
    other[0, 1] = other[1, 0] = 1e-8
    moved = gradient(torch.linalg.svdvals, other)
    assert float((moved - before).abs().max()) / 1e-8 > 0.5 * size / 3**0.5


def test_other_norms_have_no_closed_form() -> None:
    x = torch.ones(2, 2, dtype=torch.float64)
    assert of_matrix_norm((x,), {}, (x,)) == "normwise"
    assert of_matrix_norm((x, 1), {}, (x,)) == "normwise"


class Off(consistency.TorchBackend):
    """Gradients with an error of 2^-14 of the largest element, or results with that of the norm."""

    name = "off"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        x = args[0]
        if x.requires_grad:
            noise = 1e-4 * (torch.arange(x.numel()).reshape(x.shape) % 3 - 1.0)
            x.register_hook(lambda gradient: gradient + noise * gradient.abs().max())
        result = operator(*args, **kwargs)
        return result if x.requires_grad else result + 2.0**-12 * torch.linalg.matrix_norm(x)


MATRIX = {"base": [8, 8], "dtype": "float32", "values": ["uniform", -1.0, 1.0]}
DOMINANT = MATRIX | {"values": ["diagonal", 8, 9.0]}


def matrix(operator: str, stop: int, *rest: Any) -> Case:
    made = {"operator": operator, "dtype": "float32", "cotangent": 9, "kwargs": {}}
    recipe = {"tensor": DOMINANT | {"stop": stop}}
    return Case.from_line(json.dumps(made | {"args": [recipe, *rest]}))


@pytest.mark.parametrize(("operator", "rest"), [("linalg.cond", ()), ("linalg.matrix_norm", (2,))])
def test_a_thousand_roundings_are_noticed(operator: str, rest: tuple[Any, ...]) -> None:
    found = []
    for stop in range(100, 1300, 100):
        (healthy,) = judged(matrix(operator, stop, *rest), "cpu")
        assert not healthy.verdict.fails, healthy.explanation
        (wrong,) = judged(matrix(operator, stop, *rest), Off())
        found.append(wrong.verdict.fails)
    assert sum(found) >= 8


@pytest.mark.parametrize("name", ["linalg.svdvals", "linalg.cond", "linalg.matrix_norm"])
def test_healthy_gradients(name: str) -> None:
    for case in batch(get(name), "float32", 24, seed=17):
        for result in judged(case, "cpu"):
            assert not result.verdict.fails, result.explanation


def test_the_signs_of_a_diagonal_do_not_cancel_in_the_trace() -> None:
    """4 and 8 perturbations of one size and of alternating signs have a trace of 0."""
    for stop, base in ((72, [8, 8]), (4550, [1, 8, 8]), (200, [4, 4])):
        tensor = MATRIX | {"base": base, "stop": stop}
        case = Case.from_line(
            json.dumps(
                {"operator": "linalg.eigvals", "dtype": "float32", "cotangent": 0, "kwargs": {}}
                | {"args": [{"tensor": tensor}]}
            )
        )
        for result in judged(case, "cpu", "numpy", direction="forward"):
            assert not result.verdict.fails, result.explanation
        (wrong,) = judged(case, Off(), direction="forward")
        assert wrong.verdict.fails, wrong.explanation


def test_no_perturbation_moves_a_sum_of_eigenvalues_by_more() -> None:
    x = torch.randn(5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    sizes = of_power_sums((x,), {}, ())
    norm = float(torch.linalg.matrix_norm(x))
    for power, size in zip((1, 2, 3), sizes, strict=True):
        worst = torch.linalg.matrix_power(x, power - 1).mT  # the steepest direction
        other = x + 1e-8 * norm * worst / torch.linalg.matrix_norm(worst)
        before, after = ((torch.linalg.eigvals(m) ** power).sum().real for m in (x, other))
        assert 0.3 * float(size[0]) < float((after - before).abs()) / 1e-8 <= float(size[0])
