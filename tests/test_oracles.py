"""Oracles above float64: their arithmetic against exact fractions, each against a second source, and what they find in a CPU."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import consistency
from consistency import generate, operators, oracles, wider
from consistency.backends import resolve
from consistency.cli import main
from consistency.errors import BundleError, UsageError
from consistency.evaluate import evaluate
from consistency.materialise import case_of, prepare
from consistency.model import Case, Result
from consistency.operators.declare import Operator
from consistency.oracles import _numbers, composed, double_double, elementwise, gradients
from consistency.oracles.double_double import DoubleDouble
from consistency.oracles.special import second_kind
from consistency.reference import Reference, quiet
from consistency.report.failure import message
from consistency.settings import settings
from consistency.tolerances import load

rules = functools.cache(load)
CPU = resolve("cpu")
LONG = np.finfo(np.longdouble).nmant > 52
SOURCES = {name: found.source for name, operator in operators.registry().items() if (found := oracles.of(operator)) is not None}
COMPUTED = sorted(name for name, source in SOURCES.items() if source != "exact")


def numbers(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    """Of both signs and magnitudes 2⁻²⁰ … 2²⁰."""
    source = np.random.Generator(np.random.Philox(seed))
    return np.asarray(np.ldexp(source.uniform(-1.0, 1.0, shape), source.integers(-20, 20, shape)))


def exactly(value: DoubleDouble) -> list[Fraction]:
    return [Fraction(h) + Fraction(t) for h, t in zip(value.high.reshape(-1), value.low.reshape(-1), strict=True)]


def fractions(array: np.ndarray[Any, Any]) -> list[Fraction]:
    return [Fraction(item) for item in array.reshape(-1)]


def test_how_many() -> None:
    assert len(SOURCES) >= 380
    assert len(COMPUTED) >= 200
    assert {source: sum(s == source for s in SOURCES.values()) >= least for source, least in
            {"mpmath": 100, "double-double": 50, "formulas": 45, "exact": 180}.items()} == dict.fromkeys(
                ("mpmath", "double-double", "formulas", "exact"), True)  # fmt: skip


# --- arithmetic ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["+", "-", "*", "/"])
def test_double_double_arithmetic(operation: str) -> None:
    a, b, c, d = (numbers(i, 300) for i in range(4))
    x, y = DoubleDouble(a) + c * 2.0**-60, DoubleDouble(b) + d * 2.0**-60
    apply = {"+": lambda p, q: p + q, "-": lambda p, q: p - q, "*": lambda p, q: p * q, "/": lambda p, q: p / q}[operation]
    for got, p, q in zip(exactly(apply(x, y)), exactly(x), exactly(y), strict=True):
        assert abs(got - apply(p, q)) <= abs(apply(p, q)) * Fraction(15, 2**106)


def test_double_double_roots_and_sums() -> None:
    x = numbers(1, 1000)
    for got, number in zip(exactly(DoubleDouble(np.abs(x)).sqrt()), fractions(np.abs(x)), strict=True):
        assert abs(got * got - number) <= number * Fraction(16, 2**106)
    (total,), size = exactly(DoubleDouble(x).sum()), sum(map(abs, fractions(x)))
    assert abs(total - sum(fractions(x))) <= size * Fraction(32, 2**106)
    running, exact = exactly(DoubleDouble(x).cumsum(0)), Fraction(0)
    for got, number in zip(running, fractions(x), strict=True):
        exact += number
        assert abs(got - exact) <= size * Fraction(32, 2**106)


def test_double_double_products() -> None:
    a, b = numbers(2, 5, 40), numbers(3, 40, 7)
    got = exactly(double_double.matmul(DoubleDouble(a), DoubleDouble(b)))
    for i, j, value in ((i, j, got[7 * i + j]) for i in range(5) for j in range(7)):
        terms = [Fraction(x) * Fraction(y) for x, y in zip(a[i], b[:, j], strict=True)]
        assert abs(value - sum(terms)) <= sum(map(abs, terms)) * Fraction(32, 2**106)


def test_infinities_and_nan_go_where_float64_takes_them() -> None:
    x = torch.tensor([[math.inf, 1.0], [math.nan, 1.0], [-math.inf, math.inf], [0.0, 2.0]], dtype=torch.float64)
    for name in ("sum", "mean"):
        (answer,) = ask(name, x, 1)
        assert np.array_equal(answer.high, getattr(x, name)(1).numpy(), equal_nan=True)
        assert np.array_equal(answer.tail, np.zeros(4))


@pytest.mark.parametrize(
    ("value", "high"),
    [
        ("0.1", 0.1), ("1e400", math.inf), ("-1e400", -math.inf), ("1e-400", 0.0), ("-1e-400", -0.0), ("nan", math.nan),
        ("4.94e-324", 5e-324), ("7.4e-324", 5e-324), ("7.5e-324", 1e-323), ("1.7976931348623158e308", 1.7976931348623157e308),
        ("1.7976931348623159e308", math.inf), ("9007199254740993", 9007199254740992.0),
    ],
)  # fmt: skip
def test_splitting_rounds_once(value: str, high: float) -> None:
    got, tail = _numbers.split(_numbers.context().mpf(value))
    assert (got == high and math.copysign(1.0, got) == math.copysign(1.0, high)) or (math.isnan(got) and math.isnan(high))
    if high == 9007199254740992.0:
        assert tail == 1.0
    if abs(high) < 1e-290 or not math.isfinite(high):
        assert tail == 0.0


# --- elements -----------------------------------------------------------------------------------------------------------


def ask(name: str, *args: Any, most: int | None = None, **kwargs: Any) -> Sequence[oracles.Answer]:
    found = oracles.oracle(name)
    assert found is not None
    return found(args, kwargs, most)


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("exp", 710.0, math.inf), ("exp", -745.13, 5e-324), ("exp", -746.0, 0.0), ("exp", -math.inf, 0.0),
        ("exp", math.nan, math.nan),
        ("log", 0.0, -math.inf), ("log", -1.0, math.nan), ("log", math.inf, math.inf), ("sqrt", -1.0, math.nan),
        ("tanh", math.inf, 1.0), ("atan", -math.inf, -math.pi / 2), ("atanh", 1.0, math.inf), ("log1p", -1.0, -math.inf),
        ("special.ndtr", -20.0, 2.7536241186062337e-89), ("polygamma", 2.5, 0.4903577561002348), ("erfinv", 1.0, math.inf),
        ("lgamma", -0.5, 1.2655121234846454), ("special.bessel_j0", 5.0, -0.1775967713143383), ("sinc", 0.5, 2.0 / math.pi),
        ("special.airy_ai", 0.0, 0.3550280538878172), ("special.zeta", 2.0, math.pi**2 / 6), ("igamma", 1.0, 1.0 - math.exp(-1.0)),
        ("nn.functional.tanhshrink", 1e-30, 3.333333333333333e-91), ("special.erfcx", 1e4, 5.641895807268084e-05),
    ],
)  # fmt: skip
def test_values_from_tables(name: str, x: float, expected: float) -> None:
    first = torch.tensor([x], dtype=torch.float64)
    args = {"polygamma": (1, first), "special.zeta": (first, torch.ones_like(first)), "igamma": (first, first)}.get(name, (first,))
    (answer,) = ask(name, *args)
    assert answer.places is not None
    assert answer.places.size == 1
    assert answer.high[0] == pytest.approx(expected, rel=2e-15, abs=0.0, nan_ok=True)


@pytest.mark.parametrize("x", ["0.001", "0.7", "5.0", "37.5", "99.0"])
@pytest.mark.parametrize("order", [0, 1])
def test_second_kind(x: str, order: int) -> None:
    """The series for whole orders against mpmath's general formula, which takes twenty times as long."""
    m = _numbers.context()
    for sign, known in ((1, m.besselk), (-1, m.bessely)):
        got, want = second_kind(m, order, m.mpf(x), sign), known(order, m.mpf(x))
        assert abs(got - want) <= 2.0**-140 * abs(want)


