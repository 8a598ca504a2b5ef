"""Probes of sums of products against backends whose arithmetic is known: each truth is found, and
nothing else is claimed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from consistency import backends
from consistency.probes.fingerprint import accumulator, contraction, input_precision
from consistency.probes.fingerprint.facts import Fact
from consistency.probes.fingerprint.query import Ask
from tests.support.synthetic import products as made
from tests.support.synthetic.products import Products, Way
from tests.support.synthetic.rounding import (
    downward,
    nearest_away,
    nearest_even,
    toward_zero,
    upward,
)


def asked(way: Way, **ways: Any) -> Ask:
    return Ask(Products("synthetic", {"float32": way}, **ways))


def factor(ask: Ask, form: str = "matmul", dtype: str = "float32") -> Fact:
    (found,) = input_precision.facts(ask, form, dtype)
    return found


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        (made.one_after_another(), "24 bits"),
        (made.one_after_another(nearest_even(11)), "11 bits, nearest even"),
        (made.one_after_another(nearest_away(11)), "11 bits, nearest away"),
        (made.one_after_another(toward_zero(11)), "11 bits, toward zero"),
        (made.one_after_another(nearest_even(8)), "8 bits, nearest even"),
        (made.one_after_another(toward_zero(8)), "8 bits, toward zero"),
        (made.one_after_another(nearest_even(23)), "23 bits, nearest even"),
        (made.split(2), "17 bits, in parts"),
        (made.split(3), "24 bits"),
        (made.fused(8, 2, nearest_even(11)), "11 bits, nearest even"),
    ],
    ids=[
        "float32",
        "TF32 even",
        "TF32 away",
        "TF32 cut",
        "bf16",
        "bf16 cut",
        "23",
        "bf16 × 3",
        "bf16 × 6",
        "TF32 unit",
    ],
)
def test_bits_of_a_factor(way: Way, answer: str) -> None:
    assert factor(asked(way)).answer == answer


def test_both_sides_are_asked() -> None:
    one_side: Way = lambda a, b: made.one_after_another()(nearest_even(11)(a), b)  # noqa: E731
    assert (
        factor(asked(one_side)).answer
        == "first factor 11 bits, nearest even; second factor 24 bits"
    )


def test_two_kernels_by_shape_are_told_apart() -> None:
    """What holds for one shape is not claimed of the other."""
    choose: Callable[[str, int, int, int], Way] = lambda dtype, m, k, n: made.one_after_another(  # noqa: E731
        nearest_even(11 if m > 100 else 24)
    )
    found = factor(Ask(Products("by shape", {}, choose)))
    assert found.answer == "11 bits, nearest even at 128×288×32; 24 bits at 33×279×17"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("way", "answer", "compensation"),
    [
        (made.one_after_another(), "24 bits, nearest even", "none"),
        (made.one_after_another(total=nearest_away(24)), "24 bits, nearest away", "none"),
        (made.one_after_another(total=toward_zero(24)), "24 bits, toward zero", "none"),
        (made.one_after_another(total=upward(24)), "24 bits, upward", ""),
        (made.one_after_another(total=downward(24)), "24 bits, downward", "none"),
        (made.one_after_another(total=nearest_even(11)), "11 bits, nearest even", "none"),
        (made.one_after_another(total=nearest_even(27)), "27 bits, nearest even", "none"),
        (made.one_after_another(lanes=16), "24 bits, nearest even", "none"),
        (made.one_after_another(block=96), "24 bits, nearest even", "none"),
        (made.in_float64, "53 bits, nearest even", "none"),
        (made.kahan(), "24 bits", "compensated"),
        (made.fused(4, 0), "24 bits, aligned terms cut off", "none"),
        (
            made.fused(4, 1),
            "24 bits, toward zero, aligned terms cut off; 25 among terms added together",
            "none",
        ),
        (made.fused(8, 2), "24 bits, toward zero; 26 among terms added together", "none"),
        (
            made.fused(16, 3, nearest_even(11)),
            "24 bits, toward zero; 27 among terms added together",
            "none",
        ),
    ],
    ids=[
        "float32",
        "away",
        "cut",
        "up",
        "down",
        "float16",
        "27",
        "lanes",
        "blocks",
        "float64",
        "Kahan",
        "4+0",
        "4+1",
        "8+2",
        "16+3",
    ],
)
def test_bits_of_the_running_sum(way: Way, answer: str, compensation: str) -> None:
    found, carried = accumulator.facts(asked(way), "matmul", "float32")
    assert found.answer == answer
    assert carried.answer == compensation


def test_parts_of_k_may_be_added_up_in_fewer_bits() -> None:
    """float16 between the halves of K, float32 inside."""

    def way(a: Any, b: Any) -> Any:
        half = a.shape[1] // 2
        parts = [
            made.one_after_another()(a[:, s], b[s]) for s in (slice(0, half), slice(half, None))
        ]
        short = nearest_even(11)
        return short(short(parts[0]) + short(parts[1]))

    found, _ = accumulator.facts(asked(way), "matmul", "float32")
    assert found.answer.startswith("11 bits")
    assert found.answer.endswith("; 24 inside a part of K")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("way", "answer"),
    [
        (made.one_after_another(), "exact"),
        (made.one_after_another(lanes=16), "exact"),
        (made.one_after_another(product=nearest_even(24)), "rounded to 24 bits"),
        (made.one_after_another(product=nearest_even(24), lanes=16), "rounded to 24 bits"),
        (made.split(2), "those of low parts are left out"),
        (made.split(2, dropped=False), "exact down to 2^-24"),
        (made.fused(8, 2), "exact down to 2^-25"),
    ],
    ids=["FMA", "FMA lanes", "separate", "separate lanes", "bf16 × 3", "bf16 × 4", "unit"],
)
def test_products(way: Way, answer: str) -> None:
    ask = asked(way)
    (found,) = contraction.products(ask, "matmul", "float32", factor(ask))
    assert found.answer == answer


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("way", "reason"),
    [
        (
            made.one_after_another(nearest_even(11)),
            "of factors of 11 bits every product is exact in float32",
        ),
        (
            made.one_after_another(nearest_even(8)),
            "of factors of 8 bits every product is exact in float32",
        ),
        (
            made.one_after_another(lanes=128),
            "in none of the arrangements is it sure that the product joins the sum of the others",
        ),
        (
            made.one_after_another(product=nearest_even(24), lanes=128),
            "in none of the arrangements is it sure",
        ),
        (
            made.fused(4, 0),
            "in none of the arrangements is it sure that the product joins the sum of the others",
        ),
        (made.fused(8, 0, bits=16), "the sum has no room for what an exact product would show"),
    ],
    ids=[
        "TF32",
        "bf16",
        "FMA, 128 lanes",
        "separate, 128 lanes",
        "unit that cuts terms off",
        "unit with a short sum",
    ],
)
def test_products_that_had_no_chance_to_show(way: Way, reason: str) -> None:
    """Without the control, 128 lanes with FMA would be taken for rounded products, and a short sum
    for parts left out."""
    ask = asked(way)
    (found,) = contraction.products(ask, "matmul", "float32", factor(ask))
    assert found.inconclusive.startswith(reason)


def test_products_by_another_way_of_asking() -> None:
    """linear, bmm and conv2d put the same questions."""
    ask = asked(made.one_after_another(nearest_even(11), total=toward_zero(24)))
    for form in ("linear", "bmm", "conv2d"):
        assert factor(ask, form).answer == "11 bits, nearest even"
        assert next(accumulator.facts(ask, form, "float32")).answer == "24 bits, toward zero"


def test_short_formats() -> None:
    """float16 with a float16 sum, bfloat16 with one of 24 bits that is cut off."""
    ask = Ask(
        Products(
            "short",
            {
                "float16": made.one_after_another(total=nearest_even(11)),
                "bfloat16": made.one_after_another(total=toward_zero(24)),
            },
        )
    )
    assert next(accumulator.facts(ask, "matmul", "float16")).answer == "11 bits, nearest even"
    assert next(accumulator.facts(ask, "matmul", "bfloat16")).answer == "24 bits, toward zero"


def test_the_cpu_is_healthy() -> None:
    ask = Ask(backends.resolve("cpu"))
    for dtype, bits, total in (
        ("float32", 24, 24),
        ("float64", 53, 53),
        ("float16", 11, 24),
        ("bfloat16", 8, 24),
    ):
        found = factor(ask, dtype=dtype)
        assert found.answer == f"{bits} bits"
        sums, carried = accumulator.facts(ask, "matmul", dtype)
        assert sums.answer.startswith(f"{total} bits"), sums
        assert carried.answer in ("none", "")
        assert next(contraction.products(ask, "matmul", dtype, found)).answer in (
            "exact",
            f"rounded to {bits} bits",
        )
