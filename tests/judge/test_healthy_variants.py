"""Results of healthy CPU variants that a survey of some million results once called failures, and
what must still fail on the same inputs."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
import torch

import consistency
from consistency.backends import resolve
from consistency.core.model import Case, Result
from consistency.diagnose.diagnosis_budget import DiagnosisBudget
from consistency.diagnose.evaluation import evaluate
from consistency.judge.tolerances import load
from consistency.operators import get

rules = functools.cache(load)


class Resolved(consistency.TorchBackend):
    """Torch's CPU on conjugated numbers instead of conjugated views: sums in another order."""

    name, device = "resolved", "cpu"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        changed = [a.resolve_conj() if isinstance(a, torch.Tensor) else a for a in args]
        return super().call(operator, changed, kwargs)


class ElevenBits(consistency.TorchBackend):
    """The second operand is rounded to eleven bits, as TF32 has."""

    name, device = "eleven-bits", "cpu"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return super().call(operator, [args[0], _eleven_bits(args[1]), *args[2:]], kwargs)


class FromTheRight(consistency.TorchBackend):
    """x · (W · y) in place of torch's order."""

    name, device = "from-the-right", "cpu"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        x, y, weight = args
        return (torch.einsum("...j,oij->...oi", y, weight) * x.unsqueeze(-2)).sum(-1)


class TowardZero(consistency.TorchBackend):
    """Of a matrix product's result so many last bits are cut off."""

    name, device = "toward-zero", "cpu"

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.bits = bits

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        result = super().call(operator, args, kwargs)
        return (result.view(torch.int32) & (-1 << self.bits)).view(torch.float32)


def _eleven_bits(tensor: torch.Tensor) -> torch.Tensor:
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    scale = 2.0 ** (real.detach().abs().clamp(min=1e-300).log2().floor() - 10)
    rounded = (real / scale).round() * scale
    return torch.view_as_complex(rounded.contiguous()) if tensor.is_complex() else rounded


def drawn(dtype: str, base: list[int], stop: int, values: list[Any], **more: Any) -> dict[str, Any]:
    return {"tensor": {"base": base, "dtype": dtype, "stop": stop, "values": values, **more}}


def case(
    operator: str, dtype: str, *args: Any, cotangent: int = 1, layout: str = "", **kwargs: Any
) -> Case:
    made = {"operator": operator, "dtype": dtype, "args": [*args], "kwargs": kwargs}
    made |= {"cotangent": cotangent} | ({"cotangent_layout": layout} if layout else {})
    return Case.from_line(json.dumps(made))


def judged(case: Case, *names: Any, direction: str = "forward") -> list[Result]:
    """As in a run: some elements proved, failures and unusual errors diagnosed."""
    return list(
        evaluate(
            case, [*map(resolve, names)], rules(), directions=(direction,), against="spot",
            diagnosis_budget=DiagnosisBudget(),
        )
    )  # fmt: skip


LARGE_MEAN = ["offset", 67108864.0, 1.0]
CONJUGATED = case(
    "addmm", "complex128",
    drawn("complex128", [5, 8, 3], 5856, ["uniform", -1.0, 1.0],
          view=[["select", 2, 1], ["conj"]]),
    drawn("complex128", [5, 746, 2], 17921, LARGE_MEAN, view=[["select", 2, 1]]),
    drawn("complex128", [746, 8], 26001, LARGE_MEAN, view=[["conj"]]),
    cotangent=6278,
)  # fmt: skip


def test_another_order_in_complex128_is_no_loss_of_precision() -> None:
    """The gradients do not depend on argument 0. Its simulation in TF32 sums in the order of the
    healthy backend, and so has its rounding."""
    other = "cpu+env:MKL_CBWR=COMPATIBLE"
    for result in judged(CONJUGATED, Resolved(), other, direction="backward"):
        assert not result.verdict.fails, result.explanation