def test_what_nobody_knows_is_left_out() -> None:
    x = torch.tensor([1.0, math.inf, 0.0, math.nan], dtype=torch.float64)
    (answer,) = ask("special.bessel_y0", x)
    assert answer.places is not None
    assert answer.places.tolist() == [0, 3]
    with pytest.raises(oracles.Unsure):
        ask("exp", torch.ones(1, dtype=torch.complex128))
    assert oracles.oracle("linalg.svd") is None
    assert oracles.oracle("floor_divide") is None


def test_a_sample_holds_both_ends() -> None:
    places = elementwise.sample(1000, 16)
    assert (places.size, places[0], places[-1]) == (16, 0, 999)
    assert elementwise.sample(9, 16).tolist() == list(range(9))


# --- two sources --------------------------------------------------------------------------------------------------------


@functools.cache
def drawn(name: str) -> tuple[Case, ...]:
    operator = operators.get(name)
    dtype = "float64" if "float64" in operator.dtypes else operator.dtypes[0]
    return tuple(generate.batch(operator, dtype, 3, 7))


def sharpened(case: Case, mode: str) -> Reference:
    with quiet():
        reference = Reference(operators.get(case.operator), prepare(case), "forward")
        wider.sharpen(reference, mode)
    return reference


@pytest.mark.skipif(not LONG, reason="long doubles are no wider than float64 here")
@pytest.mark.parametrize("name", [name for name in COMPUTED if operators.get(name).observe is None])
def test_agrees_with_long_doubles(name: str) -> None:
    """To 2⁻⁵⁶ of S, where an implementation computes in them: half a dozen steps of a long double's rounding."""
    for case in drawn(name):
        long = sharpened(case, "float64")
        if not long.independent or case.dtype != "float64":
            continue
        exact = sharpened(case, "verified")
        if exact.verified is None:
            continue
        for i, (a, b, s) in enumerate(zip(long.outputs, exact.outputs, exact.magnitudes, strict=True)):
            assert a.tensor is not None
            assert b.tensor is not None
            one, two = a.tensor.numpy(), b.tensor.numpy()
            assert np.array_equal(np.isnan(one), np.isnan(two))
            if one.dtype.kind != "f":
                assert np.array_equal(one, two)
                continue
            with np.errstate(invalid="ignore", over="ignore"):
                error = np.abs((one - two) + (tail_of(long, i) - tail_of(exact, i)))
                size = np.abs(two) + (np.nan_to_num(np.abs(np.asarray(s))) if s is not None else 0.0)
            # Where there is no tail, the value is float64's: subnormal, exact, or one that the oracle does not know.
            bound = np.where(tail_of(exact, i) == 0.0, 2.0**-53, 2.0**-56 * max(long.terms(0), 1.0) ** 0.5) * size + 2.0**-1060
            finite = np.isfinite(one) & np.isfinite(two)
            assert (error[finite] <= bound[finite]).all(), case.line


