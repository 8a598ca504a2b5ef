"""Value classes: numbers of the wanted kind, in the dtype, in their domain, the same whatever
window they are read through."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from consistency.core import dtypes
from consistency.core.dtypes import FORMATS, Format
from consistency.errors import RecipeError
from consistency.generate import fill as fill_module
from consistency.generate import value_classes

N = 1024
STOP = 5000
FLOATING = tuple(FORMATS)
INTEGRAL = {"int64": 2**62, "int32": 2**31, "int16": 2**15, "int8": 2**7}

# A class with parameters, and the interval its numbers lie in.
BOUNDED: dict[tuple[Any, ...], tuple[float, float]] = {
    ("uniform", -1.0, 1.0): (-1.0, 1.0),
    ("uniform", 2.0, 1024.0): (2.0, 1024.0),
    ("uniform", -0.5, -0.25): (-0.5, -0.25),
    ("normal", 0.0, 1.0): (-3.5, 3.5),
    ("normal", 4.0, 0.5): (0.0, 6.0),
    ("wide", -8, 7): (-256.0, 256.0),
    ("wide", -8, 7, 0): (2.0**-8, 256.0),
    ("cancelling", 1.0): (-1.0 - 2.0**-7, 1.0 + 2.0**-7),
    ("offset", 64.0, 1.0): (63.0, 65.0),
    ("integers", -4, 4): (-4.0, 4.0),
    ("integers", 3, 3): (3.0, 3.0),
    ("sparse", 0.25): (-1.0, 1.0),
    ("near", 0.0, 4.0, 2.0, 3.0): (0.0, 4.0),
    ("near", -0.25, 1.0, 0.0, 1.0): (-0.25, 1.0),
    ("tokens", -1.0, 1.0, "1", "-0"): (-1.0, 1.0),
    ("distinct",): (0.0, 512.0),
    ("permutation",): (0.0, 1024.0),
    ("ascending", -2.0, 2.0): (-2.0, 2.0),
    ("diagonal", 4, 8.0): (-1.0, 9.0),
    ("exchanged", 4, 8.0): (-1.0, 9.0),
    ("positive-definite", 4): (-4.5, 5.0),
}
EACH_BY_ITSELF = [
    v
    for v in BOUNDED
    if v[0]
    not in ("distinct", "permutation", "ascending", "diagonal", "exchanged", "positive-definite")
]


def fill(
    n: int,
    dtype: str,
    wanted: tuple[Any, ...],
    stop: int = STOP,
    special: tuple[tuple[int, str], ...] = (),
) -> torch.Tensor:
    raw = fill_module.fill(n, dtype, wanted, stop, special)
    tensor = torch.from_numpy(raw.copy())
    return tensor.view(torch.bfloat16) if dtype == "bfloat16" else tensor


def numbers(
    n: int, dtype: str, wanted: tuple[Any, ...], stop: int = STOP
) -> npt.NDArray[np.float64]:
    return fill(n, dtype, wanted, stop).to(torch.float64).numpy()


every_class = pytest.mark.parametrize("wanted", BOUNDED, ids=str)
every_format = pytest.mark.parametrize("dtype", FLOATING)


@every_class
@pytest.mark.parametrize("dtype", dtypes.ALL)
def test_length_and_dtype(wanted: tuple[Any, ...], dtype: str) -> None:
    for n in (
        (0, 16, 144)
        if wanted[0] in ("diagonal", "exchanged", "positive-definite")
        else (0, 1, 2, 33)
    ):
        tensor = fill(n, dtype, wanted)
        assert tensor.dtype == dtypes.TORCH[dtype]
        assert tensor.shape == (n,)


@every_class
@every_format
def test_numbers_stay_in_their_interval(wanted: tuple[Any, ...], dtype: str) -> None:
    low, high = BOUNDED[wanted]
    for stop in (STOP, N, 700, 0):
        got = numbers(N, dtype, wanted, stop)
        assert low <= got.min()
        assert got.max() <= high


@pytest.mark.parametrize("wanted", EACH_BY_ITSELF, ids=str)
@given(st.sampled_from(FLOATING), st.integers(0, 30), st.integers(-3, 60))
def test_a_number_depends_on_its_position_alone(
    wanted: tuple[Any, ...], dtype: str, n: int, stop: int
) -> None:
    window = fill(n, dtype, wanted, stop)
    assert torch.equal(
        window,
        torch.cat([fill(1, dtype, wanted, p) for p in range(stop - n + 1, stop + 1)] or [window]),
    )


@pytest.mark.parametrize(
    ("wanted", "blank"),
    [
        (("uniform", -1.0, 1.0), 0.0), (("uniform", 2.0, 3.0), 2.0), (("uniform", -3.0, -2.0),
        -2.0), (("normal", 7.0, 1.0), 0.0),
        (("wide", -3, 5), 0.0), (("wide", -3, 5, 0), 0.125), (("cancelling", 1.0), 0.0), (("offset",
        64.0, 1.0), 64.0),
        (("integers", -4, 4), 0.0), (("integers", 2, 9), 2.0), (("integers", -9, -2), -2.0),
        (("sparse", 0.5), 0.0),
        (("subnormal",), 0.0), (("near", 2.0, 9.0, 4.0), 2.0), (("tokens", -1.0, 1.0, "nan"), 0.0),
        (("distinct",), 0.0),
    ],
    ids=str,
)  # fmt: skip
@every_format
def test_blanks_are_zero_or_the_nearest_number_of_the_domain(
    wanted: tuple[Any, ...], blank: float, dtype: str
) -> None:
    assert numbers(5, dtype, wanted, 0).tolist() == [blank] * 5
    assert numbers(5, dtype, wanted, 2).tolist()[:3] == [blank] * 3


@pytest.mark.parametrize(
    ("wanted", "mean", "deviation"),
    [(("uniform", -1.0, 1.0), 0, 3**-0.5), (("normal", 2.0, 0.5), 2, 0.5)],
)
@every_format
def test_mean_and_deviation(
    wanted: tuple[Any, ...], mean: float, deviation: float, dtype: str
) -> None:
    got = numbers(50_000, dtype, wanted, 60_000)
    assert got.mean() == pytest.approx(mean, abs=0.01)
    assert got.std() == pytest.approx(deviation, rel=0.02)


@every_format
def test_numbers_use_the_whole_significand(dtype: str) -> None:
    """On a coarser grid sums would be exact: half of all numbers have an odd last bit."""
    for wanted in (
        ("uniform", -1.0, 1.0),
        ("uniform", 1.0, 2.0),
        ("normal", 0.0, 1.0),
        ("wide", -8, 7),
        ("offset", 60.0, 1.0),
    ):
        raw = fill_module.fill(N, dtype, wanted, STOP)
        odd = np.count_nonzero(
            raw.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[raw.itemsize]) & 1
        )
        assert odd > 0.4 * N, wanted


@every_format
def test_wide_has_every_binade_and_both_signs(dtype: str) -> None:
    got = numbers(4096, dtype, ("wide", -6, 6))
    for exponent in range(-6, 7):
        some = got[(np.abs(got) >= 2.0**exponent) & (np.abs(got) < 2.0 ** (exponent + 1))]
        assert (some > 0).any()
        assert (some < 0).any()
    assert (numbers(4096, dtype, ("wide", -6, 6, 0)) > 0).all()


@every_format
def test_cancelling_sums_cancel(dtype: str) -> None:
    got = numbers(N, dtype, ("cancelling", 1.0))
    assert (np.sign(got[1:]) == -np.sign(got[:-1])).all()
    assert abs(got.sum()) < np.abs(got).sum() / 256


@every_format
def test_integers_reach_both_ends(dtype: str) -> None:
    assert set(numbers(N, dtype, ("integers", -4, 4)).tolist()) == set(range(-4, 5))


@pytest.mark.parametrize(("dtype", "limit"), INTEGRAL.items())
def test_integers_of_the_widest_range(dtype: str, limit: int) -> None:
    got = fill(N, dtype, ("integers", -limit, limit - 1))
    assert int(got.max()) > limit // 2
    assert int(got.min()) < -limit // 2


@given(st.integers(-(2**62), 2**62), st.integers(0, 2**62), st.integers(1, 10**6))
def test_integers_stay_in_any_range(low: int, span: int, stop: int) -> None:
    high = min(low + span, 2**62)
    got = fill(9, "int64", ("integers", low, high), stop).tolist()
    assert all(low <= number <= high or number == min(max(0, low), high) for number in got)


@every_format
def test_sparse_is_mostly_zero(dtype: str) -> None:
    got = numbers(8192, dtype, ("sparse", 0.125), 9000)
    assert set(got.tolist()) == {-1.0, 0.0, 1.0}
    assert np.count_nonzero(got) == pytest.approx(1024, rel=0.15)


@every_format
def test_subnormal_numbers_of_both_signs(dtype: str) -> None:
    form = FORMATS[dtype]
    got = numbers(N, dtype, ("subnormal",))
    tiny = (np.abs(got) < form.smallest_normal) & (got != 0)
    assert tiny.sum() > N // 3
    assert (~tiny).sum() > N // 3
    assert np.abs(got).max() < 2 * form.smallest_normal
    assert (got[tiny] < 0).any()
    assert (got[tiny] > 0).any()


@every_format
def test_near_holds_the_points_and_their_neighbors(dtype: str) -> None:
    got = numbers(8192, dtype, ("near", 0.0, 8.0, 4.0, 0.5))
    for point in (4.0, 0.5):
        assert (got == point).any()
        ulp = point * 2.0 ** (1 - FORMATS[dtype].precision)
        for low, high in (
            (0.5, 4),
            (2.0**-4 * point / ulp, point / ulp),
        ):  # next to it, and far away
            distance = (got - point) / ulp
            assert ((distance >= low) & (distance <= high)).any()
            assert ((distance <= -low / 2) & (distance >= -high)).any()


@every_format
def test_tokens_are_there(dtype: str) -> None:
    got = fill(N, dtype, ("tokens", -1.0, 1.0, "nan", "inf", "-0"))
    assert int(got.isnan().sum()) == pytest.approx(N / 12, rel=0.4)
    assert int(got.isinf().sum()) == pytest.approx(N / 12, rel=0.4)
    assert int((got.signbit() & (got == 0)).sum()) == pytest.approx(N / 12, rel=0.4)


@given(st.sampled_from(FLOATING), st.integers(0, 200), st.integers(0, 400))
def test_orders(dtype: str, n: int, stop: int) -> None:
    blanks = max(n - stop, 0)
    assert sorted(numbers(n, dtype, ("permutation",), stop)) == list(range(n))
    assert len(set(numbers(n, dtype, ("distinct",), stop).tolist()[blanks:])) == n - blanks
    ascending = numbers(n, dtype, ("ascending", -2.0, -1.0), stop).tolist()[blanks:]
    assert ascending == sorted(ascending)


@every_format
@pytest.mark.parametrize("large", [0, 1])
def test_squares_leave_the_format_where_the_numbers_do_not(dtype: str, large: int) -> None:
    form = FORMATS[dtype]
    got = [Fraction(x) for x in numbers(N, dtype, ("beyond", large)).tolist()]
    assert all(abs(x) >= Fraction(form.smallest_normal) for x in got)
    if large:
        assert all(x * x >= Fraction(2) ** form.max_exponent for x in got)
    else:
        assert all(x * x < Fraction(form.smallest_normal) for x in got)
    assert {x < 0 for x in got} == {True, False}


@every_format
def test_special_values_end_an_order(dtype: str) -> None:
    got = numbers(N, dtype, ("ascending", -2.0, 2.0, "inf", "nan", "-inf"))
    assert np.isnan(got).tolist() == [False] * (N - 1) + [True]
    assert np.isinf(got[[0, -2]]).all()
    assert (np.diff(got[1:-2]) >= 0).all()
    assert np.isfinite(numbers(3, dtype, ("ascending", -2.0, 2.0, "inf", "nan", "-inf"))).all()


@every_format
def test_matrices(dtype: str) -> None:
    dominant = numbers(5 * 64, dtype, ("diagonal", 8, 9.0)).reshape(5, 8, 8)
    rest = np.abs(dominant).sum(-1) - np.abs(dominant.diagonal(axis1=1, axis2=2))
    assert (dominant.diagonal(axis1=1, axis2=2) > rest).all()
    exchanged = numbers(5 * 64, dtype, ("exchanged", 8, 9.0)).reshape(5, 8, 8)
    assert (exchanged.diagonal(axis1=1, axis2=2) == 0).all()
    assert (np.linalg.cond(exchanged) < 9.0).all()
    middle = numbers(9, dtype, ("exchanged", 3, 4.0)).reshape(3, 3)
    assert middle[0, 0] == middle[2, 2] == 0 != middle[1, 1]
    definite = numbers(5 * 64, dtype, ("positive-definite", 8)).reshape(5, 8, 8)
    assert np.array_equal(definite, definite.swapaxes(1, 2))
    assert (np.linalg.eigvalsh(definite) >= 1.0 - 1e-12).all()
    assert (definite * 8 == np.rint(definite * 8)).all()


@pytest.mark.parametrize("token", value_classes.SPECIAL)
@every_format
def test_special_values_are_put_where_asked(token: str, dtype: str) -> None:
    form = FORMATS[dtype]
    plain = fill(5, dtype, ("integers", 5, 9))
    got = fill(5, dtype, ("integers", 5, 9), special=((2, token), (-1, token)))
    finfo = torch.finfo(dtypes.TORCH[dtype])
    expected = {
        "nan": math.nan, "-nan": math.nan, "inf": math.inf, "-inf": -math.inf, "0": 0.0, "-0": 0.0,
        "1": 1.0, "-1": -1.0,
        "max": finfo.max, "-max": finfo.min, "tiny": finfo.tiny,
        "subnormal": finfo.tiny * 2.0 ** (1 - form.precision),
    }[token]  # fmt: skip
    assert torch.equal(got[[0, 1, 3]], plain[[0, 1, 3]])
    for index in (2, 4):
        assert float(got[index]) == expected or (
            math.isnan(float(got[index])) and math.isnan(expected)
        )
        assert bool(got[index].signbit()) == token.startswith("-") or "nan" in token


def nearest_even(number: float, form: Format) -> float:
    """The correctly rounded number, by rational arithmetic."""
    if number == 0.0 or not math.isfinite(number):
        return number
    exponent = max(math.frexp(number)[1] - form.precision, form.min_exponent - form.precision + 1)
    ulp = Fraction(2) ** exponent
    rounded = round(Fraction(number) / ulp) * ulp
    return (
        math.copysign(math.inf, number)
        if abs(rounded) >= Fraction(2) ** (form.max_exponent + 1)
        else float(rounded)
    )


def rounded(number: float, dtype: str = "bfloat16") -> float:
    array = np.array([number], dtype=np.float64)
    if dtype != "bfloat16":
        return float(fill_module.rounded_to_dtype(array, dtype)[0])
    return float(
        torch.from_numpy(fill_module.to_bfloat16(array).view(np.int16)).view(torch.bfloat16)[0]
    )


@given(st.floats(width=32, allow_nan=False))
def test_float32_to_bfloat16_as_torch_does(number: float) -> None:
    assert rounded(number) == float(torch.tensor(number, dtype=torch.float32).to(torch.bfloat16))


def test_many_float32_to_bfloat16_as_torch_does() -> None:
    bits = np.random.default_rng(1).integers(0, 1 << 32, 200_000, dtype=np.uint32)
    bits[::2] = (bits[::2] & np.uint32(0xFFFF0000)) | np.uint32(0x8000)  # ties
    single = bits.view(np.float32)
    single = single[~np.isnan(single)]
    ours = torch.from_numpy(fill_module.to_bfloat16(single.astype(np.float64)).view(np.int16)).view(
        torch.bfloat16
    )
    assert torch.equal(ours, torch.from_numpy(single).to(torch.bfloat16))


@given(st.floats(allow_nan=False), st.sampled_from(["bfloat16", "float16", "float32"]))
def test_float64_is_rounded_once(number: float, dtype: str) -> None:
    assert rounded(number, dtype) == nearest_even(number, FORMATS[dtype])


@given(
    st.integers(0, 0x7F7F), st.integers(-60, -20), st.sampled_from((-1.0, 0.0, 1.0)), st.booleans()
)
def test_float64_beside_a_tie_is_not_rounded_twice(
    bits: int, exponent: int, side: float, negative: bool
) -> None:
    """Halfway between two bfloat16 numbers, give or take less than float32 can hold."""
    low = float(np.array([bits << 16], dtype=np.uint32).view(np.float32)[0])
    high = float(np.array([(bits + 1) << 16], dtype=np.uint32).view(np.float32)[0])
    high = high if math.isfinite(high) else 2.0**128
    number = (low + high) / 2
    number = (number + side * math.ldexp(number, exponent)) * (-1.0 if negative else 1.0)
    assert rounded(number) == nearest_even(number, FORMATS["bfloat16"])


def test_nan_stays_nan_in_bfloat16() -> None:
    assert math.isnan(rounded(math.nan))
    assert math.isnan(rounded(-math.nan))


NONSENSE = {
    (): "unknown value class",
    ("gaussian", 0, 1): "unknown value class ('gaussian',)",
    (3,): "unknown value class (3,)",
    ((),): "unknown value class ((),)",
    ("uniform",): "missing 2 required positional arguments",
    ("uniform", 0.0, 1.0, 2.0): "takes 6 positional arguments but 7 were given",
    ("uniform", 1.0, 0.0): "interval [1.0, 0.0]",
    ("uniform", -1e308, 1e308): "interval [-1e+308, 1e+308]",
    ("uniform", math.nan, 1.0): "nan is neither a finite number nor a name",
    ("uniform", 0.0, math.inf): "inf is neither a finite number nor a name",
    ("uniform", 0, 10**400): "is neither a finite number nor a name",
    ("uniform", "a", "b"): "unsupported operand",
    ("offset", (1.0, 2.0), 1.0): "(1.0, 2.0) is neither a finite number nor a name",
    ("integers", 4, 3): "range 4 … 3",
    ("integers", 0, 2**64): "range 0 … 18446744073709551616",
    ("integers", -1, 2**63): "range -1 … 9223372036854775808",
    ("unsigned", 65): "a width of 65 bits",
    ("unsigned-powers", 1): "a width of 1 bits",
    ("integers", 0.5, 3.0): "'float' object cannot be interpreted as an integer",
    ("wide", 5, 4): "range 5 … 4",
    ("wide", 0, 10**6): "exponents 0 … 1000000",
    ("near", 0.0, 1.0): "no points",
    ("near", 1.0, 0.0, 0.5): "interval [1.0, 0.0]",
    ("tokens", 0.0, 1.0): "special values are: nan",
    ("constant", "infinity"): "special values are: nan",
    ("tokens", 0.0, 1.0, "infinity"): "special values are: nan",
    ("ascending", 0.0, 1.0, "infinity"): "special values are: nan",
    ("diagonal", 5, 1.0): "cannot reshape array of size 16",
    ("diagonal", 10**9, 1.0): "cannot reshape array of size 16",
    ("exchanged", 5, 1.0): "cannot reshape array of size 16",
    ("positive-definite", 0): "cannot reshape array of size 16",
}


@pytest.mark.parametrize("wanted", NONSENSE, ids=str)
def test_nonsense_parameters_are_refused_in_one_line(wanted: tuple[Any, ...]) -> None:
    with pytest.raises(RecipeError) as caught:
        fill_module.fill(16, "float32", wanted, 9)
    assert NONSENSE[wanted] in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("dtype", "special", "words"), [
    ("float8", (), "tensors of dtype 'float8' cannot be drawn; known: float64, float32"),
    ("float32", ((0, "NaN"),), "unknown special value 'NaN'; known: nan, -nan"),
    ("float32", ((16, "nan"),), "special value at position 16 of a tensor with 16 elements"),
    ("int64", ((0, "nan"),), "special values in a tensor of dtype int64, which holds none"),
])  # fmt: skip
def test_other_nonsense(dtype: str, special: tuple[tuple[int, str], ...], words: str) -> None:
    with pytest.raises(RecipeError) as caught:
        fill_module.fill(16, dtype, ("uniform", 0.0, 1.0), 9, special)
    assert words in str(caught.value)


def test_empty_matrices_of_any_size_cost_nothing() -> None:
    for wanted in (
        ("diagonal", 10**9, 1.0),
        ("exchanged", 10**9, 1.0),
        ("positive-definite", 10**9),
    ):
        assert fill_module.fill(0, "float32", wanted, 9).size == 0


def test_numbers_beyond_the_format_become_infinities_without_a_warning() -> None:
    assert np.isinf(fill_module.fill(4, "float16", ("offset", 1e6, 1.0), 9)).all()
    assert np.isinf(fill_module.fill(4, "float32", ("normal", 1e308, 1e308), 9)).all()


@pytest.mark.parametrize(("dtype", "width"), [("int32", 32), ("int64", 64), ("int8", 8)])
def test_powers_reach_the_ends_and_lie_beside_powers_of_two(dtype: str, width: int) -> None:
    got = {int(number) for number in fill(1 << 13, dtype, ("powers", width), 1 << 13)}
    assert {-(1 << (width - 1)), (1 << (width - 1)) - 1, 0, 1, -1} <= got
    assert all(min((abs(n) - (1 << k)) ** 2 for k in range(width)) <= 1 for n in got)


@pytest.mark.parametrize("name", ["1", "-0", "nan", "-inf"])
def test_a_constant_is_the_same_everywhere_blanks_too(name: str) -> None:
    for stop in (3, 20_000):  # mostly blank, and not blank at all
        got = fill(9, "float32", ("constant", name), stop).numpy()
        wanted = np.full(9, value_classes.SPECIAL[name](FORMATS["float32"]))
        assert np.array_equal(got, wanted, equal_nan=True)
        assert np.array_equal(np.signbit(got), np.signbit(wanted))