def test_a_loss_of_precision_in_complex128_is_found() -> None:
    (result,) = judged(CONJUGATED, ElevenBits(), direction="backward")
    assert result.verdict.fails


def test_the_gradient_of_least_squares_sums_over_rows() -> None:
    small = case(
        "linalg.lstsq", "float64",
        drawn("float64", [2, 21, 7], 3648, ["diagonal", 7, 8.0], view=[["slice", 0, 1, None, 2]]),
        drawn("float64", [1, 21, 3], 14526, ["uniform", -1.0, 1.0]), cotangent=6201,
    )  # fmt: skip
    for result in judged(small, "cpu", "cpu+onednn=off", direction="backward"):
        assert not result.verdict.fails, result.explanation
    (result,) = judged(small, ElevenBits(), direction="backward")
    assert result.verdict.fails


@pytest.mark.parametrize(
    ("kind", "values", "degree"),
    [("shifted_chebyshev_polynomial_t", ["uniform", 0.0625, 0.9375], 9),
     ("chebyshev_polynomial_v", ["uniform", -0.875, 0.875], 5)],
)  # fmt: skip
def test_a_polynomial_into_a_destination_has_the_magnitude_of_the_plain_call(
    kind: str, values: list[Any], degree: int
) -> None:
    """The degree is the third argument there, and only it stays whole when S is measured."""
    assert get(f"special.{kind}.out").whole == (2,)
    x = drawn("float32", [17, 4, 1, 5], 8937, values)
    out = drawn("float32", [17, 4, 1, 5], 1851, ["integers", -4, 4])
    (plain,) = judged(case(f"special.{kind}", "float32", x, degree), "cpu")
    (written,) = judged(case(f"special.{kind}.out", "float32", out, x, degree), "cpu")
    assert not written.verdict.fails, written.explanation
    assert written.metrics["rho_max"] == pytest.approx(plain.metrics["rho_max"], rel=1e-3)


@pytest.mark.parametrize("place", [0, 4])
def test_the_area_beside_an_infinite_end_is_infinite(place: int) -> None:
    infinite = drawn("float32", [9, 5], 600, ["uniform", -1.0, 1.0], special=[[place, "inf"]])
    results = {
        r.backend: r for r in judged(case("trapezoid", "float32", infinite, dim=-1), "cpu", "numpy")
    }
    assert results["numpy"].verdict.passes
    assert results["cpu"].verdict.value in ("known", "rounding")  # once torch is repaired


def test_products_that_underflow_are_no_tf32() -> None:
    """Every true element is far below float32's numbers: the result is zero, its error is the true
    value, and so it follows any prediction that is proportional to that."""
    out = drawn("float32", [59, 15], 7022, ["uniform", -1.0, 1.0])
    left = drawn("float32", [2, 59], 13144, ["subnormal"], view=[["transpose", 0, 1]])
    right = drawn("float32", [5, 15], 7182, ["subnormal"], view=[["slice", 0, 1, 4, 2]])
    tiny = case("mm.out", "float32", out, left, right)
    for result in judged(tiny, "cpu", "cpu+onednn=off", "numpy"):
        assert not result.verdict.fails, result.explanation
    ordinary = ["uniform", -1.0, 1.0]
    left, right = (drawn("float32", b, s, ordinary) for b, s in (([59, 40], 44), ([40, 15], 99)))
    (result,) = judged(case("mm", "float32", left, right), ElevenBits())
    assert result.verdict.fails


