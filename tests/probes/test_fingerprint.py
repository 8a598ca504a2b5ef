"""Fingerprints: what is asked of single operators, what is kept of answers, and backends built to
fool the probes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from consistency import backends
from consistency.errors import BundleError
from consistency.probes.fingerprint import (
    accumulator,
    collect,
    contraction,
    determinism,
    division,
    dtype_width,
    edge_cases,
    elementary,
    input_precision,
    subnormals,
)
from consistency.probes.fingerprint.facts import Fact, Fingerprint, differences, unknown
from consistency.probes.fingerprint.query import Ask, NotAnswered, from_words, numbers, words
from consistency.probes.fingerprint.sections import sections
from consistency.probes.fingerprint.summary import lines_of, summary_of
from tests.support.snapshots import Snapshot
from tests.support.synthetic import pointwise as made


@pytest.fixture(scope="module")
def cpu() -> Fingerprint:
    return collect.take(backends.resolve("cpu"))


def answers(facts: Any) -> dict[str, str]:
    return {fact.question: fact.answer for fact in facts}


# --- subnormal numbers


@pytest.mark.parametrize("dtype", [
    "float32",
    "bfloat16",
    *(pytest.param(d, marks=pytest.mark.nightly) for d in ("float64", "float16")),
])  # fmt: skip
@pytest.mark.parametrize(
    ("daz", "ftz"), [(True, False), (False, True), (True, True), (False, False)]
)
def test_flush_modes_are_told_apart(dtype: str, daz: bool, ftz: bool) -> None:
    found = answers(subnormals.facts(Ask(made.Flushing("flushing", daz=daz, ftz=ftz)), dtype))
    expected = {
        (True, False): "inputs flushed", (False, True): "results flushed", (True,
        True): "inputs and results flushed",
        (False, False): "kept",
    }[daz, ftz]  # fmt: skip
    for name in ("add", "mul", "div", "sum"):
        assert found[f"{name}/{dtype}/subnormals"] == expected
    for name in ("log", "lt", "sqrt"):
        assert found[f"{name}/{dtype}/subnormals"] == ("inputs flushed" if daz else "kept")
    assert found[f"relu/{dtype}/subnormals"] == ("numbers flushed" if daz or ftz else "kept")


def test_flushing_of_one_operator_is_said_of_that_one() -> None:
    found = answers(
        subnormals.facts(Ask(made.Flushing("matmul", daz=True, operators=["matmul"])), "float32")
    )
    assert found.pop("matmul/float32/subnormals") == "inputs flushed"
    assert set(found.values()) == {"kept"}


def test_a_mode_that_is_set_in_one_thread_only() -> None:
    found = {
        fact.question: fact for fact in subnormals.facts(Ask(made.FlushingThread()), "float32")
    }
    assert found["mul/float32/subnormals"].answer.endswith("flushed, not everywhere")
    assert "131072 some" in found["mul/float32/subnormals"].evidence
    assert found["sum/float32/subnormals"].answer == "kept"


# --- division, functions


def test_fast_division_and_square_root() -> None:
    found = answers(division.facts(Ask(made.Approximate()), "float32"))
    assert (
        found["div/float32/rounding"] == "within 1.5 ulp"
        or found["div/float32/rounding"] == "within 1.4 ulp"
    )
    assert found["div-by-number/float32/rounding"].startswith("within ")
    assert found["sqrt/float32/rounding"].startswith("within 1.")
    assert found["reciprocal/float32/rounding"] == "correctly rounded"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_correct_division(dtype: str) -> None:
    found = answers(division.facts(Ask(made.Exact()), dtype))
    found.pop("sqrt/float64/rounding", None)  # the processor's library decides
    assert set(found.values()) == {"correctly rounded"}


def test_functions_are_identified_by_their_bits() -> None:
    class Nudged(made.Exact):
        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            found = super().call(operator, args, kwargs)
            if operator.name == "exp" and found.numel() > 1000:
                found[1234] = torch.nextafter(found[1234], torch.tensor(9.0))
            return found

    plain, other = (
        answers(elementary.of_function(Ask(b), "exp", "float32")) for b in (made.Exact(), Nudged())
    )
    assert plain["exp/float32/bits"] != other["exp/float32/bits"]
    assert plain["exp/float32/ulp"].startswith("within 0.")


def test_an_error_of_a_function_is_measured() -> None:
    class Wrong(made.Exact):
        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            found = super().call(operator, args, kwargs)
            return found * (1.0 + 2.0**-20) if operator.name == "tanh" else found

    found = answers(elementary.of_function(Ask(Wrong()), "tanh", "float32"))
    assert found["tanh/float32/ulp"].startswith("within ")
    assert 8.0 < float(found["tanh/float32/ulp"].split()[1]) < 18.0


# --- widths


@pytest.mark.nightly
def test_widths_of_the_cpu(cpu: Fingerprint) -> None:
    for fact in cpu:
        if fact.about == "width":
            assert fact.answer == ("53 bits" if fact.dtype == "float64" else "64 bits")


@pytest.mark.parametrize("instead", [torch.int32, torch.float64, torch.float32])
def test_int64_that_is_something_else(instead: torch.dtype) -> None:
    found = answers(dtype_width.facts(Ask(made.Narrow("narrow", torch.int64, instead))))
    name = str(instead).removeprefix("torch.")
    assert found["add/int64/width"] == name
    assert found["mul/int64/width"] == name
    assert all(
        answer != "64 bits"
        for question, answer in found.items()
        if question.split("/")[0] in ("add", "mul", "sort", "sum")
    )
    assert found["add/float64/width"] == "53 bits"


def test_float64_that_is_float32() -> None:
    found = answers(dtype_width.facts(Ask(made.Narrow("narrow", torch.float64, torch.float32))))
    assert {answer for question, answer in found.items() if "/float64/" in question} == {"float32"}
    assert found["add/int64/width"] == "64 bits"


# --- what the bits depend on


def test_atomics_are_noticed() -> None:
    found = answers(determinism.repeated(Ask(made.Atomic())))
    for name in ("matmul", "sum", "index_add", "scatter_add"):
        assert found[f"{name}/float32/repeated"] == "other bits from run to run"
    assert found["softmax/float32/repeated"] == "same bits"


def test_a_random_order_hides_no_widths() -> None:
    """Whatever is added first: 24 bits are never fewer, and what is lost is found."""
    ask = Ask(made.Atomic())
    assert next(input_precision.facts(ask, "matmul", "float32")).answer == "24 bits"
    assert next(accumulator.facts(ask, "matmul", "float32")).answer.startswith("24 bits")


def test_nothing_is_said_of_batches_where_bits_change_by_themselves(snapshot: Snapshot) -> None:
    facts = {fact.question: fact for fact in determinism.batches(Ask(made.Atomic()))}
    snapshot(facts["matmul/float32/batch"].inconclusive)


def test_nor_where_they_change_in_step_with_the_questions() -> None:
    facts = [
        fact
        for fact in determinism.facts(Ask(made.Restless()))
        if not fact.question.endswith("/repeated")
    ]
    assert facts
    assert {fact.question for fact in facts if fact.known} <= {"exp/float32/layout"}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_zeros_alone_establish_nothing(dtype: str) -> None:
    """Where normal numbers do not come back either, nothing is flushed, and no product rounded."""
    ask = Ask(made.Zeros())
    assert not [
        fact
        for fact in (*subnormals.facts(ask, dtype), *contraction.fused(ask, dtype))
        if fact.known
    ]


def test_batch_and_layout_classes(snapshot: Snapshot) -> None:
    ask = Ask(made.ByBatch())
    snapshot(answers(determinism.batches(ask))["matmul/float32/batch"])
    assert answers(determinism.layouts(ask))["matmul/float32/layout"] == "same bits"


# --- corner cases


def test_corner_cases_of_the_cpu_are_usual(cpu: Fingerprint) -> None:
    rows = [fact for fact in cpu if fact.what == "edges"]
    assert len(rows) >= 40
    assert [(fact.question, fact.answer, fact.evidence) for fact in rows if fact.evidence] == []


def test_another_corner_case_is_shown(snapshot: Snapshot) -> None:
    class Away(made.Exact):
        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            if operator.name == "round" and not kwargs:
                return torch.trunc(args[0] + torch.copysign(torch.tensor(0.5), args[0]))
            return super().call(operator, args, kwargs)

    found = Fingerprint.of("away", edge_cases.facts(Ask(Away())))
    rows = [section.rows for section in sections(found) if section.title.startswith("Corner")]
    snapshot(rows)


# --- backends built to fool


def test_noise_establishes_nothing() -> None:
    chosen = [
        p
        for p in collect.probes(["float32"])
        if not p.title.startswith(("functions", "repetition", "corner"))
    ]
    found = collect.take(made.Contradicting(), chosen)
    said = {fact.question: fact.answer for fact in found if fact.known}
    for form in ("matmul", "linear", "bmm", "conv2d"):
        for about in ("multiplicand", "products"):
            assert f"{form}/float32/{about}" not in said
    assert "add/float32/subnormals" not in said
    assert "addcmul/float32/fma" not in said


@pytest.mark.nightly
def test_what_cannot_be_read_is_inconclusive() -> None:
    found = collect.take(
        made.Unhelpful(),
        [p for p in collect.probes(["float32"]) if not p.title.startswith(("functions", "repet"))],
    )
    reasons = {fact.question: fact.inconclusive for fact in found if not fact.known}
    assert "something went wrong" in reasons["add/float64/width"]
    assert "no such thing here" in reasons["div/float32/rounding"]
    assert reasons["matmul/float32/multiplicand"]
    assert reasons["linear/float32/multiplicand"]
    assert not any(fact.answer for fact in found if fact.what in ("matmul", "bmm"))


def test_numbers_that_are_all_alike_prove_nothing() -> None:
    ask = Ask(made.Unhelpful())
    for facts in (determinism.repeated(ask), determinism.batches(ask), determinism.layouts(ask)):
        assert [
            fact.question
            for fact in facts
            if fact.known and fact.question != "bincount/float32/repeated"
        ] == []
    (ulp, *_) = elementary.of_function(ask, "tanh", "float32")
    assert "results are NaN or infinite, or should be" in ulp.inconclusive


def test_an_operator_that_is_not_offered() -> None:
    ask, x = Ask(backends.resolve("numpy")), torch.ones(2, 2, dtype=torch.bfloat16)
    with pytest.raises(NotAnswered, match="NumPy has no bfloat16"):
        ask("matmul", "bfloat16", x, x)


# --- facts


def test_a_fact_has_an_answer_or_a_reason() -> None:
    with pytest.raises(ValueError, match="either an answer or a reason"):
        Fact("a/b/c")
    with pytest.raises(ValueError, match="either an answer or a reason"):
        Fact("a/b/c", "x", inconclusive="y")
    assert str(unknown("a/b/c", "why")) == "inconclusive: why"


def test_json_there_and_back(cpu: Fingerprint) -> None:
    text = json.dumps(cpu.to_json())
    again = Fingerprint.from_json(text)
    assert list(again) == list(cpu)
    assert again.hash == cpu.hash
    assert differences(cpu, again) == ()


@pytest.mark.parametrize(("text", "message"), [
    ("", "not a fingerprint"),
    ("[" * 100_000, "not a fingerprint"),
    ("[]", "not a fingerprint of format 1"),
    ('{"fingerprint": 2, "facts": []}', "not a fingerprint of format 1"),
    ('{"fingerprint": 1, "facts": [1]}', r"facts\[0\] is 1; expected is an object"),
    ('{"fingerprint": 1, "facts": [{"question": "a"}]}', "either an answer or a reason"),
    ('{"fingerprint": 1, "facts": [{"question": 3, "answer": "x"}]}', "question is 3; expect"),
    ('{"fingerprint": 1, "facts": [{"question": "q", "answer": "x", "details": {"a": 1}}]}',
        r"details\.a is 1; expected is a text"),
    ('{"fingerprint": 1, "facts": [], "seconds": "x"}', "seconds is 'x'; expected is a finite num"),
    (f'{{"fingerprint": 1, "facts": [], "seconds": {10**400}}}', "seconds is a number of 1,329 bi"),
    ('{"fingerprint": 1, "facts": [' + ",".join(['{"question": "q"}'] * 3000) + "]}",
        "expected is at most 2,000 entries"),
])  # fmt: skip
def test_what_is_no_fingerprint_is_refused(text: str, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        Fingerprint.from_json(text)


def test_only_established_answers_differ() -> None:
    left = Fingerprint.of(
        "a", [Fact("x/float32/p", "1"), Fact("y/float32/p", "1"), unknown("z/float32/p", "?")]
    )
    right = Fingerprint.of(
        "b", [Fact("x/float32/p", "2"), unknown("y/float32/p", "?"), Fact("z/float32/p", "3")]
    )
    assert [d.question for d in differences(left, right)] == ["x/float32/p"]
    sums = [
        Fingerprint.of(text, [Fact("matmul/float16/accumulator", text)])
        for text in ("24 bits", "24 bits, nearest even", "24 bits, toward zero")
    ]
    assert not differences(sums[0], sums[1])  # how it is rounded was not found out of one
    assert differences(sums[1], sums[2])


def test_bits_there_and_back() -> None:
    for dtype in ("float64", "float32", "float16", "bfloat16"):
        x = numbers([1.0, -0.5, 2.0**-10], dtype)
        assert torch.equal(from_words(words(x), dtype), x)
    with pytest.raises(ValueError, match="does not fit"):
        numbers([1.0 + 2.0**-20], "bfloat16")


def test_a_fingerprint_is_the_same_in_a_process_of_its_own(cpu: Fingerprint) -> None:
    backend, told = (
        backends.resolve("cpu+isolated"),
        ("matmul float32", "corner cases", "subnormals float32", "division float32"),
    )
    try:
        found = collect.take(backend, [p for p in collect.probes(["float32"]) if p.title in told])
    finally:
        backend.close()
    assert differences(cpu, found) == ()
    assert len(found) > 50
    assert all(fact.known for fact in found)
    assert found.seconds > 0


def test_a_short_form_of_a_few_lines(cpu: Fingerprint) -> None:
    lines = lines_of(summary_of(cpu))
    assert len(lines) < 30
    assert lines["hash"] == cpu.hash
    assert "24 bits" in lines["sums of products float32"]
    assert all(len(text) <= 1000 for text in lines.values())


# --- real configurations of the CPU


def test_the_switch_that_flushes_holds_where_it_is_asked_for_only(snapshot: Snapshot) -> None:
    """torch.set_flush_denormal speaks to one thread: with two, a part of a long tensor is not
    flushed."""
    backend = backends.resolve("cpu+flush_denormal=on+threads=1")
    found = answers(subnormals.facts(Ask(backend), "float32"))
    if found["mul/float32/subnormals"] == "kept":
        pytest.skip("this processor has no such mode")
    snapshot(found["mul/float32/subnormals"], "1")
    snapshot(found["matmul/float32/subnormals"], "2")
    assert (
        answers(subnormals.facts(Ask(backends.resolve("cpu")), "float32"))["mul/float32/subnormals"]
        == "kept"
    )


def test_the_precision_of_float32_products_is_restored() -> None:
    before = torch.get_float32_matmul_precision()
    with backends.resolve("cpu+matmul=medium").switches():
        assert torch.get_float32_matmul_precision() == "medium"
    assert torch.get_float32_matmul_precision() == before
