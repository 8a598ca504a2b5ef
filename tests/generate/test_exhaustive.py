"""Exhaustive cases: every bit pattern of a format once, the same everywhere, for every operator
that computes single elements in 16 bits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from consistency import operators
from consistency.core import dtypes
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.errors import RecipeError
from consistency.generate import exhaustive
from consistency.generate.fill import fill
from consistency.generate.materialize import prepare
from consistency.operators.declare import HALF, Call, Operator

# Functions of single elements that no exhaustive case calls, and why.
LEFT_OUT = {
    "nn.functional.dropout": "random",
    "nn.functional.rrelu": "random",
    "nn.functional.prelu": "two tensors",
    "nn.functional.glu": "two halves of a tensor",
}


def patterns(n: int, dtype: str, *values: Any, stop: int = 0) -> npt.NDArray[Any]:
    raw = fill(n, dtype, values, stop)
    return raw.view(f"u{raw.itemsize}")


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("stop", [0, 7, 1 << 16, 10**9])
def test_every_pattern_once_whatever_the_window(dtype: str, stop: int) -> None:
    assert (patterns(1 << 16, dtype, "every", 0, stop=stop) == np.arange(1 << 16)).all()


def test_patterns_reach_torch_as_they_are() -> None:
    """NaN with its payload, which a conversion would make quiet."""
    for dtype in HALF:
        case = Case("exp", dtype, (TensorRecipe((1 << 16,), dtype, ("every", 0)),))
        (tensor,) = prepare(case).build().tensors
        assert tensor.dtype == dtypes.TORCH[dtype]
        assert torch.equal(tensor.view(torch.int16), torch.arange(1 << 16).to(torch.int16))


def test_patterns_of_float32() -> None:
    assert patterns(3, "float32", "every", (1 << 32) - 2).tolist() == [2**32 - 2, 2**32 - 1, 0]
    assert fill(1, "float32", ("every", 0x3F800000), 0).tolist() == [1.0]


@pytest.mark.parametrize("dtype", HALF)
def test_landmarks_are_distinct_and_hold_what_matters(dtype: str) -> None:
    found = patterns(2048, dtype, "landmarks")
    assert np.unique(found).size == 2048
    numbers = torch.from_numpy(found.view(np.int16).copy()).view(dtypes.TORCH[dtype]).double()
    limits = torch.finfo(dtypes.TORCH[dtype])
    subnormal = limits.smallest_normal * limits.eps
    wanted = [0.0, 1.0, 1.0 + limits.eps, 1.0 - limits.eps / 2, 1.5, 3.0, 5.0, 7.0, float("inf")]
    wanted += [limits.max, limits.smallest_normal, subnormal, limits.smallest_normal - subnormal]
    signed = {number.hex() for number in numbers.tolist() if number == number}
    assert signed >= {number.hex() for x in wanted for number in (x, -x)}
    assert numbers.isnan().sum() == 2
    exponents = (found & 0x7FFF) >> (10 if dtype == "float16" else 7)
    assert set(exponents.tolist()) == set(range(32 if dtype == "float16" else 256))


@pytest.mark.parametrize(
    ("dtype", "values", "special"),
    [
        ("float64", ("landmarks",), ()),
        ("int32", ("every", 0), ()),
        ("float16", ("every", 1 << 16), ()),
        ("float16", ("every", -1), ()),
        ("float16", ("every", 0), ((0, "nan"),)),
    ],
)
def test_wrong_recipes_are_refused(
    dtype: str, values: tuple[Any, ...], special: tuple[tuple[int, str], ...]
) -> None:
    with pytest.raises(RecipeError):
        fill(2, dtype, values, 0, special)


def of_single_elements() -> list[Operator]:
    families = ("unary", "activation", "special")
    return [o for o in operators.registry().values() if o.family in families]


def test_every_function_of_single_elements_has_a_case_in_16_bits() -> None:
    for operator in of_single_elements():
        for dtype in set(operator.dtypes) & set(HALF):
            found = exhaustive.cases(operator, dtype)
            assert bool(found) != (operator.name in LEFT_OUT), operator.name
            assert all(exhaustive.is_exhaustive(case) for case in found)
            reached = found and max(t.base[0] for c in found for t in c.tensors if t.base)
            expected = exhaustive.PATTERNS >> (operator.name in exhaustive.UNSIGNED)
            assert not found or reached == expected


def test_forms_in_place_have_cases_and_those_with_the_same_kernel_have_none() -> None:
    (case,) = exhaustive.cases(operators.get("exp_"), "bfloat16")
    assert case.tensors[0].values == ("every", 0)
    for form in ("exp.out", "exp.method"):
        assert not exhaustive.cases(operators.get(form), "float16")


def test_other_arguments_are_fixed() -> None:
    (case,) = exhaustive.cases(operators.get("polygamma"), "float16")
    assert case.args[0] == 1
    low, value = exhaustive.cases(operators.get("nn.functional.threshold"), "float16")[0].args[1:]
    assert -4.0 <= min(low, value) < max(low, value) <= 4.0


def test_nothing_else_is_exhaustive() -> None:
    for name in ("matmul", "sum", "softmax", "nn.functional.dropout", "nn.functional.prelu"):
        assert not any(exhaustive.cases(operators.get(name), dtype) for dtype in HALF)
    for dtype in ("int32", "complex64"):
        assert not exhaustive.cases(operators.get("mul"), dtype, all_kinds=True)
    for name in (*exhaustive.NO_PAIRS, "special.chebyshev_polynomial_t", "exp.out", "add.method"):
        assert not exhaustive.cases(operators.get(name), "float32")


def binades(numbers: torch.Tensor) -> set[tuple[bool, int]]:
    """The signs and exponents that occur, of zeros, subnormal and infinite numbers, too."""
    bits = numbers.view(torch.int32)
    return set(zip((bits < 0).tolist(), (bits >> 23 & 255).tolist(), strict=True))


def test_float32_is_swept_over_all_exponents() -> None:
    case, chosen, _ = exhaustive.cases(operators.get("exp"), "float32")
    assert chosen.tensors[0].values == ("landmarks",)
    (numbers,) = prepare(case).build().tensors
    assert len(numbers) == len(numbers.view(torch.int32).unique()) == 65536
    assert len(binades(numbers)) == 2 * 256
    assert len((numbers.view(torch.int32) & 0xFFFF).unique()) > 60000
    case, _ = exhaustive.cases(operators.get("polygamma"), "float32")
    assert not torch.signbit(case.tensors and prepare(case).build().tensors[0]).any()


def test_pairs_of_float32_meet_in_all_exponents() -> None:
    for all_kinds in (False, True):
        (case,) = exhaustive.cases(operators.get("atan2"), "float32", all_kinds=all_kinds)
        left, right = prepare(case).build().tensors
        assert len(binades(left)) == len(binades(right)) == 2 * 256
        pairs = set(
            zip(
                (left.view(torch.int32) >> 26).tolist(),
                (right.view(torch.int32) >> 26).tolist(),
                strict=True,
            )
        )
        assert len(pairs) == 64 * 64, (
            "every eight neighboring exponents of one with those of the other"
        )
    (case,) = exhaustive.cases(operators.get("lerp_"), "float32")
    assert case.operator == "lerp_"


def test_nan_of_a_spread_sweep_is_quiet() -> None:
    """What fmax makes of a signaling NaN is not defined."""
    for name in ("fmax", "exp"):
        case, *_ = exhaustive.cases(operators.get(name), "float32")
        for numbers in prepare(case).build().tensors:
            nan = numbers[numbers.isnan()].view(torch.int32)
            assert len(nan)
            assert bool((nan >> 22 & 1).all())


def test_all_float32_in_blocks() -> None:
    blocks = exhaustive.cases(operators.get("exp"), "float32", all_kinds=True)
    starts = [case.tensors[0].values[1] for case in blocks]
    assert starts == list(range(0, 1 << 32, exhaustive.BLOCK))
    assert len({case.id for case in blocks}) == len(blocks)


@pytest.mark.parametrize("dtype", HALF)
def test_pairs_and_triples_in_16_bits_meet_in_all_exponents(dtype: str) -> None:
    low = dtypes.FORMATS[dtype].precision - 1
    for name, number in (("atan2", 2), ("addcdiv", 3)):
        (case,) = exhaustive.cases(operators.get(name), dtype)
        tensors = prepare(case).build().tensors
        assert len(tensors) == number
        patterns = [tensor.view(torch.int16).to(torch.int64) & 0xFFFF for tensor in tensors]
        for tensor, pattern in zip(tensors, patterns, strict=True):
            nan = pattern[tensor.isnan()]
            assert len(nan)
            assert bool((nan >> (low - 1) & 1).all()), "quiet"
            assert len(pattern.unique()) + len(nan.unique()) >= 1 << 16
        for one, other in itertools.combinations([pattern >> 10 for pattern in patterns], 2):
            assert len((one * 64 + other).unique()) > 0.9 * 64**2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_triples_meet_in_all_exponents(dtype: str) -> None:
    (case,) = exhaustive.cases(operators.get("addcdiv"), dtype)
    tensors = prepare(case).build().tensors
    width = torch.int32 if dtype == "float32" else torch.int64
    tops = [t.view(width) >> (t.element_size() * 8 - 5) & 31 for t in tensors]
    assert len((tops[0] * 1024 + tops[1] * 32 + tops[2]).unique()) > 0.8 * 32**3


def test_pairs_of_landmarks() -> None:
    _, case = exhaustive.cases(operators.get("atan2"), "bfloat16", all_kinds=True)
    left, right = prepare(case).build().tensors
    assert left.shape == right.shape == (2048, 2048)
    chosen = patterns(2048, "bfloat16", "landmarks").view(np.int16)
    assert (left[:, 5].view(torch.int16).numpy() == chosen).all()
    assert (right[7].view(torch.int16).numpy() == chosen).all()
    for name in ("add", "pow", "fmod", "ldexp", "eq", "logaddexp", "xlogy", "heaviside"):
        found = exhaustive.cases(operators.get(name), "float16", all_kinds=True)
        assert len(found) == (1 if name == "ldexp" else 2), "exponents of ldexp are integers"


def test_a_declaration_that_draws_in_its_own_way() -> None:
    def sample(d: Any) -> Call:
        x = d.tensor(d.shape(0, 4))
        weight = d.tensor((d.size(1, 8),))
        return Call((x, weight, d.dim(x.base), list(d.dims(x.base)), d.index((3,), 8)), {})

    own = Operator(
        name="own", family="own", sample=sample, function=torch.add, dtypes=("float16",),
        traits=frozenset({"elementwise"}),
    )  # fmt: skip
    (case,) = exhaustive.cases(own, "float16")
    assert [t.values[0] for t in case.tensors] == ["every", "uniform", "integers"]


def test_float64_is_swept_over_all_exponents() -> None:
    case, _ = exhaustive.cases(operators.get("exp"), "float64")
    (numbers,) = prepare(case).build().tensors
    patterns = numbers.view(torch.int64)
    assert len(patterns.unique()) == 65536
    assert len((patterns >> 52).unique()) == 2 * 2048
    assert numbers.isnan().any()
    assert numbers[numbers.isfinite()].abs().max() > 1e308
    (case,) = exhaustive.cases(operators.get("pow"), "float64")
    left, right = prepare(case).build().tensors
    pairs = set(
        zip(
            (left.view(torch.int64) >> 58).tolist(),
            (right.view(torch.int64) >> 58).tolist(),
            strict=True,
        )
    )
    assert len(pairs) == 64 * 64
