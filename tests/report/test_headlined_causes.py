"""The headline of a quick run names the true cause of a planted fault, or none: a few faults here,
all of them at night (benchmarks/headlined_causes.py)."""

from __future__ import annotations

import sys

import pytest

from tests.support.headlined_faults import headlined_faults
from tests.support.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from headlined_causes import LEAST_RIGHT, MOST_WRONG, Headline, headline_of, shares

FEW = (
    "times 1.00001 / exp float32", "transposed / linalg.solve float32", "one pass / var float32",
    "terms beyond a multiple of 8 dropped / sum float32", "zero / cumprod float32",
)  # fmt: skip


def test_the_table_is_large_and_varied() -> None:
    faults = headlined_faults()
    assert len({fault.name for fault in faults}) == len(faults) >= 60
    assert all(fault.right for fault in faults)
    assert len({name for fault in faults for name in fault.right}) >= 30


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", FEW)
def test_the_headline_names_the_cause(name: str) -> None:
    (fault,) = (fault for fault in headlined_faults() if fault.name == name)
    found = headline_of(fault)
    assert found.is_right, (found.cause, fault.right)


@pytest.mark.nightly
def test_nine_tenths_of_the_headlines_are_right_and_hardly_one_is_wrong() -> None:
    headlines: list[Headline] = [headline_of(fault) for fault in headlined_faults()]
    right, wrong = shares(headlines)
    assert right >= LEAST_RIGHT, [h.fault.name for h in headlines if not h.is_right]
    assert wrong <= MOST_WRONG, [(h.fault.name, h.cause) for h in headlines if h.is_wrong]
