"""Corner cases: ties, casts, NaN, signed zeros, infinities, quadrants, remainders. Each row is a
call and its result.

Most rows have one correct result (IEEE 754, C's mathematics, or torch's documentation); the results
of a few are implementation-defined.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .facts import Fact, unknown
from .query import Ask, NotAnswered, Request, call

inf, nan = math.inf, math.nan


@dataclass(frozen=True)
class Row:
    """``title`` names the row in reports; ``usual`` is the correct result as text, empty if it is
    implementation-defined."""

    title: str
    request: Request
    usual: str = ""


def facts(ask: Ask) -> Iterator[Fact]:
    """``edges/DTYPE/TITLE`` for each row."""
    table = rows()
    answers = ask.each([row.request for row in table])
    for row, answer in zip(table, answers, strict=True):
        question = f"edges/{row.request.dtype}/{row.title}"
        if isinstance(answer, NotAnswered):
            yield unknown(question, str(answer))
            continue
        text = shown(answer)
        yield Fact(
            question,
            text,
            f"usually {row.usual}" if row.usual and row.usual != text else "",
            usual=text == row.usual,
        )


def shown(tensor: torch.Tensor) -> str:
    """The numbers of a small result: ``-0``, ``nan``, ``0.5``, ``true``."""
    return " ".join(_number(value) for value in tensor.reshape(-1)[:16].tolist()) or "nothing"


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and value == 0.0:
        return "-0" if math.copysign(1.0, value) < 0.0 else "0"
    return f"{value:.9g}"


def _row(
    title: str, usual: str, operator: str, *args: Any, dtype: str = "float32", **kwargs: Any
) -> Row:
    tensors = [
        torch.tensor(a, dtype=getattr(torch, dtype)) if isinstance(a, list) else a for a in args
    ]
    return Row(title, call(operator, dtype, *tensors, **kwargs), usual)


def _cast(title: str, usual: str, source: str, values: list[float], target: torch.dtype) -> Row:
    return Row(
        title,
        call("call/Tensor.to", source, torch.tensor(values, dtype=getattr(torch, source)), target),
        usual,
    )


def rows() -> list[Row]:
    tie = 1.0 + 2.0**-24  # of float32
    return [
        _row("round(±0.5, ±1.5, 2.5)", "0 -0 2 -2 2", "round", [0.5, -0.5, 1.5, -1.5, 2.5]),
        _row("round(x, decimals=1) of 0.25, 0.35", "", "round", [0.25, 0.35], decimals=1),
        _row("trunc, of ±0.5", "0 -0", "trunc", [0.5, -0.5]),
        _row("ceil, of −0.5", "-0", "ceil", [-0.5]),
        _row("floor, of −0", "-0", "floor", [-0.0]),
        _row("sign, of −0, NaN", "", "sign", [-0.0, nan]),
        _row("abs, of −0, −inf", "0 inf", "abs", [-0.0, -inf]),
        _row("neg, of 0", "-0", "neg", [0.0]),
        _row("−0 + −0, −0 + 0", "-0 0", "add", [-0.0, -0.0], [-0.0, 0.0]),
        _row("inf − inf", "nan", "sub", [inf], [inf]),
        _row("0 · inf", "nan", "mul", [0.0], [inf]),
        _row("1 / ±0, 0 / 0", "inf -inf nan", "div", [1.0, 1.0, 0.0], [0.0, -0.0, 0.0]),
        _row("sqrt, of −0, −1", "-0 nan", "sqrt", [-0.0, -1.0]),
        _row("rsqrt, of ±0, inf", "inf -inf 0", "rsqrt", [0.0, -0.0, inf]),
        _row("log, of ±0, −1, inf", "-inf -inf nan inf", "log", [0.0, -0.0, -1.0, inf]),
        _row("exp, of ±inf, 89, −104", "inf 0 inf 0", "exp", [inf, -inf, 89.0, -104.0]),
        _row("tanh, of ±inf, −0", "1 -1 -0", "tanh", [inf, -inf, -0.0]),
        _row("sigmoid, of ±inf", "1 0", "sigmoid", [inf, -inf]),
        _row("sin, of inf, −0", "nan -0", "sin", [inf, -0.0]),
        _row("asin, of 1.0000001", "nan", "asin", [1.0000001]),
        _row(
            "atan2 of ±0 and ±0",
            "0 -0 3.14159274 -3.14159274",
            "atan2",
            [0.0, -0.0, 0.0, -0.0],
            [0.0, 0.0, -0.0, -0.0],
        ),
        _row(
            "atan2 of ±inf and ±inf",
            "0.785398185 -0.785398185 2.3561945",
            "atan2",
            [inf, -inf, inf],
            [inf, inf, -inf],
        ),
        _row(
            "pow: 0^0, NaN^0, 1^NaN, (−8)^⅓",
            "1 1 1 nan",
            "pow",
            [0.0, nan, 1.0, -8.0],
            [0.0, 0.0, nan, 1 / 3],
        ),
        _row(
            "pow: (−0)^−1, (−2)^3, (−inf)^3",
            "-inf -8 -inf",
            "pow",
            [-0.0, -2.0, -inf],
            [-1.0, 3.0, 3.0],
        ),
        _row("hypot of inf and NaN", "inf", "hypot", [inf], [nan]),
        _row(
            "fmod, signs of ±7 and ±3",
            "1 -1 1 -1",
            "fmod",
            [7.0, -7.0, 7.0, -7.0],
            [3.0, 3.0, -3.0, -3.0],
        ),
        _row(
            "remainder, signs of ±7 and ±3",
            "1 2 -2 -1",
            "remainder",
            [7.0, -7.0, 7.0, -7.0],
            [3.0, 3.0, -3.0, -3.0],
        ),
        _row("remainder by 0", "nan", "remainder", [1.0], [0.0]),
        _row("remainder(−1e-8, 3)", "3", "remainder", [-1e-8], [3.0]),
        _row("floor_divide of −7 by 2, 1 by 0", "-4 inf", "floor_divide", [-7.0, 1.0], [2.0, 0.0]),
        _row("maximum of NaN and 1", "nan", "maximum", [nan], [1.0]),
        _row("maximum of 0 and −0", "", "maximum", [0.0], [-0.0]),
        _row("maximum of −0 and 0", "", "maximum", [-0.0], [0.0]),
        _row("fmax of NaN and 1", "1", "fmax", [nan], [1.0]),
        _row("relu, of NaN", "nan", "nn.functional.relu", [nan]),
        _row("relu, of −0", "", "nn.functional.relu", [-0.0]),
        _row("clamp of NaN to 0 … 1", "nan", "clamp", [nan], 0.0, 1.0),
        _row("amax, of NaN and inf", "nan", "amax", [nan, inf]),
        _row("argmax, beside NaN", "1", "argmax", [1.0, nan, 3.0, 3.0]),
        _row("argmax, of equal ones", "", "argmax", [3.0, 3.0, 1.0]),
        _row("sort, of NaN, inf, −0, 0", "-inf -0 0 inf nan", "sort", [nan, inf, -0.0, 0.0, -inf]),
        _row("NaN == NaN, 0 == −0", "false true", "eq", [nan, 0.0], [nan, -0.0]),
        _row("softmax, of −inf and inf", "nan nan", "softmax", [-inf, inf], 0),
        _row("softmax, of −inf alone", "nan nan", "softmax", [-inf, -inf], 0),
        _row("logsumexp, of −inf", "-inf", "logsumexp", [-inf, -inf], 0),
        _row("sum of nothing", "0", "sum", []),
        _row("mean of nothing", "nan", "mean", []),
        _row("var of one number", "nan", "var", [1.0]),
        _row("sum, of −0 and −0", "", "sum", [-0.0, -0.0]),
        _row("7 // −2, −7 // 2", "-4 -4", "floor_divide", [7, -7], [-2, 2], dtype="int64"),
        _row("7 % −3, −7 % 3", "-2 2", "remainder", [7, -7], [-3, 3], dtype="int64"),
        _row("2^31 − 1 + 1", "-2147483648", "add", [2**31 - 1], [1], dtype="int32"),
        _row("200 + 100", "44", "add", [200], [100], dtype="uint8"),
        _row("−8 >> 1", "-4", "bitwise_right_shift", [-8], [1], dtype="int64"),
        _cast("to int32, of ±2.7", "2 -2", "float32", [2.7, -2.7], torch.int32),
        _cast("to int32, of 3e9, −3e9, NaN", "", "float32", [3e9, -3e9, nan], torch.int32),
        _cast("to int64, of 1e19, NaN", "", "float32", [1e19, nan], torch.int64),
        _cast("to uint8, of −1, 300", "", "float32", [-1.0, 300.0], torch.uint8),
        _cast(
            "to bool, of NaN, −0, 0.5", "true false true", "float32", [nan, -0.0, 0.5], torch.bool
        ),
        _cast(
            "to bfloat16, ties",
            "1 1.015625",
            "float32",
            [1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8],
            torch.bfloat16,
        ),
        _cast(
            "to float16, of 65519, 65520", "65504 inf", "float32", [65519.0, 65520.0], torch.float16
        ),
        _cast(
            "to float32, ties", "1 1.00000024", "float64", [tie, 1.0 + 3 * 2.0**-24], torch.float32
        ),
        _cast(
            "float64 to float16, just above a tie",
            "",
            "float64",
            [1.0 + 2.0**-11 + 2.0**-40],
            torch.float16,
        ),
        _cast(
            "to float32, of 2^24 + 1, 2^24 + 3",
            "16777216 16777220",
            "int64",
            [2**24 + 1, 2**24 + 3],
            torch.float32,
        ),
        _cast("to int8, of 300", "44", "int64", [300], torch.int8),
    ]
