"""The faults that shipped cases are chosen by, and the choice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from consistency import operators
from consistency.core.model import Case
from consistency.engine.unit_cases import draw
from consistency.generate.shipped import cases as shipped
from tests.support.adequacy import (
    measure,
    noticing,
    one_element,
    page,
    recomputed,
    results,
    selection,
)
from tests.support.adequacy.model import Healthy, same
from tests.support.adequacy.properties import properties

MANY = 0.1  # of the shipped cases: after so many changes the page is measured again


def healthy(name: str, dtype: str = "float32", count: int = 12) -> list[Healthy]:
    operator = operators.get(name)
    cases, _ = draw(operator, dtype, count, 101)
    return [item for case in cases for item in noticing.healthy(operator, case)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "complex64", "bool"])
def test_one_element_is_off_by_one_percent(dtype: str) -> None:
    seen = 0
    for item in healthy("clone", dtype):
        wrong = results.one_off(item, 0)
        if wrong is None:
            continue
        before, after = item.outcome.outputs[0].tensor, wrong.outputs[0].tensor
        assert before is not None
        assert after is not None
        assert before.dtype == after.dtype
        places = ~((before == after) | ((before != before) & (after != after)))
        assert int(places.sum()) == 1
        if before.is_floating_point():
            share = float((after[places].double() / before[places].double()).item())
            assert abs(share - 0.99) < 0.01
        seen += 1
    assert seen > 3


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fault", list(results.faults()), ids=lambda fault: fault.name)
def test_every_fault_of_results_shows_somewhere(fault: results.Fault) -> None:
    chosen = ("exp", "clone", "sort", "aminmax", "frexp", "linalg.svd", "mul")
    pairs = [(name, "float32") for name in chosen] + [("add", "int64"), ("clone", "int64")]
    assert any(fault.plant(item) is not None for pair in pairs for item in healthy(*pair, count=20))


def test_arguments_are_ignored_one_by_one() -> None:
    faults = {fault.name: fault for fault in recomputed.faults(operators.get("logsumexp"))}
    fault = faults["argument keepdim is ignored"]
    shown = [item for item in healthy("logsumexp") if fault.plant(item) is not None]
    assert shown
    assert all(fault.likely is not None and fault.likely(item) for item in shown)


def test_numbers_are_compared_with_their_signs_and_nan() -> None:
    nan, zero = torch.tensor([float("nan")]), torch.tensor([0.0])
    assert same(nan, nan.clone())
    assert not same(zero, -zero)
    assert not same(zero, zero.double())
    assert same(None, None)


def test_the_choice_is_the_same_each_time_and_notices() -> None:
    operator = operators.get("relu_")
    first, again = (selection.select(operator, "int32") for _ in range(2))
    assert [case.id for case in first.cases] == [case.id for case in again.cases]
    assert 0 < len(first.cases) <= selection.most_of("int32")
    assert ("forward", results.ONE_OFF) in first.noticed
    assert first.noticed <= first.shown


def test_a_case_that_healthy_backends_do_not_pass_is_not_chosen() -> None:
    operator = operators.get("linalg.matrix_exp")
    for case in selection.select(operator, "float32").cases:
        for item in noticing.healthy(operator, case):
            assert noticing.CaseJudge(item).passes


def test_properties_tell_layouts_values_and_arguments() -> None:
    cases, _ = draw(operators.get("sum"), "float32", 200, 101)
    found = set[str]().union(*map(properties, cases))
    assert {"first tensor is strided", "first tensor is contiguous", "square"} <= found
    assert any(text.startswith("first tensor holds ") for text in found)
    assert any(text.startswith(("dim ", "argument 1 ")) for text in found)
    assert properties(Case("sum", "float32")) == {"0 tensors"}


def row(noticed: int, shown: int) -> dict[str, object]:
    return {
        "operator": "exp", "dtype": "float32", "cases": 1, "drawn cases": 1,
        "shown": [f"forward: {n}" for n in range(shown)],
        "noticed": [f"forward: {n}" for n in range(noticed)],
        "noticed by drawn": [],
    }  # fmt: skip


def test_the_page_is_what_the_tool_writes() -> None:
    text = "\n".join(page.page([row(1, 2)], "2.13.0", 7000))
    assert "Measured on 1 of 7,000" in text
    written = Path(page.FILE).read_text(encoding="utf-8")
    assert written.startswith(text[:200])
    measured = {"operator": "exp", "dtype": "float32", "forward": "noticed", "backward": "missed"}
    section = "\n".join(page.one_element([measured], 1))
    assert "1 of 2 groups" in section
    assert "`exp` float32 backward" in section
    assert written.count(page.SECTION) == 1
    cases = re.search(r"shipped cases \| ([\d,]+) of", written)
    assert cases is not None
    now = sum(shipped.count(o, d) for o in operators.registry().values() for d in o.dtypes)
    assert int(cases[1].replace(",", "")) == pytest.approx(now, rel=MANY), (
        "run: tools/shipped_cases.py measure, one-off and page"
    )


def test_what_the_shipped_cases_notice_is_measured_beside_drawn_ones() -> None:
    operator = operators.get("relu_")
    found = measure.compared(operator, "int32")
    assert found["cases"] == shipped.count(operator, "int32")
    assert 0 < found["drawn cases"] <= measure.FRESH
    assert f"forward: {results.ONE_OFF}" in found["noticed"]
    assert {*found["noticed"], *found["noticed by drawn"]} <= {*found["shown"]}


def test_the_interval_of_a_sample_is_that_of_its_operators() -> None:
    assert page.interval([row(1, 2), row(2, 2)], "noticed", 2) == "75.0%"
    assert page.interval([row(1, 2)] * 50, "noticed", 7000) == "50.0%; 50.0% to 50.0%"
    rows = [row(10, 10)] * 90 + [row(0, 10)] * 10  # as 100 tosses of one coin: 2 · 0.03
    assert page.interval(rows, "noticed", 10**9) == "90.0%; 84.1% to 95.9%"


def test_a_returned_answer_is_off_too() -> None:
    for name in ("equal", "allclose"):
        row = one_element.measured(operators.get(name), "float32")
        assert row["forward"] == "noticed"


def test_a_direction_that_torch_lacks_is_no_group() -> None:
    row = one_element.measured(operators.get("slice_scatter"), "complex64")
    assert row == {"operator": "slice_scatter", "dtype": "complex64", "forward": "noticed"}


def test_further_cases_notice_and_say_in_which_share_of_their_elements() -> None:
    operator = operators.get("nn.functional.gaussian_nll_loss")
    (found,) = one_element.further(operator, "float16", ["backward"])
    case = Case.from_json(found["case"])
    assert ("backward", results.ONE_OFF) in measure.look(operator, [case], results.ONE_OFF).noticed
    (item,) = (i for i in noticing.healthy(operator, case) if i.direction == "backward")
    assert noticing.CaseJudge(item).passes
    assert one_element.share(item) == pytest.approx(found["share"], abs=1e-3)
