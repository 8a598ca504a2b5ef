"""Options of another class: which there are, that none is what no kernel defines, and how many
cases of a batch have one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate import search
from consistency.generate.materialize import prepare
from consistency.generate.odd_options import LEFT_OUT, odd_options, with_odd_options
from consistency.generate.variations import PERIOD, is_possible

UNIFORM = ("uniform", -1.0, 1.0)
MATRIX = TensorRecipe((4, 9), "float32", UNIFORM, 5000)
WHOLE = TensorRecipe((4, 9), "int64", ("integers", -9, 9), 5000)
IMAGE = TensorRecipe((2, 3, 8, 8), "float32", UNIFORM, 5000)


def options(name: str, *args: Any, dtype: str = "float32", **kwargs: Any) -> list[Case]:
    return list(odd_options(operators.get(name), Case(name, dtype, args, kwargs)))


def values(found: list[Case], name: str | int) -> set[str]:
    return {
        repr(c.args[name] if isinstance(name, int) else c.kwargs.get(name, "left out"))
        for c in found
    }


def test_numbers_of_every_class() -> None:
    found = values(options("add", MATRIX, MATRIX, alpha=0.75), "alpha")
    assert {
        "0.0",
        "-0.0",
        "1.0",
        "-1.5",
        "0.3",
        "1e-12",
        "1000000.0",
        "inf",
        "-inf",
        "nan",
    } <= found
    assert {"2", "True", "'left out'"} <= found


def test_whole_numbers_around_sizes_and_powers_of_two() -> None:
    found = values(options("roll", MATRIX, 1), 1)
    assert {"3", "4", "8", "9", "10", "33", "64", "127", "128", "23", "0", "-2", "1.0", "1.5"} <= (
        found | {"4", "5"}
    )
    small = values(options("add", TensorRecipe((3,), "int8", ("integers", 0, 9), 9), 2,
                           dtype="int8"), 1)  # fmt: skip
    assert "127" in small
    assert "128" not in small  # which int8 does not hold


def test_dimensions_in_every_way() -> None:
    found = values(options("sum", IMAGE, dim=[1, 2, 3], keepdim=True), "dim")
    assert {"[]", "None", "[3, 2, 1]", "[1]", "[3, 1, 2]", "'left out'"} <= found
    assert "[-2, -3, -4]" in found  # counted from the end
    assert {"[2]", "None"} <= values(options("sum", IMAGE, dim=2), "dim")


def test_numbers_of_windows_are_said_in_every_way() -> None:
    found = options("nn.functional.max_pool2d", IMAGE, 3, stride=[2, 2], padding=1)
    assert {"[3]"} <= values(found, 1)
    assert {"2", "[2]", "None", "[]", "'left out'", "[33, 33]"} <= values(found, "stride")
    assert values(found, "padding") == {"1", "[1]", "'left out'"}


def test_flags_of_other_cases() -> None:
    case = Case("topk", "float32", (MATRIX, 2), {"largest": False})
    other = Case("topk", "float32", (MATRIX, 2), {"sorted": False})
    found = [dict(c.kwargs) for c in odd_options(operators.get("topk"), case, [other])]
    assert {"largest": False, "sorted": False} in found
    assert {"largest": False, "sorted": True} in found
    assert {"largest": True} in found
    assert {} in found


def test_what_is_not_defined_stays_out() -> None:
    assert not options("bitwise_left_shift", WHOLE, 3, dtype="int64")
    for name in ("div", "floor_divide", "remainder", "fmod"):
        assert not options(name, WHOLE, 3, dtype="int64")
    assert "0.3" not in values(options("remainder", MATRIX, 0.75), 1)
    assert not options("nn.functional.embedding", WHOLE, MATRIX, padding_idx=2)
    names = {name for family, _, _ in LEFT_OUT for name in family}
    families = {operator.family for operator in operators.registry().values()}
    assert names <= families | {*operators.registry()}


def test_windows_of_padding_only_stay_out_of_half_formats() -> None:
    """There oneDNN ends the process."""
    for dtype, wider in (("float32", True), ("bfloat16", False), ("float16", False)):
        x = TensorRecipe((2, 3, 8, 8), dtype, UNIFORM, 5000)
        found = options("nn.functional.conv2d", x, x, dtype=dtype, padding=1, dilation=2, stride=1)
        assert ("128" in values(found, "padding")) == wider
        assert ("'left out'" in values(found, "dilation")) == wider
        assert "64" in values(found, "stride")


def test_large_whole_numbers_stay_whole() -> None:
    """Beside a fraction they are rounded before anything is computed."""
    for ends, fractions in (((-9, 9), True), ((-(1 << 40), 1 << 40), False)):
        x = TensorRecipe((5,), "int64", ("integers", *ends), 9)
        found = values(options("add", x, 3, dtype="int64"), 1)
        assert ("3.5" in found) == ("3.0" in found) == fractions


@pytest.mark.parametrize("name", ["var", "add", "nn.functional.avg_pool2d", "sum", "topk"])
def test_of_every_eight_cases_one_more_is_odd(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = operators.get(name)
    with monkeypatch.context() as patched:
        patched.setattr(search, "with_odd_options", lambda operator, cases, drawn: cases)
        drawn = search.batch(operator, "float32", 3 * PERIOD + 2)
    odd = with_odd_options(operator, drawn, drawn)
    changed = [n for n, (a, b) in enumerate(zip(drawn, odd, strict=True)) if a != b]
    assert changed
    assert len({n // PERIOD for n in changed}) == len(changed) <= 3
    for n in changed:
        assert odd[n].tensors == drawn[n].tensors
        arguments = prepare(odd[n]).build()
        operator(*arguments.args, **arguments.kwargs)


def test_no_variation_is_changed_again() -> None:
    operator = operators.get("sum")
    drawn = search.batch(operator, "float32", PERIOD)
    assert with_odd_options(operator, drawn, ()) == drawn


def test_corrections_that_are_fractions_are_possible() -> None:
    case = Case("var", "float32", (MATRIX,), {"dim": 1, "correction": 1})
    operator = operators.get("var")
    found = {c.kwargs.get("correction") for c in odd_options(operator, case)
             if is_possible(operator, c)}  # fmt: skip
    assert {1.5, 8, 9, 10, 128} <= found
    assert all(isinstance(x, (int, float)) and math.isfinite(x) for x in found if x is not None)


def test_lists_take_another_first_or_last_number() -> None:
    found = values(options("fft.fft2", MATRIX, s=[4, 9]), "s")
    assert {"[-1, 9]", "[4, -1]", "[0, 9]", "[5, 9]", "[4, 10]"} <= found
    assert {"[-1, 9]", "[4, -1]"} <= values(options("expand", MATRIX, [4, 9]), 1)


def test_a_size_of_minus_one_is_no_result() -> None:
    one = TensorRecipe((), "float32", UNIFORM, 5000)
    assert not is_possible(operators.get("expand"), Case("expand", "float32", (one, [0, -1]), {}))
    assert is_possible(operators.get("expand"), Case("expand", "float32", (one, [0, 1]), {}))


@pytest.mark.parametrize("name", ["addmm", "addmm_", "baddbmm.out"])
def test_products_take_infinite_factors(name: str) -> None:
    drawn = search.batch(operators.get(name), "float32", 40, 3)
    case = next(c for c in drawn if isinstance(c.kwargs.get("alpha"), float))
    found = odd_options(operators.get(name), case)
    assert {"inf", "-inf"} <= values(list(found), "alpha")


def test_a_factor_of_zero_does_not_end_the_drawing() -> None:
    """torch's own shape function of `pixel_unshuffle` divides by it."""
    from consistency.generate import search

    operator = operators.get("nn.functional.pixel_unshuffle.out")
    assert len(search.batch(operator, "float32", 8, 9301)) == 8
