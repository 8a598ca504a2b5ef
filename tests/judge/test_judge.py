"""The judge, rung by rung, on comparisons made by hand; and the words it uses."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consistency import operators
from consistency.core.model import Comparison, ElementGroup, Measured, Worst
from consistency.core.text import format_factor
from consistency.core.verdict import OutcomeStatus
from consistency.judge import tolerances
from consistency.judge.judge import judge
from consistency.judge.judgment import Judgment
from consistency.judge.reconsideration import exceeds_baseline
from consistency.judge.rule_values import Policy, RangeRule, Rule
from tests.support.snapshots import Snapshot

RULE = Rule(c=1.0, lam=2.0, place="tolerances.yaml:41")
STRICT = Policy()
WORST, OTHER = Worst((3,), 1.5, 1.0), Worst((9,), 0.0, 1.0)


def measured(
    ulp: float = 0.0, scaled: float = 0.0, absolute: float = 0.0, **changes: Any
) -> Measured:
    """One output with errors of so many ulp and × G·u·S."""
    element_group = ElementGroup(None, ulp, scaled, absolute, worst=(WORST,) if ulp else ())
    made = Measured("out/0", "float32", (1000,), 1000, (element_group,), differing=10 if ulp else 0)
    return replace(made, **changes)


def verdict_of(
    *outputs: Measured,
    rule: Rule = RULE,
    policy: Policy = STRICT,
    baseline_output: Measured | None = None,
    is_reference: bool = False,
) -> Judgment:
    baseline = None if baseline_output is None else Comparison("ok", (baseline_output,))
    return judge(Comparison("ok", outputs), baseline, rule, policy, is_reference=is_reference)


def said(judgment: Judgment) -> tuple[str, str]:
    return judgment.verdict.value, judgment.explanation


def words(judgment: Judgment, verdict: str, snapshot: Snapshot) -> None:
    """The verdict, and the words that go with it."""
    assert judgment.verdict.value == verdict
    snapshot(judgment.explanation)


# What passes.


def test_nothing_differs(snapshot: Snapshot) -> None:
    words(verdict_of(measured()), "exact", snapshot)


def test_within_budget(snapshot: Snapshot) -> None:
    judgment = verdict_of(measured(ulp=0.7))
    words(judgment, "rounding", snapshot)
    assert judgment.metrics["rho_max"] == 0.7
    assert judgment.worst == WORST
    assert judgment.output == "out/0"


def test_only_shape_and_dtype(snapshot: Snapshot) -> None:
    words(verdict_of(measured(element_groups=(), elements=0)), "exact", snapshot)


def test_both_raised(snapshot: Snapshot) -> None:
    comparison = Comparison("both-raised", note="RuntimeError: sizes differ")
    verdict, text = said(judge(comparison, None, RULE, STRICT))
    assert verdict == "inconclusive"
    snapshot(text)


# What was not tested.


@pytest.mark.parametrize("status", ["unsupported", "fallback", "unavailable", "crash", "timeout"])
def test_a_status_of_its_own_is_the_verdict(status: str) -> None:
    assert said(judge(Comparison(status, note="no kernel"), None, RULE, STRICT)) == (
        status,
        "no kernel",
    )
    assert said(judge(Comparison(status), None, RULE, STRICT)) == (status, status)


def test_no_reference_at_all() -> None:
    comparison = Comparison("no-reference", note="RuntimeError: singular")
    for baseline in (None, comparison, Comparison("ok"), Comparison("unsupported")):
        assert said(judge(comparison, baseline, RULE, STRICT)) == (
            "inconclusive", "float64 on the CPU gives no reference: RuntimeError: singular",
        )  # fmt: skip


def test_nothing_came_back(snapshot: Snapshot) -> None:
    words(judge(Comparison("ok"), None, RULE, STRICT), "inconclusive", snapshot)


def test_the_reference_itself() -> None:
    words = "the CPU in this dtype is itself the reference: nothing independent to compare with"
    assert said(verdict_of(measured(), is_reference=True)) == ("inconclusive", words)
    assert said(verdict_of(measured(ulp=0.7), is_reference=True)) == ("inconclusive", words)
    assert verdict_of(measured(ulp=7.0), is_reference=True).verdict.value == "divergent"


# What fails.


def test_raised_where_the_reference_did_not(snapshot: Snapshot) -> None:
    comparison = Comparison("raised", note="RuntimeError: CUDA error")
    words(judge(comparison, None, RULE, STRICT), "error", snapshot)


def test_returned_where_the_reference_raised(snapshot: Snapshot) -> None:
    comparison = Comparison("no-reference", note="IndexError: out of range")
    words(judge(comparison, Comparison("both-raised"), RULE, STRICT), "error", snapshot)


def test_structure_comes_first() -> None:
    wrong = "out/0 has shape [3] instead of [4]"
    comparison = Comparison("ok", (measured(ulp=1e9),), structure=wrong)
    assert said(judge(comparison, None, RULE, STRICT)) == ("structure", wrong)


@pytest.mark.parametrize(("special", "words"), [
    ({"nan": 3}, "NaN differs in 3 of 1000 elements"),
    ({"inf": 1}, "an infinity differs in 1 of 1000 elements"),
    ({"zero-sign": 2}, "the sign of zero differs in 2 of 1000 elements"),
    ({"nan": 1, "inf": 2},
        "NaN differs in 1 of 1000 elements; an infinity differs in 2 of 1000 elements"),
])  # fmt: skip
def test_special_values_come_before_the_budget(special: dict[str, int], words: str) -> None:
    judgment = verdict_of(measured(ulp=1e9, special=special, special_worst=WORST))
    beside = "; other numbers are off by over 1,000,000 × budget"
    assert said(judgment) == ("special-values", words + beside)
    assert judgment.metrics == {"special_mismatches": sum(special.values()), "rho_beside": 1e9}
    assert judgment.worst == WORST
    alone = verdict_of(measured(special=special, special_worst=WORST))
    assert said(alone) == ("special-values", words)
    assert alone.metrics == {"special_mismatches": sum(special.values())}


def test_an_output_of_one_element_has_no_count() -> None:
    judgment = verdict_of(measured(special={"nan": 1}, elements=1))
    assert said(judgment) == ("special-values", "NaN differs in its only element")


def test_a_policy_frees_the_sign_of_zero_and_nothing_else(snapshot: Snapshot) -> None:
    free = Policy(signed_zero="any")
    assert verdict_of(measured(special={"zero-sign": 2}), policy=free).verdict.value == "exact"
    both = verdict_of(measured(special={"zero-sign": 2, "nan": 1}), policy=free)
    words(both, "special-values", snapshot)


def test_over_budget(snapshot: Snapshot) -> None:
    judgment = verdict_of(
        measured(ulp=1400.0, pattern="only in the last 5 of 21 along dimension 1")
    )
    words(judgment, "divergent", snapshot)
    assert judgment.worst == WORST


@pytest.mark.parametrize(
    ("rho", "text"),
    [(0.312, "0.31"), (0.999, "1"), (1.004, "just over 1"), (1.03, "1.03"), (1.3, "1.3"), (9.96,
    "10"), (12.3, "12"),
     (1400.2, "1,400"), (999_999, "999,999"), (1e6, "over 1,000,000"), (1e300, "over 1,000,000")],
)  # fmt: skip
def test_numbers_are_read_at_a_glance(rho: float, text: str) -> None:
    assert format_factor(rho) == text


# The budget.


def test_both_allowances_add_up() -> None:
    """ρ ≤ 1 / (c/max(e/ulp) + λ/max(e/(G·u·S))), as every element's budget is the sum of both."""
    assert verdict_of(measured(ulp=1e6, scaled=1.0)).metrics["rho_max"] == pytest.approx(
        0.5, rel=1e-5
    )
    assert verdict_of(measured(ulp=0.5, scaled=100.0)).metrics["rho_max"] == pytest.approx(
        1.0 / (2.0 + 0.02)
    )
    assert verdict_of(measured(ulp=1.5, scaled=3.0)).verdict.passes, (
        "2/3 of one allowance and 2/3 of the other"
    )
    assert verdict_of(measured(ulp=3.0, scaled=100.0)).verdict.fails


