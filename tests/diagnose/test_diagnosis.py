"""The second look: what it finds out about planted faults, what it leaves alone, and how that
changes a verdict."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import consistency
from consistency import backends, operators
from consistency.core.detail import HarnessFailed
from consistency.core.model import Case, Cause, Evidence, Result
from consistency.core.recipe import TensorRecipe
from consistency.core.verdict import Verdict
from consistency.diagnose.attribution import context, fewer_bits
from consistency.diagnose.case_runner import judge_case
from consistency.diagnose.diagnosis_budget import EFFORT_SECONDS, DiagnosisBudget
from consistency.engine import engine
from consistency.engine.case_health import ordinary
from consistency.generate import exhaustive
from consistency.judge import tolerances
from consistency.judge.judgment import Judgment
from consistency.judge.reconsideration import reconsider
from consistency.judge.rule_values import Policy
from consistency.report.summary import RunSummary
from consistency.storage.bundle import result_from_json, row_of
from tests.support.running import unshrunk

pytestmark = pytest.mark.usefixtures("drawn_once")

Run = Callable[..., Any]
Deed = Callable[[Run, list[Any], dict[str, Any]], Any]


class Playing(consistency.Backend):
    def __init__(self, deed: Deed, name: str = "mine") -> None:
        self.name, self.deed = name, deed

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return self.deed(functools.partial(super().call, operator), list(args), dict(kwargs))


def failures(
    operator: str, deed: Deed, dtype: str = "float32", examples: int = 40
) -> tuple[Result, ...]:
    chosen = engine.configure(
        [operator], [Playing(deed)], [dtype], ["forward"], examples, shrink=False
    )
    collect = engine.Collect()
    engine.drive(chosen, [collect])
    return tuple(r for r in collect.results if r.verdict.fails)


EXAMPLES = {
    "strides-ignored": 120,  # of a handful of elements only the layout is named
    "one-pass-variance": 80,  # few cases have a mean far from 0, where it fails
}


def ordinary_failures(
    operator: str, deed: Deed, dtype: str = "float32", examples: int = 40
) -> tuple[Result, ...]:
    """Those of cases without special values and numbers beside an overflow, which have causes of
    their own."""
    return tuple(r for r in failures(operator, deed, dtype, examples) if ordinary(r.case))


def causes(found: Sequence[Result]) -> Counter[str]:
    return Counter(r.cause for r in found)


def mostly(found: Sequence[Result], cause: str) -> bool:
    """Nine tenths of what fails, or more, is explained so."""
    return bool(found) and causes(found)[cause] >= 0.9 * len(found)


# --- faults


def each(change: Callable[[Tensor], Tensor], *positions: int) -> Deed:
    """The operator on tensors (all floating ones, or those at some positions) that were changed on
    the way in."""

    def deed(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
        chosen = [
            isinstance(a, Tensor) and a.is_floating_point() and (not positions or i in positions)
            for i, a in enumerate(args)
        ]
        return run(
            [change(a) if wanted else a for a, wanted in zip(args, chosen, strict=True)], kwargs
        )

    return deed


def bits(count: int) -> Callable[[Tensor], Tensor]:
    mask = ~((1 << (24 - count)) - 1)
    half = 1 << (23 - count)

    def short(x: Tensor) -> Tensor:
        return ((x.detach().contiguous().view(torch.int32) + half) & mask).view(torch.float32)

    return short


def storage(x: Tensor) -> Tensor:
    return x.detach().as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)


def without_offset(x: Tensor) -> Tensor:
    return x.detach().as_strided(x.shape, x.stride(), 0)


def without_strides(x: Tensor) -> Tensor:
    flat = storage(x)[x.storage_offset() :][: x.numel()]
    return flat.view(x.shape) if flat.numel() == x.numel() else x


def without_tail(x: Tensor) -> Tensor:
    left = x.shape[-1] % 8 if x.ndim else 0
    if not left or left == x.shape[-1]:
        return x
    x = x.clone()
    x[..., -left:] = 0
    return x


def off_by(factor: float) -> Deed:
    return lambda run, args, kwargs: run(args, kwargs) * factor


def zeros(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return run(args, kwargs) * 0.0


def one_pass(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    x, shape = args[:2]
    weight, bias = (args + [None] * 4)[2:4]
    dims = list(range(-len(shape), 0))
    mean = x.mean(dims, keepdim=True)
    variance = ((x * x).mean(dims, keepdim=True) - mean * mean).clamp_min(0.0)
    y = (x - mean) * torch.rsqrt(variance + kwargs.get("eps", 1e-5))
    y = y * kwargs.get("weight", weight) if kwargs.get("weight", weight) is not None else y
    return y + kwargs.get("bias", bias) if kwargs.get("bias", bias) is not None else y


def half_accumulator(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    x, y = args
    if x.ndim != 2 or y.ndim != 2 or not x.shape[1]:
        return run(args, kwargs)
    total = torch.zeros(x.shape[0], y.shape[1], dtype=torch.float16)
    for k in range(x.shape[1]):
        total = (total.float() + x[:, k : k + 1] * y[k : k + 1]).half()
    return total.float()


def no_shift(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    y = torch.exp(args[0])
    return y / y.sum(args[1], keepdim=True) if args[0].ndim else run(args, kwargs)


def bias_forgotten(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return run(args[:2], {k: v for k, v in kwargs.items() if k != "bias"})


def in_float32(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return run(
        [a.float() if isinstance(a, Tensor) and a.dtype == torch.float64 else a for a in args],
        kwargs,
    ).double()


def half_result(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return run(args, kwargs).half().float()


def twelve_bits(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return fewer_bits.rounded(run(args, kwargs).double(), 12).float()


NAMED: list[tuple[str, str, Deed, str]] = [
    ("matmul", "tf32-inputs", each(bits(11)), "TF32 inputs explain "),
    ("nn.functional.conv2d", "tf32-inputs", each(bits(11)), "TF32 inputs explain "),
    ("atan", "tf32-inputs", each(bits(11)), "TF32 inputs explain "),
    ("nn.functional.linear", "bfloat16-inputs", each(bits(8)), "bfloat16 inputs explain "),
    ("sum", "offset-ignored", each(without_offset),
        "storage offset of argument 0 ignored explains "),
    ("exp", "strides-ignored", each(without_strides), "of argument 0 ignored explains "),
    ("sum", "terms-dropped", each(without_tail), " terms missing explains "),
    ("softmax", "scaled", off_by(1.001), "a factor of 1.001 explains "),
    ("tanh", "zero", zeros, "a result all zeros explains "),
    ("sigmoid", "scaled", off_by(1.01), "a factor of 1.01 explains "),
    ("nn.functional.layer_norm", "one-pass-variance", one_pass, "one-pass variance explains "),
    ("matmul", "float16-accumulator", half_accumulator, "float16"),
    ("softmax", "no-max-shift", no_shift, "without the shift by the maximum explains "),
    ("nn.functional.linear", "argument-ignored", bias_forgotten, " not used explains "),
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("operator", "cause", "deed", "words"), NAMED, ids=[f"{o}-{c}" for o, c, _, _ in NAMED]
)
def test_the_cause_is_named_with_its_share(
    operator: str, cause: str, deed: Deed, words: str
) -> None:
    found = ordinary_failures(operator, deed, examples=EXAMPLES.get(cause, 40))
    assert sum(r.cause == cause for r in found) >= 0.6 * len(found) > 0, causes(found)
    named = [r for r in found if r.cause == cause]
    assert all(0.9 <= r.share <= 1.0 for r in named)
    assert any(words in r.explanation for r in named), {r.explanation for r in named}


def test_a_result_rounded_to_float16_is_named_and_one_of_another_length_is_not() -> None:
    assert "float16-accumulator" in causes(ordinary_failures("log", half_result))
    assert (found := ordinary_failures("log", twelve_bits))
    assert "float16-accumulator" not in causes(found)


def bfloat16_result(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return run(args, kwargs).bfloat16().half()


def test_one_short_number_may_be_chance() -> None:
    """One number of float16 in eight fits bfloat16, of four numbers one in 4,096 times."""
    alone = ordinary_failures("dot", bfloat16_result, "float16")
    assert alone
    assert "bfloat16-accumulator" not in causes(alone)
    several = ordinary_failures("mv", bfloat16_result, "float16")
    assert "bfloat16-accumulator" in causes(several)


def test_float64_in_float32_is_a_matter_of_precision_scaling() -> None:
    found = ordinary_failures("matmul", in_float32, "float64")
    assert mostly(found, "float32-instead-of-float64")
    assert {r.verdict.value for r in found} == {"precision-scaling"}


@pytest.mark.parametrize(("exponent", "tried"), [(0, True), (200, False)])
def test_numbers_beyond_float32_are_not_given_to_lapack(
    exponent: int, tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may end the process where it is given infinities."""
    matrix = TensorRecipe((5, 5), "float64", ("diagonal", 5, 6.0, exponent), 3095)
    given: list[Tensor] = []
    called = consistency.Operator.__call__

    def recorded(self: consistency.Operator, *args: Any, **kwargs: Any) -> Any:
        given.extend(x for x in args if isinstance(x, Tensor))
        return called(self, *args, **kwargs)

    monkeypatch.setattr(consistency.Operator, "__call__", recorded)
    operator = operators.get("linalg.eigvals")
    case = Case(operator.name, "float64", (matrix,))
    mine = Playing(lambda run, args, kwargs: run(args, kwargs) * 1.01)
    (result,) = judge_case(
        case, operator, [mine], tolerances.load(), ("forward",), diagnosis_budget=DiagnosisBudget()
    )
    assert result.verdict.value == "divergent"
    assert any(x.dtype == torch.float32 for x in given) == tried
    assert all(bool(x.isfinite().all()) for x in given)