UNIFORM, ENTRIES = ["uniform", -1.0, 1.0], ["cancelling", 1.0]
CHAIN = case(
    "linalg.multi_dot", "float32",
    [
        drawn("float32", [2, 10], 3959, UNIFORM, view=[["transpose", 0, 1]]),
        drawn("float32", [2, 30], 3060, ENTRIES, leaf=False),
        drawn("float32", [30, 9], 11455, ENTRIES),
        drawn("float32", [59], 11762, UNIFORM,
              view=[["slice", 0, 2, 57, 2], ["slice", 0, 2, 27, 3]]),
    ],
    cotangent=5923, layout="expanded",
)  # fmt: skip
BILINEAR = case(
    "nn.functional.bilinear", "float32",
    *(drawn("float32", [9, 16], stop, ["offset", 4096.0, 1.0]) for stop in (5452, 13972)),
    drawn("float32", [9, 33, 16], 16914, ["offset", 4096.0, 1.0], leaf=False,
          view=[["slice", 1, 0, 31, 2]]),
    cotangent=10482,
)  # fmt: skip


def test_elements_of_chained_products_have_errors_in_common() -> None:
    """Every element of the gradient of the third matrix is one of 30 products times one of 9: where
    those are rounded away from zero, so are all of their rows."""
    (chain,) = judged(CHAIN, "cpu+env:MKL_CBWR=COMPATIBLE", direction="backward")
    assert not chain.verdict.fails, chain.explanation
    (bilinear,) = judged(BILINEAR, FromTheRight(), direction="backward")
    assert not bilinear.verdict.fails, bilinear.explanation


@pytest.mark.parametrize(("factors", "bits", "words"), [(2, 2, "its RMS error"), (3, 9, "budget")])
def test_errors_of_one_sign_in_chained_products(factors: int, bits: int, words: str) -> None:
    """Of two factors the elements are independent, and have statistics; of three sizes count."""
    sizes = [[40, 9], [9, 40], [40, 40]]
    chain = [drawn("float32", sizes[i], 500 + 77 * i, UNIFORM) for i in range(factors)]
    (result,) = judged(case("linalg.multi_dot", "float32", chain), TowardZero(bits))
    assert result.verdict.fails
    assert words in result.explanation


def test_one_step_of_a_range_is_its_start() -> None:
    end = {"tensor": {"base": [], "dtype": "float64", "stop": 3412, "values": UNIFORM,
           "special": [[0, "nan"]]}}  # fmt: skip
    made = {"operator": "linspace", "dtype": "float64", "args": [-8.0, end, 1], "cotangent": 1}
    line = json.dumps(made | {"kwargs": {"dtype": {"dtype": "float64"}}})
    (result,) = judged(Case.from_line(line), "cpu")
    assert result.verdict.passes, result.explanation


def test_torch_refuses_strides_that_numpy_takes() -> None:
    """The reference of ``isin`` is torch's on copies: who raises is wrong, not who answers."""
    few = drawn("float64", [1, 3, 1, 3], 900, ["integers", -4, 4], view=[["permute", 0, 3, 1, 2]])
    results = {r.backend: r for r in judged(case("isin", "float64", few, few), "cpu", "numpy")}
    assert results["numpy"].verdict.passes
    assert results["cpu"].verdict.value in ("known", "exact")  # once torch is repaired


@pytest.mark.parametrize("weightless", [3, 4])
def test_more_numbers_than_categories_with_a_weight(weightless: int) -> None:
    """Two of five categories without replacement, of which two, or only one, have a weight."""
    zeros = [[i, "0"] for i in range(5 - weightless, 5)]
    weights = drawn("float64", [5], 15328, ["uniform", 0.125, 1.0], special=zeros)
    (result,) = judged(case("multinomial", "float64", weights, 2, False), "cpu")
    assert not result.verdict.fails, result.explanation


def test_a_dimension_that_keeps_its_size_has_no_neighbors() -> None:
    """NaN times a weight of 0 counts where a dimension is resampled, and not where it is kept."""
    image = drawn("float64", [1, 1, 3, 5], 700, UNIFORM, special=[[3, "nan"]])
    resized = case("nn.functional.interpolate", "float64", image, align_corners=True,
                   mode="bilinear", size=[2, 5])  # fmt: skip
    for result in judged(resized, "cpu", "numpy"):
        assert not result.verdict.fails, result.explanation
