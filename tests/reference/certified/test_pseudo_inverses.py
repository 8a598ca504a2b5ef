"""Pseudo-inverses of every rank: enclosures of all elements hold Moore's and Penrose's conditions;
gradients hold those of float64 where the rank stays. And gradients that are certainly 0."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from consistency.reference.certified import balls

from .enclosing import enclosed, enclosed_gradients

L = torch.linalg


def pinv(a: torch.Tensor) -> torch.Tensor:
    return L.pinv(a, rtol=1e-4)


def of_rank(rank: int, rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """A product of small whole numbers."""
    generator = torch.Generator().manual_seed(100 * rank + 10 * rows + columns)

    def whole(*shape: int) -> torch.Tensor:
        real = torch.randint(-3, 4, shape, generator=generator).to(torch.float64)
        if not dtype.is_complex:
            return real
        imaginary = torch.randint(-3, 4, shape, generator=generator).to(torch.float64)
        return torch.complex(real, imaginary)

    product = whole(rows, rank) @ whole(rank, columns)
    assert int(L.matrix_rank(product)) == rank
    return product


def middle(parts: list[Any], shape: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    """The midpoints of narrow enclosures."""
    assert all(float(x.rad()) < 1e-15 for part in parts for x in part)
    numbers = [[float(x.mid()) for x in part] for part in parts]
    tensors = [torch.tensor(part, dtype=torch.float64).reshape(shape) for part in numbers]
    return torch.complex(*tensors) if dtype.is_complex else tensors[0]


SIZES = [(0, 3, 2), (1, 4, 3), (1, 2, 5), (2, 4, 4), (2, 3, 5), (3, 6, 4), (3, 3, 3), (2, 2, 4)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("size", SIZES)
def test_penrose(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    rank, rows, columns = size
    a = of_rank(rank, rows, columns, dtype)
    inverted = middle(enclosed(pinv, a), (columns, rows), dtype)
    for matrix, other in (
        (a @ inverted @ a, a),
        (inverted @ a @ inverted, inverted),
        ((a @ inverted).mH, a @ inverted),
        ((inverted @ a).mH, inverted @ a),
    ):
        assert torch.allclose(matrix, other, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("size", SIZES)
def test_gradients(size: tuple[int, int, int], dtype: torch.dtype) -> None:
    rank, rows, columns = size
    a = of_rank(rank, rows, columns, dtype).requires_grad_(True)
    against = torch.arange(1.0, rows * columns + 1, dtype=torch.float64)
    against = (0.25 * against).to(dtype).reshape(columns, rows)
    if dtype.is_complex:
        against = against * (1 - 0.5j)
    parts = enclosed_gradients(pinv, [against], a.detach())
    (expected,) = torch.autograd.grad(pinv(a), a, against)
    found = middle(parts, (rows, columns), dtype)
    assert torch.allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_a_singular_value_near_the_tolerance_is_unsure() -> None:
    a = of_rank(1, 3, 3, torch.float64)
    with pytest.raises(balls.Unsure, match="near the tolerance"):
        enclosed(lambda x: L.pinv(x, atol=1e6, rtol=1e-4), a)


def test_a_tolerance_below_rounding_leaves_what_is_no_zero() -> None:
    a = of_rank(1, 3, 3, torch.float64)
    with pytest.raises(balls.Unsure, match="what rounding leaves"):
        enclosed(lambda x: torch.pinverse(x, rcond=1e-15), a)


def test_what_a_least_squares_driver_does_without_full_rank_is_unsure() -> None:
    a = of_rank(2, 4, 3, torch.float64)
    with pytest.raises(balls.Unsure, match="depends on the driver"):
        enclosed(lambda x: L.lstsq(x, x[:, :1])[0], a)


def test_no_alignment_no_gradient() -> None:
    """Of two sequences the first needs more frames than it has: a label twice, and a blank."""
    scores = torch.full((3, 2, 3), -1.25, dtype=torch.float64)
    targets = torch.tensor([[1, 1], [1, 2]])
    frames, counts = torch.tensor([2, 3]), torch.tensor([2, 2])

    def loss(x: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(x, targets, frames, counts, reduction="sum", zero_infinity=True)

    x = scores.clone().requires_grad_(True)
    (expected,) = torch.autograd.grad(loss(x), x)
    assert not expected[:, 0].any()
    assert expected[:, 1].any()
    one = torch.ones((), dtype=torch.float64)
    with pytest.raises(balls.Unsure, match="before a softmax"):
        enclosed_gradients(loss, [one], scores)

    def alone(x: torch.Tensor) -> torch.Tensor:
        return F.ctc_loss(
            x, targets[0], frames[:1], counts[:1], reduction="sum", zero_infinity=True
        )

    (gradient,) = enclosed_gradients(alone, [one], scores[:, 0].contiguous())
    assert [float(element) for element in gradient] == [0.0] * 9
