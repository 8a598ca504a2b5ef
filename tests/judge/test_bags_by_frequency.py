"""Gradients of bags that are divided by how often a row comes: torch's CPU, whose division is by
another row's count, is known; what does not divide is not excused by that, and what is right is not
accused."""

from __future__ import annotations

import pytest
import torch

from consistency.core.model import Case, Result
from tests.judge.test_healthy_results import judged
from tests.real_bugs.eighth_list_sizes import frequency_ignored, own_frequencies
from tests.real_bugs.model import Reported
from tests.real_bugs.triggers import _argument

INDICES = torch.tensor([[0, 0, 1], [0, 2, 2], [3, 1, 1]])
LINE, ENDS = torch.tensor([0, 0, 1, 0, 2, 2]), torch.tensor([0, 2, 5])
TABLE = torch.tensor([[0.5, -1.5], [2.25, 0.75], [1.0, -3.0], [0.125, 4.0]])


def results(last: bool, **options: object) -> dict[str, Result]:
    kwargs = {"mode": "sum", "scale_grad_by_freq": True} | options
    if last:
        kwargs |= {"include_last_offset": True, "offsets": _argument(ENDS)}
    case = Case(
        "nn.functional.embedding_bag", "float32",
        (_argument(LINE if last else INDICES), _argument(TABLE)), kwargs, (1 << 20) + 97,
    )  # fmt: skip
    backends = ("cpu", Reported("ignores", frequency_ignored), Reported("divides", own_frequencies))
    return {r.backend: r for r in judged(case, *backends, directions=("backward",))}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_what_does_not_divide_is_not_excused(mode: str, last: bool) -> None:
    made = results(last, mode=mode)
    assert made["ignores"].verdict.fails, made["ignores"]
    assert made["cpu"].verdict.value == "known"
    assert not made["divides"].verdict.fails, made["divides"]
    assert made["divides"].verdict.value != "inconclusive"


def test_the_values_are_proved() -> None:
    """Also where a padding row is skipped."""
    made = results(False, padding_idx=1)
    assert "proved" in made["ignores"].explanation
