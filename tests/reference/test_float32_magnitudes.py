"""S of large products in float32: above the one in float64, by hardly anything."""

from __future__ import annotations

import platform

import pytest
import torch

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.materialize import prepare
from consistency.reference import Reference, float32_magnitudes, quiet

NORMAL = ("normal", 0.0, 4.0)


def tensor(*shape: int, dtype: str = "float32", stop: int = 1 << 22) -> TensorRecipe:
    return TensorRecipe(shape, dtype, NORMAL, stop)


def of(case: Case) -> Reference:
    return Reference(operators.get(case.operator), prepare(case), "forward")


def in_float64(reference: Reference, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    with monkeypatch.context() as patched, quiet():
        patched.setattr(float32_magnitudes, "LARGE", float("inf"))
        reference.__dict__.pop("magnitudes", None)
        (magnitude,) = reference.magnitudes
    assert isinstance(magnitude, torch.Tensor)
    return magnitude


def narrow(reference: Reference) -> torch.Tensor | None:
    arguments = reference.arguments
    with quiet():
        if not float32_magnitudes.is_large(reference):
            return None
        return float32_magnitudes.upper_bound(
            reference,
            reference.operator,
            [a.abs() if isinstance(a, torch.Tensor) else a for a in arguments.args],
            {},
        )


MATRICES = Case("matmul", "float32", (tensor(200, 150), tensor(150, 90, stop=1 << 20)))
LONG = Case("matmul", "bfloat16", (
    tensor(20, 8000, dtype="bfloat16"), tensor(8000, 20, dtype="bfloat16", stop=1 << 21),
))  # fmt: skip
IMAGES = Case(
    "nn.functional.conv2d", "float32", (tensor(2, 8, 40, 40), tensor(16, 8, 3, 3, stop=1 << 20))
)


def test_grouped_convolutions_are_computed_in_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's CPU is wrong for some of them in float32, and a small S accuses the innocent."""
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    grouped = (tensor(2, 8, 64, 64), tensor(16, 4, 3, 3, stop=1 << 20))
    by_name = of(Case("nn.functional.conv2d", "float32", grouped, {"groups": 2}))
    in_turn = of(Case("nn.functional.conv2d", "float32", (*grouped, None, 1, 0, 1, 2)))

    def bound(reference: Reference) -> torch.Tensor | None:
        args, kwargs = reference.arguments.args, dict(reference.arguments.kwargs)
        sizes = [a.abs() if isinstance(a, torch.Tensor) else a for a in args]
        with quiet():
            return float32_magnitudes.upper_bound(reference, reference.operator, sizes, kwargs)

    assert bound(by_name) is None
    assert bound(in_turn) is None
    monkeypatch.setattr(float32_magnitudes, "_groups", lambda args, kwargs: 1)
    assert bound(by_name) is not None, "large enough, but for its groups"


@pytest.mark.parametrize("case", [MATRICES, LONG, IMAGES], ids=["matmul", "long", "conv2d"])
def test_the_bound_is_above_s_by_at_most_a_thousandth(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = of(case)
    bound = narrow(reference)
    if case is IMAGES and platform.machine() not in ("x86_64", "AMD64"):
        assert bound is None
        return
    assert bound is not None
    exact = in_float64(reference, monkeypatch)
    assert bool((bound >= exact).all())
    assert bool((bound <= exact * 1.001).all())


def test_it_is_what_large_products_are_judged_with_and_small_ones_are_not() -> None:
    large, small = of(MATRICES), of(Case("matmul", "float32", (tensor(8, 8), tensor(8, 8))))
    with quiet():
        bound = narrow(large)
        assert bound is not None
        assert torch.equal(large.magnitudes[0], bound)
    assert narrow(small) is None


@pytest.mark.parametrize(
    "values",
    [("wide", -70, -60, 1), ("wide", 60, 63, 1)],
    ids=["below float32's range", "beyond float32's range"],
)
def test_sums_outside_of_the_range_of_float32_are_left_to_float64(
    values: tuple[object, ...],
) -> None:
    size = TensorRecipe((150, 150), "float32", values, 1 << 22)
    assert narrow(of(Case("matmul", "float32", (size, size)))) is None


def test_a_row_of_zeros_is_left_to_float64_whose_s_is_exactly_zero() -> None:
    rows = TensorRecipe((200, 150), "float32", NORMAL, 150 * 100)  # half of them zeros
    assert narrow(of(Case("matmul", "float32", (rows, tensor(150, 90))))) is None


def test_numbers_that_float32_does_not_hold_are_left_to_float64() -> None:
    case = Case("matmul", "float64", (
        tensor(200, 150, dtype="float64"), tensor(150, 90, dtype="float64"),
    ))  # fmt: skip
    assert narrow(of(case)) is None


def test_nothing_is_computed_in_float32_where_it_may_have_fewer_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reference = of(MATRICES)
    monkeypatch.setenv("ONEDNN_DEFAULT_FPMATH_MODE", "BF16")
    assert narrow(reference) is None
    monkeypatch.delenv("ONEDNN_DEFAULT_FPMATH_MODE")
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert narrow(reference) is None
    finally:
        torch.set_float32_matmul_precision(before)
    assert narrow(reference) is not None
