"""Policies: what one backend is free to answer is a failure of another, and what nobody is free to
answer always is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import consistency
from consistency.reference.integer_casts import _wrapped
from tests.support.running import judged, unshrunk

pytestmark = pytest.mark.usefixtures("drawn_once")

Change = Callable[[str, Tensor], Tensor]


class Changing(consistency.Backend):
    """The CPU, with every floating tensor changed on the way in."""

    def __init__(self, name: str, change: Change) -> None:
        self.name, self.change = name, change

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        floats = [isinstance(a, Tensor) and a.is_floating_point() for a in args]
        changed = [
            self.change(operator.name, a) if float_ else a
            for a, float_ in zip(args, floats, strict=True)
        ]
        return super().call(operator, changed, kwargs)


LENIENT = "extends: packaged\nbackends:\n  lenient:\n    policy: {nan_in_max: any}\n"


def verdicts(name: str, change: Change, operator: str, folder: Path) -> Iterator[str]:
    file = folder / "lenient.yaml"
    file.write_text(LENIENT, encoding="utf-8")
    found = judged(
        [operator],
        [Changing(name, change)],
        ["float32"],
        ["forward"],
        examples=150,
        tolerances=file,
    )
    return (r.verdict.value for r in found if r.verdict.tested)


def never_chosen(operator: str, x: Tensor) -> Tensor:
    """D3D's min and max: a NaN counts as the number that loses."""
    return torch.where(x.isnan(), math.inf if operator == "minimum" else -math.inf, x)


def some_number(operator: str, x: Tensor) -> Tensor:
    """No choice among the other numbers gives this one."""
    return torch.where(x.isnan(), 2.0**100, x)