def tail_of(reference: Reference, index: int) -> Any:
    tail = reference.tails[index] if index < len(reference.tails) else None
    return 0.0 if tail is None else tail.numpy()


@pytest.mark.parametrize("name", sorted(name for name, source in SOURCES.items() if source == "double-double"))
def test_double_doubles_agree_with_mpmath(name: str) -> None:
    if not composed.composes(operators.get(name)):
        pytest.skip("no formula to compare with")
    compared = 0
    for case in drawn(name):
        arguments = prepare(case).build("float64")
        if sum(t.numel() for t in arguments.tensors) > 800:
            continue
        try:
            with quiet():
                one = ask(name, *arguments.args, **arguments.kwargs)
                two = composed.evaluate(name, arguments.args, arguments.kwargs)
        except oracles.Unsure:
            continue
        reference = sharpened(case, "float64")
        for a, b, s in zip(one, two, reference.magnitudes, strict=True):
            assert a.shape == b.shape
            size = (
                np.asarray(s).reshape(-1)
                if isinstance(s, torch.Tensor) and s.numel() == a.high.size
                else np.abs(b.high).max(initial=0)
            )
            error = np.abs((a.high - b.high) + (a.tail - b.tail))  # type: ignore[operator]
            assert (error <= 2.0**-85 * (size + np.abs(b.high))).all(), case.line
            compared += 1
    assert compared or name in ("cross", "linalg.cross", "nn.functional.bilinear", "cumsum"), "nothing was compared"


# --- what they find -----------------------------------------------------------------------------------------------------

# docs/findings.md: float64 on the CPU is itself wrong.
WRONG = {
    "special.bessel_j0", "special.bessel_j1", "special.bessel_y0", "special.bessel_y1", "special.airy_ai", "polygamma",
}  # fmt: skip

if torch.__version__.startswith("2.4."):
    WRONG |= {"nn.functional.elu", "nn.functional.selu"}


@pytest.mark.parametrize("name", [name for name in COMPUTED if name not in WRONG])
def test_healthy_float64_is_not_accused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(wider, "LIMIT", 256)
    for case in drawn(name):
        for result in judged(case, "verified"):
            assert not result.verdict.fails, (result.explanation, case.line)


