"""Healthy results that were once called failures: single cases whose rounding is as large as the
error models say it may be.

Each is judged on the CPU and in NumPy. With a fault of the size of TF32's the same cases still
fail.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

import consistency
from consistency.backends import resolve
from consistency.core.model import Case, Result
from consistency.diagnose.evaluation import evaluate
from consistency.judge.tolerances import load
from consistency.operators import get

rules = functools.cache(load)


def drawn(
    dtype: str, base: list[int], stop: int, values: list[Any], *view: list[Any]
) -> dict[str, Any]:
    return {
        "tensor": {"base": base, "dtype": dtype, "stop": stop, "values": values}
        | ({"view": [*view]} if view else {})
    }


def case(operator: str, dtype: str, *args: Any, cotangent: int = 1, **kwargs: Any) -> Case:
    made = {
        "operator": operator, "dtype": dtype, "args": [*args], "kwargs": kwargs,
        "cotangent": cotangent,
    }  # fmt: skip
    return Case.from_line(json.dumps(made))


def judged(case: Case, *backends: Any, directions: tuple[str, ...] = ("forward",)) -> list[Result]:
    return list(
        evaluate(case, [resolve(backend) for backend in backends], rules(), directions=directions)
    )


HEALTHY = {
    "the exponent 1/3 is rounded": case(
        "nn.functional.normalize",
        "float64",
        drawn("float64", [2], 5519, ["offset", 2.0**26, 1.0]),
        dim=-1,
        p=3.0,
    ),
    "both ends are added, then half of them is taken away": case(
        "trapezoid",
        "float64",
        drawn("float64", [3, 64, 5], 6132, ["uniform", 0.0, 1.0], ["transpose", 1, 2]),
        dim=-3,
        dx=0.921875,
    ),
    "the log-softmax is rounded to float16": case(
        "nn.functional.cross_entropy",
        "float16",
        drawn(
            "float16",
            [12],
            5226,
            ["uniform", -8.0, 8.0],
            ["slice", 0, 2, 12, None],
            ["slice", 0, 2, 9, 3],
        ),
        drawn("int64", [], 6, ["integers", 0, 2]),
    ),
    "products are rounded to bfloat16": case(
        "inner",
        "bfloat16",
        drawn("bfloat16", [5, 3], 13658, ["normal", 0.0, 1.0], ["select", 1, 1]),
        drawn("bfloat16", [5, 3], 12316, ["normal", 0.0, 4.0], ["select", 1, 1]),
    ),
    "a window of eight where most are smaller": case(
        "nn.functional.adaptive_avg_pool3d",
        "float16",
        drawn("float16", [5, 6, 8, 5], 11765, ["wide", -8, 2, 1]),
        7,
    ),
    "a row that a bag holds eight times": case(
        "nn.functional.embedding_bag",
        "float32",
        drawn("int64", [7, 33], 2891, ["integers", 0, 8]),
        drawn("float32", [9, 16, 2], 4902, ["wide", -10, 10, 1], ["select", 2, 1]),
        mode="sum",
        padding_idx=2,
    ),
    # Of 640 numbers: where the length has a large prime factor, as 684 has, MKL errs by hundreds of
    # u·‖x‖₂ on some processors.
    "a spectrum of one line": case(
        "fft.hfft",
        "float64",
        drawn("float64", [8, 963], 8176, ["cancelling", 1.0], ["unfold", 1, 3, 3]),
        dim=1,
    ),
    "a tie that float32 makes": case(
        "half",
        "float64",
        drawn(
            "float64",
            [12115, 2],
            30061,
            ["uniform", 0.0, 1.0],
            ["select", 1, 1],
            ["slice", 0, 0, 12115, 3],
        ),
    ),
    "the mean of a large area": case(
        "nn.functional.interpolate",
        "float16",
        drawn(
            "float16",
            [3, 5, 7, 4, 1],
            11907,
            ["wide", -8, 7, 1],
            ["expand", 3, 5, 7, 4, 3],
            ["slice", 2, 2, 7, None],
        ),
        mode="area",
        size=[2, 1, 1],
    ),
    "the variance of one number, many times": case(
        "nn.functional.batch_norm",
        "float32",
        drawn("float32", [1, 3], 3103, ["offset", 4096.0, 1.0], ["expand", 13, 3]),
        drawn("float32", [3], 6245, ["uniform", -1.0, 1.0]),
        drawn("float32", [3], 16679, ["wide", -10, 9, 0]),
        drawn("float32", [3], 9396, ["uniform", -2.0, 2.0]),
        None,
        eps=0.00390625,
        momentum=1.0,
        training=True,
    ),
    "equal products, all of both operands expanded": case(
        "mm",
        "float32",
        drawn("float32", [17, 1], 1780, ["uniform", 0.0, 1.0], ["expand", 17, 122]),
        drawn("float32", [1, 19], 17672, ["uniform", 0.0, 1.0], ["expand", 122, 19]),
    ),
    "an epsilon that is 1e-12 in float32": case(
        "nn.functional.cosine_embedding_loss",
        "float64",
        drawn("float64", [1, 1], 2988, ["uniform", -1.0, 1.0]),
        drawn("float64", [1, 1], 1, ["uniform", -1.0, 1.0]),
        drawn("float64", [1], 0, ["tokens", 1.0, 1.0, "-1", "-1", "1"]),
    ),
    "the sign of a zero within bounds": case(
        "nn.functional.hardtanh",
        "float64",
        drawn("float64", [64], 2496, ["tokens", -1.0, 1.0, "0", "-0", "1"]),
        max_val=0.0,
        min_val=-2.828125,
    ),
}


@pytest.mark.parametrize("why", HEALTHY)
def test_rounding_is_no_failure(why: str) -> None:
    results = judged(HEALTHY[why], "cpu", "numpy")
    for result in results:
        assert not result.verdict.fails, f"{result.backend}: {result.explanation}"
    assert any(result.verdict.tested for result in results)


@pytest.mark.parametrize(
    "why",
    [
        why
        for why, case in HEALTHY.items()
        if case.dtype in ("float32", "float64") and "." in case.operator
    ],
)
def test_the_same_cases_show_an_eleventh_bit(why: str) -> None:
    class ElevenBits(consistency.Backend):
        """Every result a little too large, by what inputs of TF32 may cost."""

        name = "eleven bits"

        def call(
            self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
        ) -> Any:
            return super().call(operator, args, kwargs) * (1.0 + 2.0**-11)

    (result,) = judged(HEALTHY[why], ElevenBits())
    if not result.operator.endswith(("hardtanh", "batch_norm")):  # zeros stay zero
        assert result.verdict.fails, result.explanation


FEW_NUMBERS = {
    "norm": (
        drawn(
            "float32",
            [4, 1, 6],
            6666,
            ["uniform", -1.0, 1.0],
            ["slice", 2, 5, 6, None],
            ["expand", 4, 2339, 1],
        ),
        2,
    ),
    "formula.norm": (
        drawn(
            "float64",
            [1, 5, 1],
            7750,
            ["uniform", 0.5, 1.0],
            ["expand", 5, 5, 1],
            ["expand", 5, 5, 213],
        ),
    ),
}


@pytest.mark.parametrize("operator", FEW_NUMBERS)
def test_the_gradient_of_the_norm_of_a_few_numbers_many_times(operator: str) -> None:
    args = FEW_NUMBERS[operator]
    for result in judged(
        case(operator, args[0]["tensor"]["dtype"], *args, cotangent=8964),
        "cpu",
        directions=("backward",),
    ):
        assert not result.verdict.fails, result.explanation


@pytest.mark.parametrize("slope", [1.0, 1.0 + 2.0**-17])
def test_the_gradient_of_a_masked_softmin_has_the_error_of_its_exponents(slope: float) -> None:
    class Sloping(consistency.Backend):
        """Every gradient too large, by 64 ulp or not at all."""

        name = "sloping"

        def call(
            self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
        ) -> Any:
            y = super().call(operator, args, kwargs)
            return slope * y + (1.0 - slope) * y.detach()

    x = drawn("float32", [15], 1843, ["uniform", -16.0, 16.0], ["slice", 0, 2, 15, 2])
    mask = drawn("bool", [7], 6854, ["integers", 0, 4])
    (result,) = judged(
        case("masked.softmin", "float32", x, 0, mask=mask, cotangent=2748),
        Sloping(),
        directions=("backward",),
    )
    assert result.verdict.fails == (slope > 1.0), result.explanation


@pytest.mark.parametrize("operator", ["formula.tanh", "formula.mish"])
def test_the_slope_of_a_sigmoid_is_made_of_its_rounded_result(operator: str) -> None:
    """1 − y has the whole error of y, where y is near 1."""
    x = drawn("float32", [1], 1017, ["uniform", -4.0, 4.0], ["select", 0, 0])
    for result in judged(
        case(operator, "float32", x, cotangent=1753), "cpu", directions=("backward",)
    ):
        assert not result.verdict.fails, result.explanation


BESIDE_LARGE = {
    "e to the power of a number of -64": case(
        "logcumsumexp",
        "float32",
        drawn("float32", [1, 2, 64, 2], 11339, ["wide", -10, 6, 1]),
        1,
        cotangent=11774,
    ),
    "1 less the square of a number near 1": case(
        "nn.functional.mish",
        "float64",
        drawn("float64", [65537], 140477, ["uniform", -87.0, 87.0]),
        cotangent=4071,
    ),
}


@pytest.mark.parametrize("told", BESIDE_LARGE)
@pytest.mark.parametrize("slope", [1.0, 1.0 + 2.0**-10])
def test_gradients_have_the_errors_of_large_steps(told: str, slope: float) -> None:
    class Steeper(consistency.Backend):
        """The same results, all gradients larger by a share of themselves."""

        name = "steeper"

        def call(
            self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
        ) -> Any:
            y = super().call(operator, args, kwargs)
            return slope * y + (1.0 - slope) * y.detach()

    results = judged(BESIDE_LARGE[told], "cpu", Steeper(), directions=("backward",))
    failing = {result.backend for result in results if result.verdict.fails}
    assert failing == ({"steeper"} if slope > 1.0 else set())


@pytest.mark.parametrize("order", [1, -1])
def test_a_softmax_may_add_its_blanks_in_any_order(order: int) -> None:
    """Half of the numbers are zeros, whose exponentials add up with one and the same rounding
    error."""

    class Ordered(consistency.Backend):
        name = "ordered"

        def call(
            self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
        ) -> Any:
            x, dim = args
            x = x.flip(dim) if order < 0 else x
            terms = (x - x.amax(dim, keepdim=True)).exp()
            shares = terms / terms.cumsum(dim).narrow(dim, x.shape[dim] - 1, 1)
            return shares.flip(dim) if order < 0 else shares

    x = drawn("float64", [4, 70, 16], 2467, ["normal", 0.0, 4.0], ["slice", 1, 5, 69, None])
    for result in judged(case("softmax", "float64", x, 1), Ordered()):
        assert not result.verdict.fails, result.explanation


def test_embedding_bags_count_how_often_a_row_occurs() -> None:
    terms = get("nn.functional.embedding_bag").error.terms
    weight, out = torch.zeros(9, 2), (torch.zeros(2, 2),)
    assert terms((torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), weight), {}, out) == 2.0
    assert terms((torch.tensor([[1, 1, 1, 1], [5, 6, 7, 8]]), weight), {}, out) == 4.0
    assert terms(
        (torch.tensor([1, 1, 1, 1, 5]), weight), {"offsets": torch.tensor([0, 1])}, out
    ) == math.sqrt(10.0)


def test_windows_of_adaptive_pooling() -> None:
    terms = get("nn.functional.adaptive_avg_pool2d").error.terms
    assert terms((torch.zeros(1, 5, 8), (7, 7)), {}, (torch.zeros(1, 7, 7),)) == 4.0
    assert terms((torch.zeros(1, 6, 9), (3, 9)), {}, (torch.zeros(1, 3, 9),)) == 2.0


# Where torch's float64 is wrong, the reference takes another way (docs/findings.md).


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("number", [-0.049, 0.01, 0.55, -2.0])
def test_the_reference_of_matrix_exp(size: int, number: float) -> None:
    reference = get("linalg.matrix_exp").reference
    assert reference is not None
    a = torch.eye(size, dtype=torch.float64).mul_(number).requires_grad_()
    result = reference(a)
    torch.testing.assert_close(
        result, torch.eye(size, dtype=torch.float64) * math.exp(number), rtol=1e-14, atol=1e-15
    )
    (gradient,) = torch.autograd.grad(result, a, torch.full_like(a, 0.1))
    torch.testing.assert_close(
        gradient, torch.full_like(a, 0.1 * math.exp(number)), rtol=1e-14, atol=1e-15
    )


@pytest.mark.parametrize("name", ["linalg.matrix_exp", "matrix_exp"])
def test_the_known_defect_of_matrix_exp_is_expected(name: str) -> None:
    x = drawn("float32", [1, 1, 1], 14838, ["uniform", -1.0, 1.0])
    (result,) = judged(case(name, "float32", x, cotangent=3903), "cpu", directions=("backward",))
    assert result.verdict.value in ("known", "rounding")  # once torch is repaired


def test_addmv_with_an_empty_matrix() -> None:
    tensors = [drawn("float32", base, 2000, ["uniform", -1.0, 1.0]) for base in ([1], [0, 3], [3])]
    results = {
        result.backend: result
        for result in judged(case("addmv", "float32", *tensors), "cpu", "numpy")
    }
    assert results["cpu"].verdict.value in ("known", "inconclusive")  # once torch is repaired
    assert results["numpy"].verdict.value == "inconclusive"


# What can tell, and what cannot.


def test_nothing_but_nan_is_undecidable() -> None:
    x = {
        "tensor": drawn("float32", [3], 900, ["uniform", 0.0, 1.0])["tensor"]
        | {"special": [[i, "nan"] for i in range(3)]}
    }
    (result,) = judged(case("softmax", "float32", x, 0), "cpu")
    assert (result.verdict.value, result.explanation) == (
        "inconclusive",
        "cannot tell: no element is finite in both",
    )


def test_the_gradient_of_a_choice_may_be_mostly_zeros() -> None:
    x = drawn("float32", [100], 900, ["uniform", 0.0, 1.0])
    (result,) = judged(case("amax", "float32", x, cotangent=900), "cpu", directions=("backward",))
    assert result.verdict.value == "exact"
    (result,) = judged(case("amax", "float32", x, cotangent=0), "cpu", directions=("backward",))
    assert result.verdict.value == "inconclusive"  # a cotangent of zero


class Tf32Factors(consistency.TorchBackend):
    """masked.prod of factors whose last 13 bits are cut off."""

    name = "tf32-factors"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        cut = (args[0].view(torch.int32) & ~0x1FFF).view(torch.float32)
        return operator(args[0] + (cut - args[0]).detach(), *args[1:], **kwargs)


def test_the_gradient_of_a_masked_product_has_the_roundings_of_all_its_factors() -> None:
    """332 factors: 16 ulp are one to two standard deviations of as many roundings."""
    mask = drawn("bool", [6, 8, 9], 1016, ["integers", 0, 4])
    factors = drawn("float32", [6, 8, 9], 11218, ["uniform", 0.5, 2.0])
    product = case("masked.prod", "float32", factors, cotangent=3239, keepdim=True, mask=mask)
    for result in judged(product, "cpu", "cpu+onednn=off", directions=("backward",)):
        assert result.verdict.passes, result.explanation
        assert result.metrics["rho_max"] < 0.5
    (wrong,) = judged(product, Tf32Factors(), directions=("backward",))
    assert wrong.verdict.fails, wrong.explanation


def test_equal_results_have_equal_errors() -> None:
    """The gradient of a mean is one number where the mask lets it through: that all errors lie on
    one side of it says nothing of rounding."""
    mask = drawn("bool", [65537], 131050, ["offset", 1.0, 5 / 6])
    mean = case(
        "masked.mean", "float16", drawn("float16", [65537], 134853, ["uniform", -1.0, 1.0]), 0,
        mask=mask, cotangent=4,
    )  # fmt: skip
    for result in judged(mean, "cpu", "cpu+onednn=off", directions=("backward",)):
        assert result.verdict.value == "rounding", result.explanation


def test_elements_that_share_a_product_share_its_error() -> None:
    """Of a chain with a column times a row, all elements of a gradient have one product in common:
    that all errors lie on one side says nothing of rounding."""
    unit = ["uniform", -1.0, 1.0]
    factors = [
        drawn("float16", [300, 26], 19050, unit),
        drawn("float16", [17, 26], 9719, unit, ["transpose", 0, 1]),
        drawn("float16", [17, 1], 284, unit),
        drawn("float16", [1, 15], 7212, unit),
        drawn("float16", [15, 17], 173, unit),
    ]
    chain = case("linalg.multi_dot", "float16", factors, cotangent=5)
    chain = replace(chain, cotangent_layout="transposed")
    for result in judged(chain, "cpu", "cpu+onednn=off", directions=("backward",)):
        assert result.verdict.value == "rounding", result.explanation


class OneByOne(consistency.TorchBackend):
    """matmul whose products are added one after the other, each sum rounded to float32, or cut."""

    def __init__(self, cut: bool) -> None:
        super().__init__()
        self.cut, self.name = cut, "cut" if cut else "rounded"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        a, b = (arg.double() for arg in args)
        total = torch.zeros(len(a), b.shape[1], dtype=torch.float64)
        for k in range(len(b)):
            total += a[:, k : k + 1] * b[k : k + 1]
            if self.cut:
                total = (total.view(torch.int64) & -(1 << 29)).view(torch.float64)
            total = total.float().double()
        return total.float()


def test_small_products_with_nearly_equal_numbers_err_alike() -> None:
    """Numbers around 4,096 times numbers of magnitudes far apart: what a running sum rounds away of
    a small product is about the same in all results that share a column. Most errors lie on one
    side then, by chance. Cutting in place of rounding is found, because its errors are larger."""
    for stop in (1000, 2600, 9000):
        product = case(
            "matmul", "float32", drawn("float32", [40, 24], stop, ["offset", 4096.0, 1.0]),
            drawn("float32", [24, 8], stop + 700, ["wide", -10, 10, 1]),
        )  # fmt: skip
        for result in judged(product, OneByOne(cut=False), "cpu", "numpy"):
            assert result.verdict.passes, result.explanation
        (wrong,) = judged(product, OneByOne(cut=True))
        assert wrong.verdict.fails, wrong.explanation


@pytest.mark.parametrize(("length", "stops"), [(54, (2532, 1212, 2992)), (63, (2322, 1087, 1308))])
def test_so_do_those_of_complex_numbers(length: int, stops: Sequence[int]) -> None:
    x = drawn("complex64", [15, length], stops[0], ["offset", 4096.0, 1.0], ["conj"])
    weight = drawn("complex64", [4, 15, 5], stops[1], ["wide", -10, 10, 1], ["conj"])
    bias = drawn("complex64", [4, 3], stops[2], ["uniform", -1.0, 1.0], ["select", 1, 1], ["conj"])
    convolution = case("nn.functional.conv1d", "complex64", x, weight, bias)
    for result in judged(convolution, "cpu", "cpu+onednn=off", "numpy"):
        assert result.verdict.passes, result.explanation


class Constant(consistency.TorchBackend):
    """var that adds a small number."""

    name = "constant"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return operator(*args, **kwargs) + 3e-12


def test_the_variance_of_equal_numbers_is_the_square_of_a_rounding() -> None:
    """The mean of five equal numbers is rounded, and its distance from them squared."""
    for stop in (1, 10319):
        rows = drawn("float32", [4, 1], stop, ["uniform", 0.0, 1.0], ["expand", 4, 5])
        variance = case("formula.var", "float32", rows, -1)
        for result in judged(variance, "cpu", "cpu+onednn=off"):
            assert not result.verdict.fails, result.explanation
        (wrong,) = judged(variance, Constant())
        assert wrong.verdict.fails, wrong.explanation


class Steeper(consistency.TorchBackend):
    """Gradients a thousandth too large."""

    name = "steeper"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        x = args[0]
        return operator(x + 0.001 * (x - x.detach()), *args[1:], **kwargs)


@pytest.mark.parametrize("p", [0.25, 0.5])
def test_the_slope_of_a_norm_of_small_order_is_steep(p: float) -> None:
    """Numbers of magnitudes far apart: below order 1 the slope of the norm grows as they shrink."""
    x = drawn("float32", [1500, 5], 19006, ["wide", -10, 10, 1])
    rows = case("nn.functional.normalize", "float32", x, cotangent=12290, dim=-2, p=p)
    for result in judged(rows, "cpu", "cpu+onednn=off", directions=("backward",)):
        assert result.verdict.passes, result.explanation
    (wrong,) = judged(rows, Steeper(), directions=("backward",))
    assert wrong.verdict.fails, wrong.explanation


def test_bounds_of_float64_hold_where_its_exponential_leaves_it() -> None:
    """The sigmoid is 0 below -709.8, and few digits of it are right above. Beside numbers around
    -100, whose errors are larger than those by hundreds of orders of magnitude."""
    x = drawn("float64", [64], 500, ["uniform", -750.0, 0.0])
    for name in ("sigmoid", "nn.functional.silu", "nn.functional.mish"):
        for result in judged(case(name, "float64", x), "cpu", "cpu+onednn=off", "numpy"):
            assert result.verdict.passes, result.explanation
        (wrong,) = judged(case(name, "float64", x), Zeroed())
        assert wrong.verdict.fails, wrong.explanation


class Zeroed(consistency.TorchBackend):
    """0 from -600 on."""

    name = "zeroed"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return operator(*args, **kwargs).where(args[0] > -600.0, 0.0)


def test_roundings_of_a_running_variance_add_up_where_one_number_is_frequent() -> None:
    """Half of 3,920 numbers are 0: each step of the running sum is rounded alike."""
    x = drawn("float64", [7, 7, 16, 5, 2], 6812, ["sparse", 0.5], ["select", 4, 1])
    rows = case("std", "float64", x, cotangent=2272, correction=0)
    results = evaluate(
        rows, [resolve("cpu"), Shifted()], rules(), directions=("backward",), against="spot"
    )
    healthy, wrong = results
    assert healthy.verdict.passes, healthy.explanation
    assert wrong.verdict.fails, wrong.explanation


class Shifted(consistency.TorchBackend):
    """Gradients larger by 1e-11 of themselves."""

    name = "shifted"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        x = args[0]
        return operator(x + 1e-11 * (x - x.detach()), *args[1:], **kwargs)


def test_roundings_of_equal_factors_repeat() -> None:
    """51 equal rows: each of the 51 products of a column is rounded alike."""
    rows = drawn("float32", [1, 40], 700, ["uniform", 0.96, 1.0], ["expand", 51, 40])
    product = case("prod", "float32", rows, cotangent=60, dim=0)
    for result in judged(product, "cpu", "cpu+onednn=off", directions=("backward",)):
        assert result.verdict.passes, result.explanation
    (wrong,) = judged(product, Steeper(), directions=("backward",))
    assert wrong.verdict.fails, wrong.explanation


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("reads", [32, 300])
def test_a_row_that_is_read_again_and_again_adds_up_as_many_cotangents(
    dtype: str, reads: int
) -> None:
    """Of 300 rows one is read; on average each is read once. Equal cotangents err alike."""
    rows = drawn(dtype, [300, 3], 1800, ["uniform", -1.0, 1.0])
    first = drawn("int64", [reads], 500, ["integers", 0, 0])
    for layout in ("expanded", "constant"):
        read = replace(
            case("index_select", dtype, rows, 0, first, cotangent=700), cotangent_layout=layout
        )
        for result in judged(read, "cpu", directions=("backward",)):
            assert result.verdict.passes, result.explanation
        if dtype == "float32":
            (wrong,) = judged(read, Steeper(), directions=("backward",))
            assert wrong.verdict.fails, wrong.explanation


IMAGE = drawn("float32", [4, 3, 1], 959, ["integers", -4, 4], ["slice", 1, 1, 2, None])
LONG = drawn("float32", [9000, 1, 1], 25434, ["uniform", -16.0, 16.0])


@pytest.mark.parametrize(
    "summed",
    [
        case("nn.functional.adaptive_avg_pool2d", "float32", IMAGE, 33, cotangent=6332),
        case("masked.log_softmax", "float32", LONG, 0, cotangent=10116),
        case("log_softmax", "float32", LONG, 0, cotangent=10116),
    ],
    ids=lambda summed: str(summed.operator),
)
def test_equal_cotangents_that_are_summed_are_equal_terms(summed: Case) -> None:
    """1,089 of them, or 9,000, one after another; a gradient 1% off is noticed."""
    equal = replace(summed, cotangent_layout="expanded")
    (result,) = judged(equal, "cpu", directions=("backward",))
    assert not result.verdict.fails, result.explanation

    class Off(consistency.Backend):
        name = "off"

        def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
            args[0].register_hook(lambda gradient: gradient * 1.01)
            return super().call(operator, args, kwargs)

    given = evaluate(equal, [Off()], rules(), directions=("backward",))
    assert [result.verdict.fails for result in given] == [True]