def test_an_error_beyond_every_format_is_a_failure() -> None:
    infinite = float("inf")
    assert verdict_of(measured(ulp=infinite, scaled=infinite)).verdict.value == "divergent"


def test_without_lambda_only_ulp_count() -> None:
    assert verdict_of(measured(ulp=3.0, scaled=0.1), rule=Rule(1.0, 0.0)).verdict.fails


def test_correct_rounding_is_never_too_much() -> None:
    assert verdict_of(measured(ulp=0.5), rule=Rule(0.0, 0.0)).verdict.value == "rounding"
    assert verdict_of(measured(ulp=0.51), rule=Rule(0.0, 0.0)).verdict.value == "divergent"


def test_the_hull_settles_it() -> None:
    """Two elements: one far off in ulp, one far off in S, each within the sum of both
    allowances."""
    pareto_points = ((0.2, 4.0), (4.0, 0.1))
    worst = (Worst((0,), 1.0, 2.0), Worst((7,), 3.0, 4.0))
    output = measured(
        element_groups=(ElementGroup(None, 5.0, 10.0, 1.0, pareto_points, worst),), differing=2
    )
    judgment = verdict_of(output)
    assert judgment.metrics["rho_max"] == pytest.approx(1 / 4.2)
    assert judgment.worst == worst[1]
    tight = verdict_of(output, rule=Rule(1.0, 0.0))
    assert said(tight) == ("divergent", "5 × budget")
    assert tight.worst == worst[0]