def judged(case: Case, against: str, operator: Operator | None = None) -> list[Result]:
    return evaluate(case, [CPU], rules(), directions=("forward",), operator=operator, against=against)


def faulty(monkeypatch: pytest.MonkeyPatch, name: str, by: float) -> Operator:
    """The registry's operator, on a CPU whose float64 is off by a factor of 1 + ``by``; its float32 is right."""
    operator = operators.get(name)
    right = operator.callable
    assert right is not None

    def wrong(*args: Any, **kwargs: Any) -> Any:
        result = right(*args, **kwargs)
        return result * (1.0 + by) if result.dtype == torch.float64 else result

    monkeypatch.setitem(operator.__dict__, "callable", wrong)
    return operator


def positive(name: str, dtype: torch.dtype, count: int = 40) -> Case:
    x = torch.linspace(0.5, 3.0, count, dtype=torch.float64).to(dtype)
    return case_of(name, str(dtype).removeprefix("torch."), (x,), {})


@pytest.mark.parametrize("name", ["special.erfcx", "digamma", "exp", "sum"])
@pytest.mark.parametrize("against", ["verified", wider.EACH])
def test_a_wrong_float64_is_found(monkeypatch: pytest.MonkeyPatch, name: str, against: str) -> None:
    faulty(monkeypatch, name, 1e-9)
    if against == wider.EACH and name in ("exp", "sum"):
        monkeypatch.setattr(wider, "_long_double", lambda reference: None)
    (result,) = judged(positive(name, torch.float64), against)
    assert result.verdict.value == "divergent"
    assert result.explanation.startswith("float64 on the CPU is itself off: 1.0e-09 relative at ")
    assert name in result.explanation
    assert re.search(r"worst .* of out/0: got \S+, right is \S+\n", message(result))


def test_other_dtypes_are_judged_by_what_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    case = positive("special.erfcx", torch.float32)
    assert judged(case, "float64")[0].verdict.passes
    faulty(monkeypatch, "special.erfcx", 1e-4)
    assert judged(case, "float64")[0].verdict.value == "divergent"
    for against in ("verified", wider.EACH):
        assert judged(case, against)[0].verdict.passes


def test_a_healthy_float64_is_vouched_for() -> None:
    few, many = positive("special.erfcx", torch.float64, 12), positive("special.erfcx", torch.float64, 5000)
    assert judged(few, "float64")[0].verdict.value == "undecidable"
    assert judged(few, wider.EACH)[0].verdict.passes
    assert judged(many, wider.EACH)[0].verdict.value == "undecidable"
    (result,) = judged(many, "verified")
    assert result.verdict.passes
    assert "(verified at 4096 of 5000 elements)" in result.explanation


def test_a_users_operator_of_the_same_name_is_not_judged_by_the_oracle() -> None:
    mine = Operator(name="exp", family="unary", sample=operators.get("exp").sample, function=lambda x: torch.exp(2 * x))
    assert not judged(positive("exp", torch.float32), "verified", mine)[0].verdict.fails


def test_spot_checks_are_a_fixed_choice() -> None:
    cases = [positive("special.erfcx", torch.float64, n) for n in range(1, 13)]
    checked = [judged(case, "spot")[0].verdict.passes for case in cases]
    assert checked == [int(case.digest[:8], 16) % wider.ONE_CASE_IN == 0 for case in cases]
    assert any(checked)


# --- options ------------------------------------------------------------------------------------------------------------


def test_the_mode_is_part_of_the_settings(tmp_path: Path) -> None:
    assert settings(["exp"], ["cpu"]).describe()["reference"] == "spot"
    run = consistency.run(
        ["special.erfcx"], ["cpu"], ["float64"], ["forward"], examples=3, out=tmp_path / "b", reference="verified"
    )
    assert run.settings.describe()["reference"] == "verified"
    assert not any(result.verdict.fails for result in run.results)
    assert sum(result.verdict.passes for result in run.results) >= 2
    with pytest.raises(BundleError, match="begun with other reference"):
        consistency.run(["special.erfcx"], ["cpu"], ["float64"], ["forward"], examples=3, out=tmp_path / "b", resume=True)


