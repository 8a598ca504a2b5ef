"""What a case leaks on every call is measured on its repetitions, for a limited time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from consistency.backends.subprocess import memory_growth
from consistency.backends.subprocess.memory_growth import (
    FEW_PROBES,
    MOST_SECONDS,
    NOTABLE_GROWTH,
    PROBES,
    GrowthMeter,
)


class Leaking:
    """A worker that holds ``a_call`` bytes more after each call, and whose calls take
    ``seconds``."""

    def __init__(self, a_call: int, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes, self.calls, self.now = 0, 0, 0.0
        self.a_call, self.seconds = a_call, seconds
        clock = SimpleNamespace(monotonic=lambda: self.now)
        monkeypatch.setattr(memory_growth, "time", clock)
        self.meter = GrowthMeter(lambda: (0, self.bytes))
        self.meter.per_call(None)
        self.bytes += NOTABLE_GROWTH  # by the cases of an operator

    def call(self) -> None:
        self.calls += 1
        self.bytes += self.a_call
        self.now += self.seconds

    def measured(self) -> float | None:
        return self.meter.per_call(self.call)


def test_what_every_call_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Leaking(10_000, 0.001, monkeypatch)
    assert worker.measured() == 10_000
    assert worker.calls == FEW_PROBES + 2 * PROBES


def test_nothing_leaks(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Leaking(0, 0.001, monkeypatch)
    assert worker.measured() is None
    assert worker.calls == FEW_PROBES


@pytest.mark.parametrize("seconds", [0.5, 6.0])
def test_calls_that_take_long_are_not_repeated_for_minutes(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Leaking(10_000, seconds, monkeypatch)
    assert worker.measured() is None
    assert worker.now <= MOST_SECONDS + seconds
