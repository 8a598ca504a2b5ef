"""What watching costs: a step of training plain, watched, and the judging afterwards, for the three
models of the tests.

python benchmarks/watching.py [BACKEND …]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import consistency

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.support.watched_models import MODELS, Made

STEPS = 20


class Step:
    """One step of Adam, of the same model again and again."""

    def __init__(self, made: Made) -> None:
        self.model, self.inputs, self.targets = made
        self.optimizer = torch.optim.Adam(self.model.parameters(), 1e-3)

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(self.inputs), self.targets).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def wide() -> Made:
    """The same kind of network as the first, of the size that people train: 4 × 64 × 64 × 64
    numbers a layer."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 64, 3,
    padding=1), nn.ReLU(),
              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]  # fmt: skip
    return nn.Sequential(*layers), torch.randn(4, 3, 64, 64), torch.tensor([0, 1, 2, 3])


def milliseconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - began)


def main(backends: list[str]) -> None:
    torch.set_num_threads(1)
    print(
        "model            plain ms   watched, first   later    judged afterwards   calls   cases "
        "  MiB held"
    )
    for name, make in {**MODELS, "wide convolution": wide}.items():
        step = Step(make())
        milliseconds(step)
        plain = statistics.median(milliseconds(step) for _ in range(STEPS))
        watch = consistency.watch(backends=backends)
        watch.judge = lambda: None  # type: ignore[method-assign] - timed apart
        with watch:
            first = milliseconds(step)
            count = watch.count
            milliseconds(step)
            later = statistics.median(milliseconds(step) for _ in range(STEPS))
        del watch.judge
        judged = milliseconds(watch.judge)
        cases = len({result.case.digest for result in watch.results})
        print(
            f"{name:16} {plain:8.2f}   {first:10.2f} {first / plain:4.1f}× {later:7.2f} "
            f"{later / plain:4.1f}×"
            f" {judged:12.0f}        {count:5} {cases:7} {watch.held / (1 << 20):10.2f}"
        )
        assert not watch.failures, str(watch)


if __name__ == "__main__":
    main(sys.argv[1:] or ["cpu+onednn=off"])