PICKING = [
    "maximum",
    "minimum",
    "clamp",
    "amax",
    "max",
    "cummax",
    "nn.functional.relu",
    "nn.functional.max_pool1d",
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("operator", PICKING)
def test_nan_may_be_left_out_of_a_choice_only_where_the_policy_says_so(
    operator: str, tmp_path: Path
) -> None:
    assert {*verdicts("lenient", never_chosen, operator, tmp_path)} <= {"exact", "rounding"}
    assert "special-values" in verdicts("mine", never_chosen, operator, tmp_path)
    assert "special-values" in verdicts("directml", never_chosen, operator, tmp_path)


@pytest.mark.parametrize("operator", ["maximum", "amax", "nn.functional.relu"])
def test_a_number_from_nowhere_in_place_of_nan_is_no_choice(operator: str, tmp_path: Path) -> None:
    assert "special-values" in verdicts("lenient", some_number, operator, tmp_path)


def test_the_sentence_tells_a_dropped_nan_from_a_wrong_one() -> None:
    found = judged(
        operators=["maximum"],
        backends=[Changing("mine", never_chosen)],
        dtypes=["float32"],
        directions=["forward"],
        examples=150,
    )
    assert any(
        "NaN is left out and the other number returned" in result.explanation for result in found
    )


# Casts. What C++ leaves undefined may be one of few answers; what it defines is checked.

LIMITS = {
    "char": torch.int8, "short": torch.int16, "int": torch.int32, "byte": torch.uint8,
    "long": torch.int64,
}  # fmt: skip
Cast = Callable[[Tensor, torch.dtype], Tensor]


class Casting(consistency.Backend):
    """The CPU, with another cast to integers."""

    def __init__(self, name: str, cast: Cast) -> None:
        self.name, self.cast = name, cast

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return self.cast(args[0], LIMITS[operator.name])


def beyond(x: Tensor, dtype: torch.dtype) -> Tensor:
    info = torch.iinfo(dtype)
    if not x.is_floating_point():
        return (x < info.min) | (x > info.max)
    return ~((x.double() > info.min - 1.0) & (x.double() < info.max + 1.0))


def saturating(x: Tensor, dtype: torch.dtype) -> Tensor:
    """NaN becomes 0, as in shaders and on ARM."""
    info = torch.iinfo(dtype)
    ends = torch.where(x > 0, info.max, torch.where(x < 0, info.min, 0))
    return torch.where(beyond(x, dtype), ends, x.to(dtype).to(torch.int64)).to(dtype)


def saturating_floats(x: Tensor, dtype: torch.dtype) -> Tensor:
    return saturating(x, dtype) if x.is_floating_point() else x.to(dtype)


def through_int32(x: Tensor, dtype: torch.dtype) -> Tensor:
    """As CUDA converts: floats saturate as int32, whose low bits are kept."""
    return (
        saturating(x, torch.int32).to(dtype)
        if x.is_floating_point() and dtype.itemsize < 4
        else saturating_floats(x, dtype)
    )


def lowest(x: Tensor, dtype: torch.dtype) -> Tensor:
    return (
        torch.where(beyond(x, dtype), torch.iinfo(dtype).min, x.to(dtype))
        if x.is_floating_point()
        else x.to(dtype)
    )


def random_beyond(x: Tensor, dtype: torch.dtype) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        numbers = torch.randint(-100, 100, x.shape).to(dtype)
    return torch.where(beyond(x, dtype), numbers, x.to(dtype))


def rounding(x: Tensor, dtype: torch.dtype) -> Tensor:
    return (
        torch.where(beyond(x, dtype), x.to(dtype), x.round().to(dtype))
        if x.is_floating_point()
        else x.to(dtype)
    )


def lowest_inside(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The limit of the range comes too early."""
    return torch.where(
        (x > torch.iinfo(dtype).max // 2) & ~beyond(x, dtype), torch.iinfo(dtype).max, x.to(dtype)
    )


def cast_failures(
    cast: Cast, operator: str, *dtypes: str, policy: str = "", tmp_path: Path | None = None
) -> set[str]:
    """The verdicts and sentences of what failed, under the packaged tolerances or with a policy of
    its own."""
    file = None
    if tmp_path is not None:
        file = tmp_path / "mine.yaml"
        file.write_text(
            f"extends: packaged\nbackends:\n  mine:\n    policy: {{saturating_casts: {policy}}}\n",
            encoding="utf-8",
        )
    run = unshrunk(
        operators=[operator],
        backends=[Casting("mine", cast)],
        dtypes=dtypes,
        directions=["forward"],
        examples=20,
        tolerances=file,
    )
    assert any(result.verdict.tested for result in run.results)
    return {f"{failure.verdict}: {failure.explanation}" for failure in run.failures}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("operator", LIMITS)
@pytest.mark.parametrize("cast", [saturating_floats, through_int32, lowest, torch.Tensor.to])
def test_floats_beyond_an_integers_range_may_end_in_several_ways(cast: Cast, operator: str) -> None:
    assert not cast_failures(cast, operator, "float32", "float64", "float16", "bfloat16")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("operator", LIMITS)
@pytest.mark.parametrize("cast", [random_beyond, rounding, lowest_inside])
def test_other_answers_are_wrong(cast: Cast, operator: str) -> None:
    assert any(
        failure.startswith("divergent") for failure in cast_failures(cast, operator, "float32")
    )


@pytest.mark.parametrize("operator", ["char", "short", "byte"])
def test_integers_wrap_unless_the_policy_says_otherwise(operator: str, tmp_path: Path) -> None:
    found = cast_failures(saturating, operator, "int64")
    assert any("an integer saturates that would wrap" in failure for failure in found)
    assert not cast_failures(saturating, operator, "int64", policy="any", tmp_path=tmp_path)
    assert cast_failures(random_beyond, operator, "int64", policy="any", tmp_path=tmp_path)
    assert not cast_failures(torch.Tensor.to, operator, "int64", policy="never", tmp_path=tmp_path)


def test_a_strict_policy_keeps_floats_from_saturating(tmp_path: Path) -> None:
    found = cast_failures(saturating, "short", "float32", policy="never", tmp_path=tmp_path)
    assert any("a float beyond the integer's range saturates" in failure for failure in found)
    assert not cast_failures(lowest, "short", "float32", policy="never", tmp_path=tmp_path)


def test_whole_parts_wrap_exactly() -> None:
    x = torch.tensor(
        [
            300.75,
            -1.5,
            2.0**63,
            -(2.0**63),
            2.0**64 + 2.0**41,
            -(2.0**33) - 1024.0,
            math.nan,
            math.inf,
        ]
    ).double()
    assert _wrapped(x, torch.int64).tolist() == [
        300,
        -1,
        -(2**63),
        -(2**63),
        2**41,
        -(2**33) - 1024,
        0,
        0,
    ]
    assert _wrapped(x, torch.int8).tolist() == [44, -1, 0, 0, 0, 0, 0, 0]


class Overflowing(consistency.Backend):
    """Infinity in place of the largest number of the format."""

    name = "mine"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        result = super().call(operator, args, kwargs)
        return torch.where(result.abs() == torch.finfo(result.dtype).max, result * 2.0, result)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("operator", ["fmax", "maximum", "clone"])
def test_infinity_is_not_the_largest_number(operator: str) -> None:
    found = judged(
        operators=[operator],
        backends=[Overflowing()],
        dtypes=["float32"],
        directions=["forward"],
        examples=200,
    )
    failing = next(result for result in found if result.verdict.fails)
    assert "overflow already at" in failing.explanation
