"""Results in a notebook: one line, a card, a table."""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from typing import Any

import pytest
import torch

import consistency
from consistency.core.text import MAX_REPR
from consistency.errors import UsageError
from consistency.report import failure
from consistency.report.notebook import card
from consistency.training.findings import BackendReport, ModelReport

EVIL = "</pre><script>alert(1)</script> \x1b[31m & \u202e"


@pytest.fixture(scope="module")
def wrong() -> consistency.Result:
    x = torch.arange(40_000, dtype=torch.float32).reshape(200, 200) / 40_000
    return consistency.compare(torch.exp(x) * 1.01, operator="exp", args=(x,))


@pytest.fixture(scope="module")
def run() -> consistency.Run:
    return consistency.run(["neg"], ["cpu"], ["float32"], examples=1, shipped=False)


def test_one_line_each(wrong: consistency.Result, run: consistency.Run) -> None:
    values = [
        *(r.case for r in run.results),
        wrong,
        wrong.case,
        wrong.case.args[0],
        wrong.comparison,
        run,
    ]
    values.append(replace(run, results=(wrong, wrong)))
    for value in values:
        assert len(repr(value)) <= 2 * MAX_REPR
        assert "\n" not in repr(value)
    assert repr(wrong).startswith("<Result exp float32 forward on given: divergent, 83,05")
    assert "a factor of 1.01 explains 100%" in repr(wrong)
    assert "40,000 of 40,000 elements differ" in repr(wrong.comparison)
    assert "2 failing, worst <Result exp" in repr(values[-1])
    assert repr(run).startswith("<Run of neg on cpu: ")


def test_a_run_without_results_has_a_line_too(run: consistency.Run) -> None:
    assert repr(replace(run, results=())).startswith("<Run of 0 operators on no backend: 0 results")


def test_the_card_names_cause_and_command(wrong: consistency.Result, run: consistency.Run) -> None:
    told: Any = wrong
    html = told._repr_html_()
    for words in ("✗", "exp · float32 · forward · given", "a factor of 1.01 explains 100%",
                  "float64 says", "consistency.save(result, "):  # fmt: skip
        assert words in html.replace("&quot;", '"')
    fine: Any = run
    assert "✓" in fine._repr_html_()
    assert "none fails" in fine._repr_html_()


def test_a_card_is_a_fault_and_not_a_case(wrong: consistency.Result, run: consistency.Run) -> None:
    alike: Any = replace(run, results=(wrong,) * 8)
    assert alike._repr_html_().count("<b>") == 2
    assert "failing cases:</span> 8" in alike._repr_html_()
    backends = [replace(wrong, backend=f"b{i}", evidence=None, explanation="") for i in range(8)]
    different: Any = replace(run, results=tuple(backends))
    assert different._repr_html_().count("<b>") == 6
    assert "and 3 more faults" in different._repr_html_()


def test_what_follows_the_size_begins_without_its_separator(wrong: consistency.Result) -> None:
    size, _ = failure.split_headline(wrong)
    for text in (f"{size}; the true value is 2", f"{size}: the true value is 2"):
        told = failure.split_headline(replace(wrong, explanation=text))
        assert told == (size, "the true value is 2")


def test_texts_of_a_bundle_cannot_leave_the_card(wrong: consistency.Result) -> None:
    evil: Any = replace(wrong, backend=EVIL, explanation=EVIL, evidence=None)
    html = evil._repr_html_()
    assert "<script" not in html
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert "<script" not in card(True, EVIL, [EVIL], [(EVIL, EVIL)])
    assert "\x1b" not in repr(evil)


def test_a_model_report(wrong: consistency.Result) -> None:
    report: Any = ModelReport(
        "gpt", 3, 4, {"cpu": BackendReport("cpu"), "cuda": BackendReport("cuda", absent="no GPU")}
    )
    assert repr(report) == "<ModelReport gpt: cpu within the band>"
    assert "gpt: within the band" in report._repr_html_()
    assert "✓" in report._repr_html_()


def test_a_table_needs_pandas(run: consistency.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UsageError, match="pip install pandas"):
        run.to_dataframe()
    kept = types.ModuleType("pandas")
    kept.DataFrame = list  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", kept)
    rows = run.to_dataframe()
    assert len(rows) == len(run.results) > 0
    assert rows[0]["operator"] == "neg"
    assert rows[0]["rho"] == 0.0
    assert rows[0]["fails"] is False


def test_a_table_of_pandas(run: consistency.Run) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
    table = run.to_dataframe()
    assert set(table.backend) == {"cpu"}
    assert table.rho.max() <= 1.0
