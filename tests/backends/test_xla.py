"""torch_xla: absence, what torch computed on the CPU instead, and calls where it is installed."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from consistency import backends
from consistency.backends.runtimes.xla import Xla
from consistency.core.verdict import OutcomeStatus
from tests.support.graph_runtimes import call, needs, result


def test_absence_names_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Xla, "not_installed", staticmethod(lambda: ["torch_xla"]))
    told = backends.availability(backends.resolve("xla"))
    assert told is not None
    assert told.startswith("torch_xla is not installed: ")
    assert "xla@PYTHON" in told


@pytest.mark.parametrize(
    ("during", "told"),
    [
        ({"aten::nonzero": 1}, "torch_xla falls back to the CPU: aten::nonzero"),
        ({"aten::sort": 3, "aten::tril": 1}, "torch_xla falls back to the CPU: aten::sort"),
        ({"aten::_local_scalar_dense": 1}, ""),  # a number was read
        ({"xla::add": 1, "CreateXlaTensor": 2}, ""),
        ({}, ""),
    ],
)
def test_operators_on_the_cpu_are_told(
    monkeypatch: pytest.MonkeyPatch, during: dict[str, int], told: str
) -> None:
    counts = {"aten::sort": 2, "aten::cumsum": 5}
    metrics = ModuleType("torch_xla.debug.metrics")
    metrics.counter_names = lambda: list(counts)  # type: ignore[attr-defined]
    metrics.counter_value = counts.__getitem__  # type: ignore[attr-defined]
    package = ModuleType("torch_xla")
    package.sync = lambda wait: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch_xla", package)
    monkeypatch.setitem(sys.modules, "torch_xla.debug", ModuleType("torch_xla.debug"))
    monkeypatch.setitem(sys.modules, "torch_xla.debug.metrics", metrics)
    backend = Xla()
    backend.device = "cpu"  # no device of XLA: the counters are what is tested

    def counting(*_: object) -> torch.Tensor:
        counts.update(during)
        return torch.ones(3)

    monkeypatch.setattr(backend, "call", counting)
    outcome = call(backend, "neg", torch.ones(3))
    assert outcome.status is (OutcomeStatus.FALLBACK if told else OutcomeStatus.OK)
    assert outcome.message.startswith(told)


@needs(Xla)
class TestCalls:
    def test_on_its_device(self) -> None:
        backend = Xla()
        assert backend.why_unavailable() is None
        backend.prepare()
        x = torch.arange(12.0).reshape(3, 4)
        outcome = call(backend, "add", x, x)
        assert outcome.status is OutcomeStatus.OK
        assert outcome.outputs[0].device.startswith("xla")
        assert torch.equal(result(outcome).cpu(), x + x)
        assert call(backend, "nonzero", x).status is OutcomeStatus.FALLBACK