@pytest.mark.parametrize(
    ("operator", "deed"), [("matmul", each(bits(11))), ("matmul", each(bits(8)))]
)
def test_shorter_inputs_are_reduced_precision(operator: str, deed: Deed) -> None:
    values = Counter(r.verdict.value for r in ordinary_failures(operator, deed))
    assert values["reduced-precision"] >= 0.9 * values.total()


def complex_in_tf32(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
    short = bits(11)

    def shortened(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        x = x.resolve_conj()
        return torch.complex(short(x.real), short(x.imag))

    return run([shortened(a) for a in args], kwargs)


def test_shorter_complex_inputs_are_reduced_precision() -> None:
    """Of a complex number both parts are rounded."""
    found = ordinary_failures("matmul", complex_in_tf32, "complex64")
    assert mostly(found, "tf32-inputs")
    assert Counter(r.verdict.value for r in found)["reduced-precision"] >= 0.9 * len(found)


def test_what_rounds_no_input_explains_nothing() -> None:
    """A sum in float64 differs from elements that are proved, and float64 itself, with inputs that
    TF32 holds or that nothing rounds, has the same errors."""
    numbers = TensorRecipe((255,), "complex128", ("uniform", -1.0, 1.0), 346)
    case = Case("cumsum", "complex128", (numbers, 0))
    (result,) = judge_case(
        case, operators.get("cumsum"), backends.resolve_all(["numpy"]), tolerances.load(),
        ("forward",),
    )  # fmt: skip
    assert result.metrics["differing"] > 100
    assert result.verdict.value == "rounding", result.explanation


def test_an_error_that_is_repeated_counts_once() -> None:
    """The gradient of what is broadcast repeats its elements: one coin, not 32."""
    error, predicted, true = (np.array(values) for values in ([1.0, -1.0], [2.0, 3.0], [4.0, 4.0]))
    single = context._distinct(error, predicted, true)
    repeated = context._distinct(*(np.repeat(x, 32) for x in (error, predicted, true)))
    for one, other in zip(single, repeated, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_call_that_asserts_its_sizes_refuses_a_hypothesis() -> None:
    """Hypotheses call an operator with other arguments, and this one raises AssertionError."""

    def shifted(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
        output, *rest = run(args, kwargs)
        return output + 1.0, *rest

    chosen = engine.configure(
        ["nn.functional.multi_head_attention_forward"], [Playing(shifted)], ["float32"],
        ["forward"], 12, shrink=False,
    )  # fmt: skip
    collect = engine.Collect()
    engine.drive(chosen, [collect])
    assert any(result.verdict.fails for result in collect.results)
    assert not [r.explanation for r in collect.results if isinstance(r.detail, HarnessFailed)]


def test_an_answer_that_changes_is_nondeterministic() -> None:
    random = torch.Generator().manual_seed(3)

    def now_and_then(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return run(args, kwargs) * (1.01 if torch.rand((), generator=random) < 0.2 else 1.0)

    found = failures("matmul", now_and_then)
    assert found
    assert {r.verdict.value for r in found} == {"nondeterministic"}
    assert all("repeats gave another answer" in r.explanation for r in found)


def test_a_work_around_is_printed_only_if_it_helped() -> None:
    found = failures("sum", each(without_strides))
    assert found
    tried = [r for r in found if r.evidence is not None and r.evidence.trials]
    kinds = [[r for r in found if r.verdict == kind] for kind in {r.verdict for r in found}]
    first = [r for kind in kinds for r in kind[:3]]
    assert {id(r) for r in tried} == {id(r) for r in first}, "of each kind the first three"
    assert all(r.workaround == ".contiguous() on the inputs" for r in tried)
    assert all(".contiguous() on the inputs makes it vanish" in r.explanation for r in tried)
    assert not any("vanish" in r.explanation for r in failures("sum", off_by(1.01)))


def test_another_formulation_is_tried() -> None:
    def wrong(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
        return run(args, kwargs) * 1.01

    class OnlyLinear(Playing):
        def call(
            self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
        ) -> Any:
            found = operator(*args, **kwargs)
            return found * 1.01 if operator.name == "nn.functional.linear" else found

    run = unshrunk(
        ["nn.functional.linear"], [OnlyLinear(wrong)], ["float32"], ["forward"], examples=8
    )
    tried = [r for r in run.failures if r.evidence is not None and r.evidence.trials]
    assert {r.workaround for r in tried} == {"x @ weight.T + bias"}


def test_the_one_that_stands_alone_is_named() -> None:
    run = unshrunk(
        ["tanh"], ["cpu", "numpy", Playing(off_by(1.01))], ["float32"], ["forward"], examples=8
    )
    assert {r.backend for r in run.failures} == {"mine"}
    assert any(
        "only mine is off: cpu and numpy match float64" in r.explanation for r in run.failures
    )


def test_a_wrong_formula_has_the_same_error_in_float64() -> None:
    assert any(
        "float64 has the same error: not a matter of precision" in r.explanation
        for r in failures("tanh", off_by(1.01))
    )


def test_half_an_ulp_in_an_ill_conditioned_input_is_no_fault() -> None:
    """A matrix that is nearly singular: another answer is as good, if it is the answer for a
    neighbor of the input."""
    torch.manual_seed(0)
    left, right = torch.randn(12, 12), torch.randn(12, 12)
    matrix = left @ torch.diag(torch.logspace(0, -6, 12)) @ right
    vector = torch.randn(12)

    def solve(a: Tensor, b: Tensor) -> Tensor:
        return torch.linalg.solve(a, b)

    def neighbor(a: Tensor, b: Tensor) -> Tensor:
        if a.dtype == torch.float64:
            return torch.linalg.solve(a, b)
        moved = a.double() * (
            1.0 + 2.0**-25 * torch.sign(torch.sin(torch.arange(144.0).double())).reshape(12, 12)
        )
        return torch.linalg.solve(moved, b.double()).float()

    rule = consistency_rule(c=1.0, lam=1e-9)
    (result,) = consistency.assert_consistent(neighbor, matrix, vector, reference=solve, rule=rule)
    assert result.verdict.value == "ill-conditioned"
    assert "no more than half an ulp in the inputs changes" in result.explanation

    def wrong(a: Tensor, b: Tensor) -> Tensor:
        return (
            torch.linalg.solve(a, b) if a.dtype == torch.float64 else torch.linalg.solve(a, b) * 3.0
        )

    with pytest.raises(consistency.Divergence):
        consistency.assert_consistent(wrong, matrix, vector, reference=solve, rule=rule)


def consistency_rule(c: float, lam: float) -> Any:
    from consistency.judge.rule_values import Rule

    return Rule(c, lam)


# --- the rules

FLAGGED = Judgment(Verdict("divergent"), "12 × budget", {"rho_max": 12.0})


def verdict_after(**changes: Any) -> str:
    policy = Policy(reduced_precision=changes.pop("allowed", False))
    return reconsider(FLAGGED, Evidence("divergent", **changes), policy).verdict.value


def test_the_stated_rules_and_no_others() -> None:
    assert verdict_after() == "divergent"
    assert verdict_after(repeats=3, other=1, within=1) == "nondeterministic"
    assert verdict_after(repeats=3, other=2) == "nondeterministic"
    assert verdict_after(cause=Cause("tf32-inputs", "TF32 inputs", 0.99)) == "reduced-precision"
    assert (
        verdict_after(cause=Cause("float32-instead-of-float64", "float32", 0.99))
        == "precision-scaling"
    )
    assert verdict_after(cause=Cause("terms-dropped", "last term missing", 0.99)) == "divergent"
    assert verdict_after(input_perturbation_ratio=0.9) == "ill-conditioned"
    assert verdict_after(input_perturbation_ratio=1.1) == "divergent"
    assert (
        verdict_after(input_perturbation_ratio=5.0, random_rounding_ratio=0.5) == "ill-conditioned"
    )
    assert verdict_after(random_rounding_ratio=0.0, input_perturbation_ratio=0.0) == "divergent"
    assert (
        verdict_after(input_perturbation_ratio=0.5, cause=Cause("scaled", "a factor of 2", 1.0))
        == "divergent"
    ), "explained is not excused"


def test_reduced_precision_that_was_asked_for_only_warns() -> None:
    evidence = Evidence("divergent", cause=Cause("tf32-inputs", "TF32 inputs", 0.99))
    assert reconsider(FLAGGED, evidence, Policy(reduced_precision=True)).verdict.warns
    assert reconsider(FLAGGED, evidence, Policy()).verdict.fails


@pytest.mark.parametrize(
    ("share", "text"), [(1.0, "100%"), (0.9987, "99.9%"), (0.995, "99.5%"), (0.93, "93%")]
)
def test_the_share_reads_as_a_percentage(share: float, text: str) -> None:
    assert str(Cause("tf32-inputs", "TF32 inputs", share)) == f"TF32 inputs explain {text}"
    assert str(Cause("scaled", "a factor of 2", share)) == f"a factor of 2 explains {text}"


def test_given_tensors_are_explained_too() -> None:
    torch.manual_seed(1)
    x, y = torch.randn(16, 64), torch.randn(64, 16)
    result = consistency.compare(bits(11)(x) @ bits(11)(y), operator="matmul", args=(x, y))
    assert (result.verdict.value, result.cause) == ("reduced-precision", "tf32-inputs")
    assert consistency.compare(x @ y, operator="matmul", args=(x, y)).verdict.passes


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("TF32 inputs", "TF32 inputs explain 100%"), ("the layout of the inputs",
        "the layout of the inputs explains 100%"),
        ("a factor of 2", "a factor of 2 explains 100%"),
    ],
)  # fmt: skip
def test_one_explains_and_several_explain(words: str, sentence: str) -> None:
    assert str(Cause("any", words, 1.0)) == sentence


# --- limits


def looked_into(effort: float, kinds: int = 3, results: int = 5) -> list[list[bool]]:
    """Which results of each kind of one operator are diagnosed in full."""
    budget = DiagnosisBudget(effort)
    return [
        [budget._affords(count, ("exp", "mine")) for count in range(1, results + 1)]
        for _ in range(kinds)
    ]


def test_the_first_failure_of_an_operator_is_looked_into_before_the_third_of_another() -> None:
    assert looked_into(EFFORT_SECONDS) == [[True, True, True, False, False]] * 3
    assert looked_into(0.4 * EFFORT_SECONDS) == [[True] + 4 * [False]] * 3
    assert looked_into(0.1 * EFFORT_SECONDS) == [[True] + 4 * [False], *[5 * [False]] * 2]
    assert looked_into(0.0) == [5 * [False]] * 3


def test_failures_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their verdicts stay, and so does a known cause."""

    def off(run: Run, args: list[Any], kwargs: dict[str, Any]) -> Any:
        y = run(args, kwargs)
        return y + (y.abs() * 0.01 + 0.1) * torch.linspace(0.5, 1.0, y.numel()).reshape(y.shape)

    in_full = failures("exp", off, examples=8)
    assert len(in_full) >= 5
    assert not any(r.evidence is not None and r.evidence.brief for r in in_full)
    effort, *others = DiagnosisBudget.__init__.__defaults__ or ()
    monkeypatch.setattr(DiagnosisBudget.__init__, "__defaults__", (0.0, *others))
    assert effort == EFFORT_SECONDS
    cut_short = failures("exp", off, examples=8)
    assert [r.verdict for r in cut_short] == [r.verdict for r in in_full]
    assert all(r.evidence is not None and r.evidence.brief for r in cut_short)
    summary = RunSummary()
    for result in cut_short:
        summary.add(
            result_from_json(Path("rows"), 1, row_of(result), {result.case.id: result.case})
        )
    assert summary.not_looked_into().startswith(f"{len(cut_short)} failures were not looked into")


class OffByAThousandth(consistency.Backend):
    """The CPU, times 1.001."""

    name = "off"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return operator(*args, **kwargs) * 1.001


def test_what_the_format_rounds_to_infinity_is_no_early_overflow() -> None:
    """exp of large numbers is infinite in float32, and finite in float64."""
    operator = operators.get("exp")
    case, *_ = exhaustive.cases(operator, "float32")
    rules = tolerances.load()
    (result,) = judge_case(
        case, operator, [OffByAThousandth()], rules, ("forward",),
        diagnosis_budget=DiagnosisBudget(),
    )  # fmt: skip
    assert result.verdict.fails
    assert result.cause == "scaled"


def in_place_of_infinities(number: float) -> Deed:
    return lambda run, args, kwargs: run(args, kwargs).nan_to_num(math.nan, number, -number)


def test_not_every_number_is_near_an_infinity() -> None:
    """The unit of an infinity is infinite: 0 was explained by the largest number, to 100%."""
    assert (zeros_found := failures("clone", in_place_of_infinities(0.0), examples=120))
    assert "saturated" not in causes(zeros_found)
    largest = failures("clone", in_place_of_infinities(3.4028234663852886e38), examples=120)
    assert causes(largest)["saturated"] >= 0.6 * len(largest) > 0
