"""Operators on the command line: names that people use, their arguments in the help, formulas."""

from __future__ import annotations

import pytest

from tests.support.commands import command


def test_help_shows_the_arguments_of_operators_that_are_named() -> None:
    text = command("sweep F.linear --help").output
    assert "nn.functional.linear(input, weight, bias=None)" in " ".join(text.split())
    assert "input (or x), weight (or W), bias (or b); sizes: N=32" in " ".join(text.split())
    text = command("run torch.clip aten::addmm --dtype float32 --help").output
    assert "clamp(input, min=None, max=None, *, out=None)" in " ".join(text.split())
    assert "addmm(input, mat1, mat2" in " ".join(text.split())
    assert "Operators:" not in command("run --help").output


def test_a_single_operator_is_listed_with_its_arguments() -> None:
    assert "  softmax(input, dim, *, dtype=None)\n" in command("operators torch.softmax").output
    assert "softmax(input" not in command("operators --family softmax").output


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("explain sort x.exp()", "sort takes none of the arguments"),
        ("explain torch.sort cpu", "cpu is a backend, not a formula"),
        ("explain exp cpu", "cpu is a backend, not a formula"),
        ("explain softmax", "give a formula to compare it with: consistency explain softmax 'F"),
        ("explain numpy", "a second backend, bundle or file: consistency explain numpy cpu"),
        ("explain", "missing argument 'A'"),
    ],
)
def test_explain_says_what_it_knows(line: str, words: str) -> None:
    found = command(line)
    assert found.exit_code == 2
    assert words in found.output
    assert len(found.output.splitlines()) == 1


def test_a_formula_has_torch_s_names_of_the_arguments() -> None:
    found = command("explain nn.functional.linear {} --shape 4,16,4", "input @ weight.T + bias")
    assert found.exit_code == 0
    assert "the same bits" in found.output or "fully explained" in found.output.lower()
    wrong = command("explain linear {}", "imput @ weight.T")
    assert wrong.exit_code == 2
    assert "what is 'imput'?" in wrong.output
