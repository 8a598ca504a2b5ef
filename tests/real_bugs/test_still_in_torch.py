"""Reports that torch 2.13's CPU still deserves: each defect is still there, and its input is judged
as failing or as known unless it is listed as missed."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from consistency import operators
from consistency.core.model import Case, Result
from consistency.engine import engine
from consistency.engine.events import Judged
from consistency.storage.corpus.corpus import Corpus
from tests.real_bugs.still_in_torch import MISSED, ROWS, Still
from tests.real_bugs.still_in_torch_derivatives import DERIVATIVES, MISSED_DERIVATIVES
from tests.real_bugs.still_in_torch_later import LATER, MISSED_LATER
from tests.real_bugs.still_in_torch_third import MISSED_THIRD, THIRD
from tests.real_bugs.triggers import _argument

LATEST = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the list was made with torch 2.13"
)
ALL = (*ROWS, *LATER, *THIRD, *DERIVATIVES)
ALL_MISSED = MISSED | MISSED_LATER | MISSED_THIRD | MISSED_DERIVATIVES
# What a run notices only with the layouts that it draws.
HANDED = [row for row in ALL if row.key not in ALL_MISSED and row.operator != "narrow_copy.out"]
QUICK = ("searchsorted", "gcd", "std_mean", "nn.functional.embedding_bag")


def results(row: Still) -> list[Result]:
    """What the CPU's result for the report's input is judged as."""
    name, dtype, args, kwargs = row.input()
    recipe = {key: _argument(value) for key, value in kwargs.items()}
    case = Case(name, dtype, tuple(_argument(a) for a in args), recipe, (1 << 20) + 97)
    config = engine.configure(
        [operators.get(name)], ["cpu"], [dtype], (row.direction,),
        shrink=False, corpus=Corpus("reports", (case,)), explore=False,
    )  # fmt: skip
    events = [event for event in engine.run(config) if isinstance(event, Judged)]
    return [r for e in events for r in e.results if r.direction == row.direction]


def test_the_rows_are_well_formed() -> None:
    keys = Counter((row.key, row.what) for row in ALL)
    assert set(keys.values()) == {1}
    assert set(ALL_MISSED) <= {row.key for row in ALL}
    assert {row.operator for row in ALL} <= set(operators.registry())
    assert all(row.what and not row.what.endswith(".") for row in ALL)
    assert all(ALL_MISSED.values())


@LATEST
@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("row", ALL, ids=[row.key for row in ALL])
def test_the_defect_is_still_there(row: Still) -> None:
    if row.issue == 193753 and torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("in vectorized code only")
    if row.key == "42479 cdist forward" and torch.backends.cpu.get_cpu_capability() == "DEFAULT":
        pytest.skip("depends on the product of matrices")
    if row.issue == 153700 and torch.ops.mkldnn._is_mkldnn_fp16_supported():
        pytest.skip("in torch's own loop only: oneDNN convolves float16 on this processor")
    assert row.shows(), f"{row.url}: {row.what}: no longer, so the row and its expectation can go"


@LATEST
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.key, marks=() if row.operator in QUICK else pytest.mark.nightly)
        for row in HANDED
    ],
)
def test_the_input_of_the_report_is_judged_as_wrong(row: Still) -> None:
    judged = [r for r in results(row) if r.backend == "cpu"]
    assert judged
    assert any(r.verdict.fails or r.verdict.value == "known" for r in judged), judged