def test_an_unknown_mode() -> None:
    outcome = CliRunner().invoke(main, ["run", "exp", "--backend", "cpu", "--no-bundle", "--reference", "verifed"])
    assert outcome.exit_code == 2
    assert outcome.stderr == "consistency: unknown reference 'verifed'; did you mean verified?\n"


def test_without_mpmath(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_numbers, "context", lambda: None)
    assert oracles.of(operators.get("exp")) is None
    assert oracles.of(operators.get("softmax")) is None
    assert oracles.of(operators.get("sum")) is not None
    message = "reference 'verified' needs mpmath, which cannot be imported: pip install 'consistency\\[mpmath\\]'"
    with pytest.raises(UsageError, match=message):
        settings(["exp"], ["cpu"], reference="verified")
    assert not judged(positive("exp", torch.float32), wider.EACH)[0].verdict.fails
    assert settings(["exp"], ["cpu"]).reference == "spot"


# --- gradients ----------------------------------------------------------------------------------------------------------


def gradient(case: Case, against: str = "verified") -> Result:
    (result,) = evaluate(case, [CPU], rules(), directions=("backward",), against=against)
    return result


DIFFERENTIATED = sorted(name for name, operator in operators.registry().items() if gradients.knows(operator))
WRONG_GRADIENTS = {"digamma", "polygamma", "ldexp", "nn.functional.hardsigmoid"}


def test_how_many_gradients() -> None:
    assert len(DIFFERENTIATED) >= 150


@pytest.mark.parametrize("name", [name for name in DIFFERENTIATED if name not in WRONG_GRADIENTS])
def test_healthy_gradients_are_not_accused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(wider, "GRADIENTS", 48)
    for case in drawn(name):
        result = gradient(case)
        assert not result.verdict.fails, (result.explanation, case.line)


@pytest.mark.parametrize("name", ["exp", "matmul", "cat"])
def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    operator = operators.get(name)
    right = operator.callable
    assert right is not None

    def wrong(*args: Any, **kwargs: Any) -> Any:
        result = right(*args, **kwargs)
        return result.detach() + 1.0001 * (result - result.detach())  # the same value, another slope

    a = torch.linspace(0.5, 2.0, 9, dtype=torch.float64)
    args: tuple[Any, ...] = {"exp": (a,), "matmul": (a.reshape(3, 3), a.reshape(3, 3).T.clone()), "cat": ([a, a + 1],)}[name]
    case = case_of(name, "float64", args, {}, 77)
    assert gradient(case).verdict.passes
    monkeypatch.setitem(operator.__dict__, "callable", wrong)
    assert gradient(case, "float64").verdict.value == "undecidable"
    for against in ("verified", wider.EACH):
        result = gradient(case, against)
        assert result.verdict.value == "divergent"
        assert result.explanation.startswith("float64 on the CPU is itself off: 1.0e-04 relative at ")


def test_slopes() -> None:
    """Against closed forms; at a kink, a pole and an infinity there is none."""
    x = torch.tensor([1e-300, -27.0, 0.0, 3.0, math.inf], dtype=torch.float64)
    for name, closed in (
        ("erf", lambda m, v: 2 / m.sqrt(m.pi) * m.exp(-v * v)),
        ("tanh", lambda m, v: 1 / m.cosh(v) ** 2),
        ("nn.functional.elu", lambda m, v: 1 if v > 0 else m.exp(v)),
    ):
        arguments = prepare(case_of(name, "float64", (x,), {}, 8)).build("float64", gradients=True)
        (answer,) = gradients.evaluate(operators.get(name), arguments, 8)
        assert answer.places is not None
        weights = gradients._drawn((5,), 8, arguments)
        m = _numbers.context()
        assert answer.places.tolist() == [0, 1, 2, 3]
        for place, high, tail in zip(answer.places.tolist(), answer.high, answer.tail, strict=True):  # type: ignore[arg-type]
            want = m.mpf(weights[place]) * closed(m, m.mpf(x[place].item()))
            assert abs(m.mpf(float(high)) + m.mpf(float(tail)) - want) <= 2.0**-90 * abs(want) + m.mpf(2) ** -1075
    relu6 = prepare(case_of("nn.functional.hardsigmoid", "float64", (torch.tensor([3.0, 0.0], dtype=torch.float64),), {}, 8))
    (answer,) = gradients.evaluate(operators.get("nn.functional.hardsigmoid"), relu6.build("float64", gradients=True), 8)
    assert answer.places is not None
    assert answer.places.tolist() == [1]
