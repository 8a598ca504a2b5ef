"""What sums nothing, or sums out of the reach of probes, is explained by the errors of both sides;
formulas may hold indices and the texts of options."""

from __future__ import annotations

import math

import pytest
import torch

from consistency.errors import UsageError
from consistency.probes.explain.accuracy import two_algorithms
from consistency.probes.sweep.expressions import compiled
from tests.support.commands import command

NAMES = ("one", "other")


def test_errors_in_ulp_and_the_inputs_where_they_differ() -> None:
    x = torch.linspace(-60.0, 60.0, 2001)
    right = x.double().exp()
    found = two_algorithms(
        (right.float(), torch.exp2(x * 1.4426950408889634)), right, "float32", {"x": x}, NAMES
    )
    assert found is not None
    good, bad = found.sides
    assert good.largest <= 0.5
    assert good.rounded == 1.0
    assert bad.largest > 10.0
    assert bad.rounded < 0.5
    first, worst, growth = found.lines(NAMES)
    assert first.startswith("Two algorithms: one errs by at most 0.5 ulp (RMS 0.2")
    assert "x = " in worst
    assert "other errs more for large x" in growth


def test_errors_that_do_not_depend_on_the_size_are_not_said_to() -> None:
    x = torch.linspace(1.0, 2.0, 500)
    right = x.double().sqrt()
    both = (right.float(), right.float() * (1.0 + 2.0**-22))
    found = two_algorithms(both, right, "float32", {"x": x}, NAMES)
    assert found is not None
    assert len(list(found.lines(NAMES))) == 2


def test_what_cannot_be_measured_in_ulp_is_left_out() -> None:
    numbers = torch.arange(8)
    assert two_algorithms((numbers, numbers), numbers, "int64", {}, NAMES) is None
    lost = torch.full((8,), math.nan)
    assert two_algorithms((lost, lost), lost.double(), "float32", {}, NAMES) is None


@pytest.mark.parametrize(
    ("operator", "formula", "words"),
    [
        ("exp", "exp2(x * 1.4426950408889634)", "exp2(x * 1.4426950408889634) rounds twice"),
        ("softmax", "exp(x) / exp(x).sum(-1, True)", "softmax rounds once on its way (_softmax)"),
        ("gelu", "F.gelu(x, approximate='tanh')", "errs more for large x"),
    ],
)
def test_the_command_tells_two_algorithms_apart(operator: str, formula: str, words: str) -> None:
    found = command("explain {} {}", operator, formula)
    assert "Two algorithms: " in found.output, found.output
    assert " ulp (RMS " in found.output
    assert words in found.output
    assert "inconclusive" not in found.output


def test_einsum_in_a_formula_is_explained_to_the_bit() -> None:
    found = command("explain matmul {} --shape 8,64,8", "einsum('ij,jk->ik', a, b)")
    assert found.exit_code == 0, found.output
    assert "64 of 64 outputs replayed bit for bit" in found.output


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("x[0]", lambda x: x[0]),
        ("x[:, 1:3]", lambda x: x[:, 1:3]),
        ("x[..., -1]", lambda x: x[..., -1]),
        ("x[:, None, ::2]", lambda x: x[:, None, ::2]),
        ("x[:, :N / 2].sum(-1)", lambda x: x[:, :2].sum(-1)),
        ("x[:, N - 1]", lambda x: x[:, 4]),
        ("div(x, 2.0, rounding_mode='floor')", lambda x: torch.div(x, 2.0, rounding_mode="floor")),
        ("einsum('ij->i', x)", lambda x: torch.einsum("ij->i", x)),
    ],
)
def test_formulas_with_indices_and_texts(formula: str, expected: object) -> None:
    x = torch.arange(15.0).reshape(3, 5)
    found = compiled(formula, ["x", "N"])({"x": x, "N": 5})
    assert torch.equal(found, expected(x))  # type: ignore[operator]


@pytest.mark.parametrize(
    "formula",
    [
        "'text'", "x['key']", "torch.from_file('/etc/passwd')", "torch.load('x')", "x[[0, 1]]",
        "torch.from_file(filename='/etc/passwd', size=3)", "x.view('int8')", "x[0.5 * x]",
    ],
)  # fmt: skip
def test_other_texts_are_refused(formula: str) -> None:
    with pytest.raises((UsageError, IndexError, TypeError)):
        compiled(formula, ["x"])({"x": torch.ones(2, 2)})
