"""Definitions from torch's documentation, where torch's CPU gives something else; what they say is
judged: the CPU is known, what is right is not accused, and other faults fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from consistency.core.model import Case, Result
from consistency.operators import documented as d
from tests.judge.test_healthy_results import judged
from tests.real_bugs.model import Reported
from tests.real_bugs.still_in_torch_later import LATER
from tests.real_bugs.triggers import _argument
from tests.support.catalog.model import Call

NAN = math.nan
NUMBERS = torch.tensor([1.0, 2.0, 3.0, 3.0, 4.0, 7.0, 7.0, NAN, -math.inf])


def test_histograms_between_equal_bounds() -> None:
    assert d.histc(NUMBERS, 5, 7.0, 7.0).tolist() == [0.0, 0.0, 2.0, 0.0, 0.0]
    assert d.histc(NUMBERS, 4, 3, max=3).tolist() == [0.0, 0.0, 2.0, 0.0]
    assert d.histc(NUMBERS, 4, 5.0, 5.0).tolist() == [0.0] * 4
    same = torch.full((6,), 7.0)
    for bins in range(1, 9):
        assert torch.equal(d.histc(same, bins, 7.0, 7.0), torch.histc(same, bins))
        assert (
            d.histc(same, bins, 7.0, 7.0).tolist() == np.histogram(same, bins, (7, 7))[0].tolist()
        )


@pytest.mark.parametrize("weights", [{"fweights": torch.tensor([3])}, {"aweights": torch.ones(1)}])
def test_the_covariance_of_a_weighted_observation(weights: dict[str, torch.Tensor]) -> None:
    """Torch overwrites the input, and its NaN is lost (docs/findings.md)."""
    x = torch.tensor([[1.0], [2.0], [NAN]])
    found = d.cov(x, correction=0, **weights)
    assert torch.equal(found[:2, :2], torch.zeros(2, 2))
    assert found[2].isnan().all()
    assert found[:, 2].isnan().all()
    assert x[:2].flatten().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("columns", [2, 5])
def test_other_covariances_are_torchs_and_numpys(columns: int) -> None:
    x = torch.linspace(-1.0, 2.0, 3 * columns, dtype=torch.float64).reshape(3, columns) ** 2
    counts, weights = torch.arange(1, columns + 1), torch.linspace(0.5, 2.0, columns).double()
    found = d.cov(x, correction=0, fweights=counts, aweights=weights)
    assert torch.equal(found, torch.cov(x, correction=0, fweights=counts, aweights=weights))
    expected = np.cov(x, ddof=0, fweights=counts.numpy(), aweights=weights.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    parts, divisor = d.observations(x, 0, counts, weights)
    apart = x - (x * parts).sum(-1, keepdim=True) / parts.sum()
    np.testing.assert_allclose((apart * parts) @ apart.T / divisor, expected, rtol=1e-12)


@pytest.mark.parametrize("bounds", [(0, 0), (0.0, 8.0), (0.1, 0.1)])
def test_other_histograms_are_torchs(bounds: tuple[float, float]) -> None:
    """Also between bounds that a format rounds."""
    x = torch.tensor([0.1, 1.0, 2.0, 8.0])
    assert torch.equal(d.histc(x, 9, *bounds), torch.histc(x, 9, *bounds))


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((0, 9.86, 1.3), [0, 1, 2, 3, 4, 5, 6, 7]),
        ((5, 0.5, -2), [5, 3, 1]),
        ((3.5,), [0, 1, 2, 3]),
        ((0.5, 4.5), [0, 1, 2, 3]),
        ((2, 9, 3), [2, 5, 8]),
        ((4, 4.0), []),
    ],
)
def test_ranges_of_whole_numbers(numbers: tuple[float, ...], expected: list[int]) -> None:
    for dtype in (torch.int64, torch.int32, torch.int8):
        made = d.arange(*numbers, dtype=dtype)
        assert made.tolist() == expected
        assert made.dtype == dtype
    assert torch.equal(d.arange(*numbers), torch.arange(*numbers))


def test_ranges_that_torch_refuses() -> None:
    with pytest.raises((RuntimeError, ValueError), match="nonzero"):
        d.arange(0, 1, 0.3, dtype=torch.int64)


def test_lengths_that_are_a_matter_of_rounding_are_torchs() -> None:
    """46 / 2.3 is 20 if it is rounded, and a little more if it is not."""
    given = (0, 46.0, 2.3)
    assert torch.equal(d.arange(*given, dtype=torch.int64), torch.arange(*given, dtype=torch.int64))


def test_numbers_beside_nan_are_sorted_and_there_once() -> None:
    x = torch.tensor([0.0, NAN, 2.0, NAN, 2.0, 1.0, 0.0])
    for dim in (0, -1):
        values, inverse, counts = d.unique(x, True, True, True, dim)
        torch.testing.assert_close(values, torch.unique(x), equal_nan=True)
        torch.testing.assert_close(values[inverse], x, equal_nan=True)
        assert counts.tolist() == [2, 1, 2, 1, 1]
    rows = torch.tensor([[3.0, 1.0], [NAN, 0.0], [1.0, 5.0], [3.0, 1.0], [1.0, NAN]])
    for given, dim in ((rows, 0), (rows.T, 1)):
        values, inverse = d.unique(given, return_inverse=True, dim=dim)
        made = values.movedim(dim, 0)
        assert made[:2].tolist() == [[1.0, 5.0], [3.0, 1.0]]
        torch.testing.assert_close(made[inverse], rows, equal_nan=True)
        assert len(made) == 4
    assert d.unique(torch.tensor([[NAN], [NAN]]), dim=0).shape == (2, 1)


@pytest.mark.parametrize("x", [torch.tensor([3, 1, 3]), torch.tensor([[2.0, 1.0], [0.0, NAN]])])
def test_other_distinct_numbers_are_torchs(x: Tensor) -> None:
    dim = None if x.is_floating_point() else 0
    torch.testing.assert_close(d.unique(x, dim=dim), torch.unique(x, dim=dim), equal_nan=True)


HEALTHY: dict[int, Callable[[Call], Any]] = {
    126021: lambda call: d.histc(*call.args, **call.kwargs),
    95934: lambda call: d.arange(*call.args, **call.kwargs),
    95583: lambda call: d.unique(*call.args, **call.kwargs),
}
FAULTY: dict[int, Callable[[Call], Any]] = {
    126021: lambda call: torch.histc(call.args[0], call.args[1]),  # over all numbers
    95934: lambda call: d.arange(*call.args, **call.kwargs)[:-1],
    95583: lambda call: torch.unique(call.args[0].nan_to_num(), **call.kwargs),
}


@pytest.mark.parametrize("number", sorted(HEALTHY))
def test_reports_of_torch(number: int) -> None:
    (row,) = [row for row in LATER if row.issue == number]
    name, dtype, args, kwargs = row.input()
    options = {key: _argument(value) for key, value in kwargs.items()}
    case = Case(name, dtype, tuple(map(_argument, args)), options)
    backends = ("cpu", Reported("right", HEALTHY[number]), Reported("wrong", FAULTY[number]))
    made: dict[str, Result] = {r.backend: r for r in judged(case, *backends)}
    assert made["cpu"].verdict.value == "known"
    assert not made["right"].verdict.fails, made["right"]
    wrong = made["wrong"]  # what torch's own CPU gives is known of whoever gives the same
    assert wrong.verdict.fails or wrong.explanation.startswith("known (as torch's CPU"), wrong
