"""Batch normalization is two programs: training normalizes with the batch's own mean and variance
and writes a running average of them down; evaluation reads the average. A device that gets one of
the two wrong trains well and then fails.

``subject`` is right. ``eval_forgotten`` asks for predictions of a model that still trains: each
answer depends on who else is in the batch, and asking changes the model. ``stale_statistics``
trains with statistics that are never written, as a device has done (its running mean stayed 0 and
its running variance 1): every loss is right, and ``.eval()`` computes something else.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from ..training_task import Subject
from .data import SeededBits, built

STEPS = 20


class LosesStatistics(nn.BatchNorm1d):
    """Normalizes as it should and writes its running averages to a copy."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return super().forward(x)
        assert self.running_mean is not None
        assert self.running_var is not None
        copies = self.running_mean.clone(), self.running_var.clone()
        return F.batch_norm(
            x, *copies, self.weight, self.bias, True, self.momentum or 0.0, self.eps
        )


def network(normalization: type[nn.BatchNorm1d] = nn.BatchNorm1d) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), normalization(16), nn.ReLU(), nn.Linear(16, 3))


def _trained(normalization: type[nn.BatchNorm1d], name: str) -> Subject:
    bits = SeededBits(4 << 12)
    batches = [(bits.normal(32, 6, mean=1.5, deviation=2.0),) for _ in range(4)]
    target = bits.whole(32, low=0, high=2)
    model = built(lambda: network(normalization), bits)
    return Subject(
        model=model, inputs=batches[0], batches=batches, loss=F.cross_entropy, targets=(target,),
        optimizer=partial(torch.optim.SGD, lr=0.05, momentum=0.9), steps=STEPS, after=evaluate,
        name=name,
    )  # fmt: skip


def evaluate(model: nn.Module) -> None:
    model.eval()


def subject() -> Subject:
    """20 steps on four batches in turn, then evaluation: outputs, running statistics and
    predictions are compared."""
    return _trained(nn.BatchNorm1d, "batch-norm")


def stale_statistics() -> Subject:
    """The same, with running statistics that are not updated."""
    return _trained(LosesStatistics, "batch-norm-stale-statistics")


def eval_forgotten() -> Subject:
    """Predictions of a model that nobody has put into evaluation mode."""
    bits = SeededBits(4 << 12)
    x = bits.normal(32, 6, mean=1.5, deviation=2.0)
    return Subject(model=built(network, bits), inputs=(x,), name="batch-norm-eval-forgotten")
