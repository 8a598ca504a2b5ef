"""Batches in the place of inputs are one line with a remedy, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import consistency
from consistency.cli.main import main
from consistency.errors import UsageError
from consistency.training.training_task import subject_of


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 3))


def x(*shape: int) -> torch.Tensor:
    return torch.ones(shape)


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: (net(), [(x(2, 4),), (x(2, 4),)]), "its inputs are 2 batches, but Sequential.forward"),
    (
        lambda: (net(), [x(2, 4)] * 3),
        r"3 batches.* takes \(input\); give one batch to a step: .*=\[",
    ),
    (
        lambda: consistency.Subject(net(), batches=[(x(2, 4), x(2, 3))] * 2),
        "its first batch has 2 inputs, .* inputs and targets as a pair of tuples",
    ),
    (
        lambda: consistency.Subject(net(), batches=[((x(2, 4), x(2, 4)), (x(2, 3),))]),
        "its first batch has 2 inputs, .* give each as a tuple of inputs",
    ),
    (
        lambda: (nn.Bilinear(2, 3, 4), x(5, 2)),
        r"it has 1 input, but Bilinear.forward takes \(input1, input2\); .*as a tuple",
    ),
    (lambda: (lambda a, b: a + b, [x(2)] * 3), r"3 batches, but the model takes \(a, b\)"),
]


@pytest.mark.parametrize(("factory", "words"), REFUSED)
def test_what_a_model_does_not_take_is_one_line(factory: Callable[[], Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        subject_of(factory(), "what factory returned")
    assert "\n" not in str(error.value)


class Several(nn.Module):
    def forward(self, *images: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return torch.stack(images).sum() * scale


class OfList(nn.Module):
    def forward(self, images: list[torch.Tensor], masks: Any = None) -> torch.Tensor:
        return torch.stack(images).sum()


TAKEN: list[Callable[[], Any]] = [
    lambda: (net(), x(2, 4)),
    lambda: (net(), (x(2, 4),)),
    lambda: (Several(), [x(2, 4)] * 5),
    lambda: (OfList(), ([x(2), x(2)],)),
    lambda: (OfList(), [[x(2), x(2)], [x(2), x(2)]]),
    lambda: (nn.Bilinear(2, 3, 4), [x(5, 2), x(5, 3)]),
    lambda: (torch.jit.trace(net(), x(2, 4)), x(2, 4)),
    lambda: (torch.sin, x(3)),
    lambda: consistency.Subject(net(), batches=[x(2, 4)] * 2),
    lambda: consistency.Subject(net(), batches=[((x(2, 4),), (x(2, 3),))] * 2),
    lambda: consistency.Subject(net(), batches=torch.utils.data.DataLoader(x(6, 4))),
    lambda: consistency.Subject(nn.Bilinear(2, 3, 4), batches=[(x(5, 2), x(5, 3))]),
]


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")  # 2.15
@pytest.mark.parametrize("factory", TAKEN)
def test_what_a_model_takes_is_left_alone(factory: Callable[[], Any]) -> None:
    assert subject_of(factory(), "what factory returned").model is not None


def test_the_command_ends_with_status_2(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "def make():\n"
        "    return torch.nn.Linear(4, 3), [(torch.ones(2, 4),), (torch.ones(2, 4),)]\n",
        encoding="utf-8",
    )
    result = CliRunner().invoke(main, ["model", f"{path}:make", "--backend", "cpu"])
    told = str(result.exception) + result.output
    assert result.exit_code == 2, told
    assert "its inputs are 2 batches, but Linear.forward takes (input)" in told