def test_an_absolute_bound_is_enough() -> None:
    rule = replace(RULE, absolute=1e-6)
    assert verdict_of(measured(ulp=1e5, absolute=4e-7), rule=rule).metrics[
        "rho_max"
    ] == pytest.approx(0.4)
    assert verdict_of(measured(ulp=1e5, absolute=3e-6), rule=rule).metrics[
        "rho_max"
    ] == pytest.approx(3.0)
    assert verdict_of(measured(ulp=0.3, absolute=3.0), rule=rule).metrics[
        "rho_max"
    ] == pytest.approx(0.3)


INSIDE = (0, 0.5, 2.0)


def ranged(outside: float, inside: float, absolute: float = 1.0) -> Measured:
    first, second = (
        ElementGroup(None, outside, 0.0, absolute, worst=(WORST,)),
        ElementGroup(INSIDE, inside, 0.0, absolute, worst=(OTHER,)),
    )
    return measured(element_groups=(first, second), differing=2)


def rho_in(item: RangeRule, outside: float, inside: float, absolute: float = 1.0) -> float:
    return verdict_of(
        ranged(outside, inside, absolute), rule=replace(RULE, ranges=(item,))
    ).metrics["rho_max"]


def test_a_range_has_numbers_of_its_own() -> None:
    assert rho_in(RangeRule(*INSIDE, c=100.0), outside=0.5, inside=50.0) == 0.5
    assert rho_in(RangeRule(*INSIDE, c=100.0), outside=3.0, inside=50.0) == 3.0
    assert rho_in(RangeRule(*INSIDE, c=100.0), outside=0.5, inside=700.0) == 7.0
    assert (
        verdict_of(ranged(0.5, 700.0), rule=replace(RULE, ranges=(RangeRule(*INSIDE),))).worst
        == OTHER
    )


