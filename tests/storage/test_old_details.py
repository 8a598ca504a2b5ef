"""Bundles of earlier versions told by sentences what results hold as data now."""

from __future__ import annotations

from typing import Any

import pytest

from consistency.core import detail
from consistency.core.detail import Detail, detail_from_json, detail_to_json
from consistency.core.verdict import VERDICTS, Verdict, verdict_name
from consistency.storage.bundle.old_details import old_comparison_detail, old_detail

SENTENCES: tuple[tuple[str, str, Detail | None], ...] = (
    ("timeout", "exp: no answer within 7 s", detail.TimedOut(7.0)),
    ("timeout", "exp: no answer within 1.5 s", detail.TimedOut(1.5)),
    ("timeout", "exp: gone", None),
    ("structure", "argument 2 was modified although the operator does not write to it",
     detail.ModifiedInput(2)),
    ("structure", "out/0 has shape [1] instead of [2]", None),
    ("nondeterministic", "other bits from run to run in 1 of 4 cases, up to 1 ulp",
     detail.Nondeterministic("runs")),
    ("nondeterministic", "other bits with another number of threads in 1 of 4 cases, up to 1 ulp",
     detail.Nondeterministic("threads")),
    ("nondeterministic", "other bits alone as in a batch in 1 of 4 cases, up to 1 ulp",
     detail.Nondeterministic("batch")),
    ("nondeterministic", "2 × budget: 3 of 3 repeats gave another answer, 0 passed", None),
    ("precision-scaling", "float64 errs by 1e-08 where float32 errs by 1e-08 (3 of 12 cases): it "
     "does not shrink as rounding would", detail.PrecisionScaling("case")),
    ("precision-scaling", "float64 is 2^40.0 times as precise as float32 (20 cases): the float32 "
     "path is degraded", detail.PrecisionScaling("float32")),
    ("precision-scaling", "float64 is only 2^10.0 times as precise as float32 (20 cases): its path "
     "is degraded", detail.PrecisionScaling("float64")),
    ("error", "returned a result where the reference raised: RuntimeError: x",
     detail.ReferenceRaised()),
    ("error", "raised where the reference did not: RuntimeError: x", None),
    ("undecidable", "inconclusive: cpu says 1, float64 on the CPU says 2", detail.Unproved()),
    ("undecidable", "the harness itself failed to judge this case (ValueError: x)",
     detail.HarnessFailed()),
    ("undecidable", "cannot tell: all elements are equal", None),
    ("divergent", "float64 on the CPU is itself off: wrong at [0]: exp; 7 × budget",
     detail.ReferenceWrong()),
    ("divergent", "0.4 × budget, but its errors cluster in rows",
     detail.BeyondStatistics("its errors cluster in rows")),
    ("divergent", "1,400 × budget", None),
    ("rounding", "0.4 × budget: rounding", None),
)  # fmt: skip


@pytest.mark.parametrize(("verdict", "sentence", "expected"), SENTENCES)
def test_an_old_sentence_becomes_a_detail(
    verdict: str, sentence: str, expected: Detail | None
) -> None:
    assert old_detail({"verdict": verdict, "explanation": sentence}) == expected


def test_an_old_comparison_has_its_detail() -> None:
    modified = "argument 1 was modified although the operator does not write to it"
    assert old_comparison_detail({"status": "ok", "structure": modified}) == detail.ModifiedInput(1)
    late = {"status": "timeout", "note": "exp: no answer within 30 s"}
    assert old_comparison_detail(late) == detail.TimedOut(30.0)
    assert old_comparison_detail({"status": "ok"}) is None


@pytest.mark.parametrize("value", {expected for _, _, expected in SENTENCES if expected})
def test_details_survive_json(value: Detail) -> None:
    assert detail_from_json(detail_to_json(value)) == value


@pytest.mark.parametrize(
    "data",
    [
        None, [], {}, {"name": "Nothing"}, {"name": "TimedOut"},
        {"name": "TimedOut", "seconds": float("nan")}, {"name": "TimedOut", "seconds": "inf"},
        {"name": "ModifiedInput", "position": -1}, {"name": "ModifiedInput", "position": None},
        {"name": "__class__"},
    ],
)  # fmt: skip
def test_what_is_no_detail_is_refused(data: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError, AttributeError)):
        detail_from_json(data)


def test_old_words_name_the_same_verdicts() -> None:
    assert Verdict("undecidable") == Verdict("inconclusive")
    assert Verdict("expected") == Verdict("known")
    assert not {"undecidable", "expected"} & set(VERDICTS)
    assert [verdict_name(name) for name in VERDICTS] == list(VERDICTS)
    with pytest.raises(ValueError, match="'Divergent' is no verdict"):
        Verdict("Divergent")
