"""Metrics: exact maxima for any rule, spacings as NumPy has them, blocks that change nothing,
patterns and their absence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.core.dtypes import FORMATS, Format, spacing
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.generate.materialize import case_of, prepare
from consistency.judge import error_places, metrics, tolerances
from consistency.judge.error_places import ErrorPattern, pattern_of
from consistency.judge.metrics import BLOCK
from consistency.judge.pareto import pareto_front, rho
from consistency.reference import Reference
from consistency.reference.high_precision import EACH
from consistency.reference.rounding_variance import healthy_variance

Doubles = npt.NDArray[np.float64]
SINGLE = FORMATS["float32"]


def ulp(reference: Any, form: Format) -> Doubles:
    array = np.atleast_1d(np.asarray(reference, dtype=np.float64))
    return spacing(array, form, np.empty_like(array))


# Spacing.


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_spacing_of_float64(number: float) -> None:
    assert ulp(number, FORMATS["float64"])[0] == max(math.ulp(number), math.ulp(2.0**-1022))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_spacing_of_float32(number: float) -> None:
    tiny = np.finfo(np.float32).smallest_normal
    assume(abs(number) < np.finfo(np.float32).max)  # where NumPy warns of an overflow
    assert ulp(number, SINGLE)[0] == np.spacing(max(np.float32(abs(number)), tiny))


@given(st.floats(width=16, allow_nan=False, allow_infinity=False))
def test_spacing_of_float16(number: float) -> None:
    tiny = np.finfo(np.float16).smallest_normal
    assume(abs(number) < np.finfo(np.float16).max)
    assert ulp(number, FORMATS["float16"])[0] == np.spacing(max(np.float16(abs(number)), tiny))


def test_spacing_of_every_bfloat16() -> None:
    every = (
        torch.arange(0, 0x7F80, dtype=torch.int16).view(torch.bfloat16).to(torch.float64).numpy()
    )
    normal = every >= 2.0**-126
    gaps = np.append(np.diff(every), 2.0 ** (127 - 7))
    got = ulp(every, FORMATS["bfloat16"])
    assert np.array_equal(got[normal], gaps[normal])
    assert (got[~normal] == 2.0**-133).all()


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_spacing_between_numbers_of_the_format_is_that_of_the_binade(form: Format) -> None:
    """References are float64 and lie between the numbers of the format."""
    assert ulp([1.0, math.nextafter(2.0, 0.0), 2.0, -3.7], form).tolist() == [
        2.0 ** (s - form.precision) for s in (1, 1, 2, 2)
    ]
    assert (
        ulp([0.0, form.smallest_normal], form).tolist()
        == [form.smallest_normal * 2.0 ** (1 - form.precision)] * 2
    )
    assert np.isinf(ulp([math.inf, -math.inf, math.nan], form)).all()


# The hull.

positive = st.floats(2.0**-60, 2.0**60)
factors = st.one_of(st.just(0.0), st.floats(2.0**-20, 2.0**20))


def brute(error: Doubles, unit: Doubles, scale: Doubles, c: float, lam: float) -> Doubles:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(error > 0, error / (c * unit + lam * scale), 0.0)


@st.composite
def elements(draw: st.DrawFn) -> tuple[Doubles, Doubles, Doubles]:
    n = draw(st.integers(1, 30))

    def array(kind: st.SearchStrategy[float]) -> Doubles:
        return np.array(draw(st.lists(kind, min_size=n, max_size=n)))

    return (
        array(st.one_of(st.just(0.0), positive)),
        array(positive),
        array(st.one_of(st.just(0.0), positive)),
    )


@given(elements(), factors, factors)
def test_the_hull_gives_the_largest_rho_for_any_rule(
    data: tuple[Doubles, Doubles, Doubles], c: float, lam: float
) -> None:
    error, unit, scale = data
    assume(c + lam > 0)
    pareto_points, where = pareto_front(error, unit, scale)
    expected = brute(error, unit, scale, c, lam)
    largest, pareto_point = rho(pareto_points, c, lam)
    assert largest == pytest.approx(float(expected.max()), rel=1e-12)
    if largest > 0:
        assert expected[where[pareto_point]] == pytest.approx(
            largest, rel=1e-12
        )  # and the element that causes it


@given(
    hnp.arrays(np.float64, st.integers(1, 100), elements=st.integers(0, 6).map(lambda k: 2.0**k)),
    st.data(),
)
def test_the_hull_of_many_equal_points(error: Doubles, data: st.DataObject) -> None:
    """Points on common lines and points that coincide: no corner may be lost, and few are kept."""
    few = st.integers(0, 6).map(lambda k: 2.0**k)
    unit = data.draw(hnp.arrays(np.float64, error.size, elements=few))
    scale = data.draw(hnp.arrays(np.float64, error.size, elements=few))
    pareto_points, _ = pareto_front(error, unit, scale)
    assert len(pareto_points) <= 13
    for c, lam in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (0.5, 8.0), (3.0, 0.01)):
        assert rho(pareto_points, c, lam)[0] == pytest.approx(
            float(brute(error, unit, scale, c, lam).max()), rel=1e-12
        )


def test_a_cloud_has_few_corners() -> None:
    random = np.random.default_rng(3)
    error, unit, scale = (np.exp(random.normal(size=50_000)) for _ in range(3))
    pareto_points, _ = pareto_front(error, unit, scale)
    assert 2 <= len(pareto_points) <= 40
    for c, lam in ((1.0, 2.0), (0.5, 0.01), (100.0, 1.0)):
        assert rho(pareto_points, c, lam)[0] == pytest.approx(
            float(brute(error, unit, scale, c, lam).max()), rel=1e-12
        )


def test_one_number_as_scale_or_none() -> None:
    error, unit = np.array([0.0, 3.0, 1.0, 4.0]), np.array([1.0, 1.0, 0.25, 2.0])
    for scale in (2.0, None):
        pareto_points, where = pareto_front(error, unit, scale)
        full = np.full(4, scale or 0.0)
        for c, lam in ((1.0, 0.0), (1.0, 1.0), (0.1, 4.0)):
            largest, pareto_point = rho(pareto_points, c, lam)
            expected = brute(error, unit, full, c, lam)
            assert largest == pytest.approx(float(expected.max()))
            assert expected[where[pareto_point]] == pytest.approx(largest)


def test_no_error_no_corner() -> None:
    assert pareto_front(np.zeros(5), np.ones(5), None) == ((), ())
    assert rho((), 1.0, 1.0) == (0.0, -1)
    assert pareto_front(np.empty(0), np.empty(0), np.empty(0)) == ((), ())


def test_no_budget_at_all_is_infinitely_exceeded() -> None:
    pareto_points, _ = pareto_front(np.array([1.0]), np.array([1.0]), np.array([0.0]))
    assert rho(pareto_points, 0.0, 5.0) == (math.inf, 0)


extremes = st.tuples(st.floats(5e-324, 1e308), st.floats(5e-324, 1e292), st.floats(0, 1e308))


@given(st.lists(extremes, min_size=1, max_size=20), positive, positive)
def test_the_hull_survives_the_ends_of_float64(
    rows: list[tuple[float, float, float]], c: float, lam: float
) -> None:
    error, unit, scale = (np.array(column) for column in zip(*rows, strict=True))
    pareto_points, _ = pareto_front(error, unit, scale)
    largest, pareto_point = rho(pareto_points, c, lam)
    assert pareto_point >= 0
    assert not math.isnan(largest)
    with np.errstate(over="ignore", divide="ignore"):
        expected = 1.0 / np.min(c * (unit / error) + lam * (scale / error))
    # Corners may merge where products of quotients underflow: both are beyond any budget then.
    assert largest == pytest.approx(float(expected), rel=1e-9) or min(largest, expected) > 1e100


# Blocks.

SIZES = (1, 2, 255, 256, 257, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 17)


def pair(n: int, tail: bool = False) -> tuple[npt.NDArray[np.float32], Doubles, Doubles | None]:
    random = np.random.default_rng(n)
    reference = random.normal(size=n)
    reference[::7] = 0.0
    actual = (reference * (1 + 1e-7 * random.normal(size=n))).astype(np.float32)
    return actual, reference, random.normal(size=n) * 1e-20 if tail else None


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("tail", [False, True])
def test_blocks_agree_with_one_piece(n: int, tail: bool) -> None:
    actual, reference, rest = pair(n, tail)
    sums = metrics.absolute_and_ulp(actual, reference, rest, SINGLE)
    signed = actual - reference - (0 if rest is None else rest)
    error = np.abs(signed)
    assert np.array_equal(metrics.errors(actual, reference, rest), error)
    assert sums.abs_max == error.max()
    assert sums.ulp_max == (error / ulp(reference, SINGLE)).max()
    assert sums.squares == pytest.approx(float((error**2).sum()), rel=1e-12)
    assert (sums.differing, sums.nonzero) == (np.count_nonzero(error), np.count_nonzero(reference))
    counted = (
        np.count_nonzero(signed > 0),
        np.count_nonzero(signed < 0),
        np.count_nonzero(signed * reference > 0),
    )
    assert (sums.positive, sums.negative, sums.outward) == (counted if n >= 256 else (0, 0, 0))
    assert not sums.bad


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("constant", [False, True])
def test_scaled_blocks_agree_with_one_piece(n: int, constant: bool) -> None:
    actual, reference, rest = pair(n, tail=True)
    magnitude: Any = 3.0 if constant else np.abs(reference) + 0.5
    unit, p, q = (
        2.0**-24,
        1e-20,
        3e-20,
    )  # so small that the errors are many σ, even of the few elements
    sums = metrics.absolute_and_ulp(actual, reference, rest, SINGLE)
    metrics.scaled(actual, reference, rest, magnitude, (unit, p, q), sums)
    error = metrics.errors(actual, reference, rest)
    squares = error**2 / (p * reference**2 + q * np.square(magnitude))
    assert sums.scaled_max == pytest.approx(float((error / (unit * magnitude)).max()), rel=1e-12)
    assert sums.sigma_squares == pytest.approx(float(squares.sum()), rel=1e-12)
    assert sums.sigma_max == pytest.approx(float(squares.max()), rel=1e-12)


def test_few_unremarkable_errors_are_left_at_zero_sigma() -> None:
    actual, reference, _ = pair(64)
    sums = metrics.absolute_and_ulp(actual, reference, None, SINGLE)
    for q, told in ((1e-8, False), (1e-17, True)):
        sums.sigma_max = 0.0
        metrics.scaled(actual, reference, None, np.abs(reference) + 0.5, (2.0**-24, 0.0, q), sums)
        assert (sums.sigma_max > 0.0) is told


def test_a_magnitude_of_nan_or_zero_forgives_nothing() -> None:
    actual, reference, _ = pair(64)
    magnitude = np.ones(64)
    magnitude[7], magnitude[9] = math.nan, 0.0
    sums = metrics.absolute_and_ulp(actual, reference, None, SINGLE)
    with np.errstate(all="ignore"):
        metrics.scaled(actual, reference, None, magnitude, 2.0**-24, sums)
    assert sums.scaled_max > 1e200


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", [0, BLOCK - 1, BLOCK, BLOCK + 5])
def test_a_nan_or_infinity_anywhere_is_noticed(bad: float, where: int) -> None:
    for side in (0, 1):
        arrays = [np.ones(BLOCK + 6), np.ones(BLOCK + 6)]
        arrays[side][where] = bad
        assert metrics.absolute_and_ulp(arrays[0], arrays[1], None, FORMATS["float64"]).bad


def test_nothing_at_all_has_no_error() -> None:
    """As when every element was NaN and was set aside."""
    sums = metrics.absolute_and_ulp(np.empty(0, np.float32), np.empty(0), None, SINGLE)
    assert (sums.bad, sums.ulp_max, sums.abs_max, sums.differing) == (False, 0.0, 0.0, 0)


def test_the_scratch_of_one_output_does_not_leak_into_the_next() -> None:
    actual, reference, _ = pair(300)
    fresh = metrics.absolute_and_ulp(actual, reference, None, SINGLE)
    metrics.absolute_and_ulp(np.full(BLOCK, 9.0), np.zeros(BLOCK), None, SINGLE)
    assert metrics.absolute_and_ulp(actual, reference, None, SINGLE) == fresh


def test_the_healthy_variance_is_that_of_a_sequential_sum() -> None:
    """Sums of products in float32, element by element in order: their errors are about 1 σ."""
    random = np.random.default_rng(5)
    for n in (64, 1024):
        terms = random.uniform(-1, 1, size=(2000, n)).astype(np.float32)
        total = np.add.accumulate(terms, axis=1, dtype=np.float32)[:, -1]
        reference = terms.astype(np.float64).sum(1)
        p, q = healthy_variance(n, 2.0**-24, 2.0**-24)
        sigma = np.sqrt(
            np.mean(
                (total - reference) ** 2
                / (p * reference**2 + q * np.abs(terms.astype(float)).sum(1) ** 2)
            )
        )
        assert 0.6 < sigma < 1.4


# Patterns.


def spread(shape: tuple[int, ...], *where: Any) -> str:
    error = np.zeros(shape)
    for index in where:
        error[index] = 1.0
    return pattern_of(error.reshape(-1), shape).words


def test_where_errors_lie_together() -> None:
    everything = slice(None)
    assert spread((100,), slice(96, None)) == "only in the last 4 of 100 elements"
    assert spread((10, 10), slice(0, 2)) == "only in the first 20 of 100 elements"
    assert spread((12, 9), 5) == "only where index 0 is 5"
    assert spread((12, 9), (everything, 3)) == "only where index 1 is 3"
    assert spread((4, 32), (everything, slice(3, None, 8))) == "only where index 1 is 3 modulo 8"
    assert spread((64, 5), slice(2, None, 4)) == "only where index 0 is 2 modulo 4"
    assert (
        spread((9, 21), (everything, slice(16, None)))
        == "only in the last 5 of 21 along dimension 1"
    )


def test_the_first_and_the_last_elements_are_told_as_data() -> None:
    def at_end(shape: tuple[int, ...], *where: Any) -> bool:
        error = np.zeros(shape)
        error[where] = 1.0
        return pattern_of(error.reshape(-1), shape).at_end

    assert at_end((100,), slice(96, None))
    assert at_end((10, 10), slice(0, 2))
    assert at_end((9, 21), slice(None), slice(16, None))
    assert not at_end((12, 9), 5)
    assert not at_end((4, 32), slice(None), slice(3, None, 8))


@given(st.integers(0, 10**6))
def test_scattered_errors_have_no_pattern(seed: int) -> None:
    random = np.random.default_rng(seed)
    error = random.exponential(size=400) ** 2
    assert pattern_of(error, (20, 20)) == ErrorPattern()
    error[random.choice(400, size=random.integers(5, 60), replace=False)] += 1e3
    assert pattern_of(error, (20, 20)) == ErrorPattern()


def test_no_pattern_in_too_few_errors() -> None:
    assert spread((15,), slice(12, None)) == ""
    assert spread((100,), 7) == ""
    assert spread((100,)) == ""
    assert spread((100,), slice(0, 60)) == ""
    assert pattern_of(np.empty(0), (0, 3)) == ErrorPattern()
    assert pattern_of(np.array([1.0]), ()) == ErrorPattern()


def test_small_errors_elsewhere_do_not_hide_a_pattern() -> None:
    error = np.full((12, 9), 0.1)
    error[5] = 1.0
    assert pattern_of(error.reshape(-1), (12, 9)) == ErrorPattern("only where index 0 is 5")


# --- clusters


def squares(shape: tuple[int, ...], *, seed: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(0.0, 1.0, shape) ** 2


@pytest.mark.parametrize(("shape", "where", "words", "members"), [
    ((64, 96), np.s_[16:32, 32:48], "in the tile from row 16, column 32", 256),
    ((3, 64, 96), np.s_[1, 48:64, :16], "in the tile from row 48, column 0", 256),
    ((64, 96), np.s_[5], "where index 0 is 5", 96),
    ((64, 96), np.s_[:, 90], "where index 1 is 90", 64),
    ((64, 99), np.s_[..., -3:], "in the last 3 of each 99", 192),
    ((600, 19), np.s_[..., -3:], "in the last 3 of each 19", 1800),
])  # fmt: skip
def test_a_group_that_errs_more_is_found(
    shape: tuple[int, ...], where: Any, words: str, members: int
) -> None:
    errors = squares(shape)
    errors[where] *= 16.0
    found = error_places.clustered(errors.reshape(-1), shape)
    assert found is not None
    assert found[1:] == (members, words)
    assert found[0] == pytest.approx(4.0, rel=0.25)


@pytest.mark.parametrize("shape", [(4096,), (64, 96), (64, 99), (5, 7, 40), (16, 16)])
@pytest.mark.parametrize("seed", range(5))
def test_scattered_errors_make_no_cluster(shape: tuple[int, ...], seed: int) -> None:
    found = error_places.clustered(squares(shape, seed=seed).reshape(-1), shape)
    assert found is None or found[0] < 1.6 * metrics.scatter(found[1])


def test_a_few_elements_are_no_group() -> None:
    assert error_places.clustered(squares((2, 9)).reshape(-1), (2, 9)) is None
    assert error_places.clustered(squares(()).reshape(-1), ()) is None


X = torch.linspace(-1.0, 1.0, 80)


@pytest.mark.parametrize(("operator", "args", "factor"), [
    ("addmm", (X[:16].reshape(4, 4), X[20:36].reshape(4, 4), X[40:56].reshape(4, 4)), "alpha"),
    ("addmm", (X[:16].reshape(4, 4), X[20:36].reshape(4, 4), X[40:56].reshape(4, 4)), "beta"),
    ("nn.functional.avg_pool3d", (X.reshape(1, 1, 4, 5, 4), (2, 2, 3)), "divisor_override"),
])  # fmt: skip
def test_the_magnitude_of_a_negative_whole_factor(
    operator: str, args: tuple[Any, ...], factor: str
) -> None:
    """What is taken away was summed as much as what is added."""

    def magnitude(value: int) -> Any:
        case = case_of(operator, "float32", args, {factor: value})
        return Reference(operators.get(operator), prepare(case), "forward").magnitudes[0]

    assert torch.equal(magnitude(-2), magnitude(2))
    assert bool((magnitude(-2) > 0.0).all())


def test_a_certified_value_beyond_the_format_is_the_limit() -> None:
    """Its last digits, of 1e55 themselves larger than the format, are no error of an infinity."""
    case = Case("sinh", "bfloat16", (TensorRecipe((1,), "bfloat16", ("every", 0x42FF)),))
    rules, operator = tolerances.load(), operators.get("sinh")
    (result,) = judge_case(case, operator, [Cpu()], rules, ("forward",), against=EACH)
    assert result.verdict.value == "exact", result.explanation
