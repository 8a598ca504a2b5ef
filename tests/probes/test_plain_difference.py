"""A difference that is one of the arguments, a number or a factor is said so; rounding is not."""

from __future__ import annotations

import torch

from consistency.probes.explain.plain_difference import plain_difference
from tests.support.commands import command

NAMES = ("one", "x @ W")


def told(one: torch.Tensor, other: torch.Tensor, **arguments: torch.Tensor) -> str:
    return plain_difference(one, other, NAMES, arguments)


def test_the_argument_that_is_left_out_is_named() -> None:
    x, b, full = torch.randn(16, 8), torch.randn(8), torch.randn(16, 8)
    assert told(x + b, x, W=torch.randn(8, 8), b=b) == "one is x @ W plus b in every row"
    assert told(x, x + b, b=b) == "x @ W is one plus b in every row"
    assert told(x + full, x, c=full) == "one is x @ W plus c"


def test_a_number_or_a_factor() -> None:
    x = torch.randn(16, 8, dtype=torch.float64)
    assert told(x + 0.5, x) == "one is (x @ W) + 0.5 in every element"
    assert told(x - 0.5, x) == "one is (x @ W) - 0.5 in every element"
    assert told(2 * x, x) == "one is 2 × (x @ W) in every element"


def test_rounding_and_other_differences_are_none() -> None:
    x, b = torch.randn(16, 8), torch.randn(8)
    assert told(x, x, b=b) == ""
    assert told(x * (1 + 2e-7), x, b=b) == ""
    assert told(x + b, x, b=torch.zeros(8)) == ""
    assert told(x + b * torch.rand(16, 1), x, b=b) == ""
    assert told(x[:1, :2] + 1, x[:1, :2]) == "", "two elements agree by chance"
    assert told(x / 0, x, b=b) == ""


def test_the_command_says_it_in_place_of_orders() -> None:
    found = command("explain linear {} --shape 16,64,8", "x @ W.T")
    assert found.exit_code == 1
    assert "The difference is no rounding: F.linear is x @ W.T plus b in every row." in found.output
    assert "replayed" not in found.output
    assert "inconclusive" not in found.output
