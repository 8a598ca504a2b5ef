"""Rates of known divergences: the bound that counts prove, and where it is written."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from consistency.judge.tolerances import load
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def rates() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rates", ROOT / "tools/expectation_rates.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_bound_is_that_of_clopper_and_pearson(rates: ModuleType) -> None:
    assert rates.lower_bound(10, 10) == pytest.approx(0.05**0.1)  # all fail: 95% certainty
    assert rates.lower_bound(1, 10) == pytest.approx(1 - 0.95**0.1)  # one or more of ten
    assert rates.lower_bound(4, 10) == pytest.approx(0.1500, abs=1e-4)  # tables
    assert rates.lower_bound(0, 10) == 0.0
    assert 0.8 < rates.lower_bound(1800, 2000) < 0.9  # where binomial coefficients leave float64


def test_the_rate_of_the_entry_is_written_and_no_other(rates: ModuleType) -> None:
    text = (ROOT / "tolerances.yaml").read_text(encoding="utf-8")
    entries = [e for e in load().expectations if e.backend.startswith("openvino") and e.rate]
    chosen = entries[3]
    place = int(chosen.place.rpartition(":")[2])
    lines = rates.rewritten(text, {place: 0.625}).split("\n")
    changed = [(new, old) for new, old in zip(lines, text.split("\n"), strict=True) if new != old]
    assert changed == [("    rate: 0.625", f"    rate: {chosen.rate:g}")]
    assert rates.rewritten(text, {}) == text


def test_an_entry_without_a_rate_is_an_error(rates: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no rate"):
        rates.rewritten("  - operator: a\n    verdicts: [error]\n  - operator: b\n", {1: 0.5})