def test_a_range_with_an_absolute_bound() -> None:
    item = RangeRule(*INSIDE, absolute=1e-6)
    assert rho_in(item, outside=0.5, inside=1e5, absolute=5e-7) == pytest.approx(0.5)
    assert rho_in(item, outside=0.5, inside=1e5, absolute=5e-6) == pytest.approx(5.0)
    assert rho_in(item, outside=7.0, inside=0.1, absolute=5e-7) == pytest.approx(7.0)


def test_outside_of_a_range_a_backend_may_be_free() -> None:
    item = RangeRule(*INSIDE, unspecified=True)
    assert rho_in(item, outside=1e9, inside=0.5) == 0.5
    assert rho_in(item, outside=1e9, inside=5.0) == 5.0


def test_a_range_that_was_not_told_apart_frees_nothing() -> None:
    """Else one key in a tolerances file would stop a whole operator from being judged."""
    rule = replace(RULE, ranges=(RangeRule(*INSIDE, unspecified=True),))
    assert verdict_of(measured(ulp=7.0), rule=rule).verdict.fails


@pytest.mark.parametrize("backend", ["cpu", "cuda", "directml"])
def test_every_range_of_the_tolerances_is_declared_by_its_operator(backend: str) -> None:
    """Else the comparison does not tell it apart, and the rule's numbers for it never count."""
    loaded = tolerances.load()
    for operator in operators.registry().values():
        for dtype in operator.dtypes:
            rule = loaded.rule(operator.name, dtype, family=operator.family, backend=backend)
            named = {(item.argument, item.low, item.high) for item in rule.ranges}
            assert named <= set(operator.ranges), f"{operator.name} {dtype}"


def test_exact_outputs_have_no_budget() -> None:
    generous = Rule(c=100.0, lam=100.0)
    assert (
        verdict_of(measured(ulp=1.0, scaled=1e-9, exact=True), rule=generous).verdict.value
        == "divergent"
    )
    assert verdict_of(measured(ulp=0.4, exact=True), rule=generous).verdict.value == "exact"


def test_flushed_subnormals_only_where_the_policy_allows_it() -> None:
    pareto_points, flush = ((1e-6, 0.0),), Policy(flush_subnormals=True)
    output = measured(
        element_groups=(ElementGroup(None, 1e6, 0.0, 1e-39, pareto_points, (WORST,), ()),),
        differing=1,
    )
    assert verdict_of(output).verdict.value == "divergent"
    assert verdict_of(output, policy=flush).verdict.value == "rounding"
    worse = replace(
        output, element_groups=(replace(output.element_groups[0], flushed=((1e-3, 0.0),)),)
    )
    assert verdict_of(worse, policy=flush).metrics["rho_max"] == pytest.approx(1000.0)
    without = replace(output, element_groups=(replace(output.element_groups[0], flushed=None),))
    assert verdict_of(without, policy=flush).verdict.value == "divergent"


pareto_point = st.tuples(st.floats(1e-6, 1e6), st.floats(0.0, 1e6))


@given(
    st.lists(pareto_point, min_size=1, max_size=8),
    st.floats(0.5, 100),
    st.floats(0, 100),
    st.floats(1, 10),
    st.floats(1, 10),
)
def test_a_looser_rule_never_fails_more(
    pareto_points: list[tuple[float, float]], c: float, lam: float, more: float, most: float
) -> None:
    output = measured(
        element_groups=(
            ElementGroup(
                None, pareto_front=tuple(pareto_points), worst=(WORST,) * len(pareto_points)
            ),
        ),
        differing=1,
    )
    tight, loose = (
        verdict_of(output, rule=Rule(c, lam)),
        verdict_of(output, rule=Rule(c * more, lam * most)),
    )
    assert loose.metrics["rho_max"] <= tight.metrics["rho_max"]
    assert tight.verdict.fails == (tight.metrics["rho_max"] > 1.0)


# Statistics.


def statistics(**changes: Any) -> Measured:
    """Within budget, and as healthy as can be: errors of one σ, of both signs."""
    healthy = measured(
        ulp=0.9,
        independent=True,
        sigma_rms=1.0,
        sigma_max=3.5,
        positive=500,
        negative=500,
        outward=500,
    )
    return replace(healthy, **changes)


def test_healthy_statistics_say_nothing() -> None:
    assert verdict_of(statistics(), baseline_output=statistics()).verdict.value == "rounding"
    assert verdict_of(statistics()).verdict.value == "rounding"


def test_what_was_flushed_counts_in_no_statistics() -> None:
    flush = Policy(flush_subnormals=True)
    lost = ElementGroup(None, 1e6, 0.0, 1e-39, ((1e-6, 0.0),), (WORST,), ())
    output = statistics(sigma_rms=1e6, element_groups=(lost,))
    judgment = verdict_of(output, baseline_output=statistics(), policy=flush)
    assert judgment.verdict.value == "rounding"
    assert not exceeds_baseline(judgment)  # nor does a second look use them
    assert "rmse_ratio" not in judgment.metrics
    assert verdict_of(output).verdict.value == "divergent"
    # Within budget without that: its errors are no flushed numbers.
    assert verdict_of(statistics(sigma_rms=6.0), policy=flush).verdict.value == "divergent"


def test_an_rms_error_that_rounding_does_not_explain(snapshot: Snapshot) -> None:
    judgment = verdict_of(statistics(sigma_rms=6.0), baseline_output=statistics(sigma_rms=0.5))
    words(judgment, "divergent", snapshot)
    assert (
        verdict_of(
            statistics(sigma_rms=6.0), baseline_output=statistics(sigma_rms=2.0)
        ).verdict.value
        == "rounding"
    )


def test_few_elements_scatter() -> None:
    assert verdict_of(statistics(sigma_rms=6.0, elements=1)).verdict.value == "rounding"
    assert verdict_of(statistics(sigma_rms=17.0, elements=1)).verdict.fails


def test_errors_that_lie_together(snapshot: Snapshot) -> None:
    judgment = verdict_of(statistics(cluster=(12.0, 256, "in the tile from row 16, column 32")))
    words(judgment, "divergent", snapshot)
    assert (
        verdict_of(statistics(cluster=(2.0, 16, "where index 0 is 3"))).verdict.value == "rounding"
    )
    assert (
        verdict_of(statistics(cluster=(12.0, 256, "in a tile"), independent=False)).verdict.value
        == "rounding"
    )


def test_one_element_that_rounding_does_not_explain(snapshot: Snapshot) -> None:
    judgment = verdict_of(statistics(sigma_max=40.0, pattern="only where index 0 is 5"))
    words(judgment, "divergent", snapshot)
    assert (
        verdict_of(
            statistics(sigma_max=40.0), baseline_output=statistics(sigma_max=20.0)
        ).verdict.value
        == "rounding"
    )


@pytest.mark.parametrize("lean", [{"positive": 900, "negative": 100}, {"outward": 50}])
def test_errors_that_lean_to_one_side(lean: dict[str, int]) -> None:
    judgment = verdict_of(statistics(sigma_rms=1.5, **lean), baseline_output=statistics())
    assert judgment.verdict.fails
    assert judgment.explanation.startswith("0.9 × budget, but its errors lean to one side by 2")
    assert judgment.explanation.endswith("standard deviations: truncation rather than rounding")
    assert (
        verdict_of(
            statistics(sigma_rms=1.5, **lean), baseline_output=statistics(**lean)
        ).verdict.value
        == "rounding"
    )  # so does the CPU's
    assert (
        verdict_of(statistics(sigma_rms=0.9, **lean), baseline_output=statistics()).verdict.value
        == "rounding"
    )  # and small
    assert (
        verdict_of(
            statistics(sigma_rms=1.5, elements=200, **lean), baseline_output=statistics()
        ).verdict.value
        == "rounding"
    )  # and few


def test_statistics_need_independent_errors_and_a_budget() -> None:
    wild: dict[str, Any] = {"sigma_rms": 1e6, "sigma_max": 1e6}
    assert verdict_of(statistics(**wild)).verdict.fails
    assert verdict_of(statistics(independent=False, **wild)).verdict.value == "rounding"
    assert (
        verdict_of(
            statistics(exact=True, element_groups=(ElementGroup(None, 0.4),), **wild)
        ).verdict.value
        == "exact"
    )


# Vacuity.

VACUOUS = "700 of 1000 elements are zero or not finite"


def test_what_could_not_have_told_is_no_pass() -> None:
    for ulp in (0.0, 0.7):
        assert said(verdict_of(measured(ulp=ulp, vacuous=VACUOUS))) == (
            "inconclusive",
            f"cannot tell: {VACUOUS}",
        )


@pytest.mark.parametrize(
    "failing",
    [
        measured(ulp=7.0), measured(special={"nan": 1}), statistics(sigma_rms=100.0),
        measured(ulp=1.0, exact=True),
    ],
    ids=["budget", "special values", "statistics", "exact"],
)  # fmt: skip
def test_vacuity_never_hides_a_failure(failing: Measured) -> None:
    assert said(verdict_of(replace(failing, vacuous=VACUOUS))) == said(verdict_of(failing))
    assert verdict_of(replace(failing, vacuous=VACUOUS)).verdict.fails


# Several outputs.


def test_the_worst_output_speaks() -> None:
    outputs = [measured(ulp=ulp, name=f"out/{i}") for i, ulp in enumerate((0.3, 9.0, 40.0, 0.0))]
    judgment = verdict_of(*outputs)
    assert said(judgment) == ("divergent", "40 × budget")
    assert judgment.output == "out/2"
    assert judgment.metrics["rho_max"] == 40.0


def test_numbers_are_the_largest_of_all_outputs() -> None:
    judgment = verdict_of(
        measured(ulp=0.9, scaled=0.1), measured(ulp=0.5, scaled=0.4, absolute=3.0, name="out/1")
    )
    assert judgment.metrics["ulp_max"] == 0.9
    assert judgment.metrics["scaled_max"] == 0.4
    assert judgment.metrics["abs_max"] == 3.0


def test_one_decided_output_decides() -> None:
    told, not_told = measured(ulp=0.7), measured(vacuous=VACUOUS, name="out/1")
    assert verdict_of(told, not_told).verdict.value == "rounding"
    assert verdict_of(not_told, replace(not_told, name="out/2")).verdict.value == "inconclusive"
    assert verdict_of(not_told, measured(ulp=9.0)).verdict.value == "divergent"


def test_the_ratio_to_the_cpu() -> None:
    def ratio(ours: float, theirs: float) -> float:
        return verdict_of(
            measured(ulp=0.7, rms=ours), baseline_output=measured(rms=theirs)
        ).metrics["rmse_ratio"]

    assert ratio(6.0, 2.0) == 3.0
    assert ratio(0.0, 0.0) == 1.0
    assert ratio(2.0, 0.0) == 1e300  # as good as infinite, and still JSON
    other = verdict_of(measured(ulp=0.7, rms=6.0), baseline_output=measured(rms=2.0, name="out/1"))
    assert "rmse_ratio" not in other.metrics


def test_an_error_of_infinitely_many_ulp_exceeds_the_budget() -> None:
    """0.2 where 5e-310 is right: both quotients leave float64."""
    group = ElementGroup(None, ulp_max=math.inf, scaled_max=math.inf, abs_max=0.2)
    output = Measured("out/0", "float64", (1,), 1, (group,), differing=1)
    comparison = Comparison(OutcomeStatus.OK, (output,))
    loaded = tolerances.load()
    rule = replace(loaded.rule("exp", "float64"), c=1.0, lam=1.0)
    found = judge(comparison, None, rule, loaded.policy("cpu"))
    assert found.verdict.fails
