"""The next number of a format, counted in bits and proved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import consistency
from consistency import operators
from consistency.backends import resolve
from consistency.core.dtypes import FORMATS, TORCH
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.evaluation import evaluate
from consistency.judge import tolerances
from consistency.operators.neighbors import next_number
from consistency.reference.certified.entries.rounding_and_signs import _next_toward

INTEGERS = {2: torch.int16, 4: torch.int32, 8: torch.int64}


def numbers(name: str, count: int, seed: int) -> torch.Tensor:
    """Random bits, and the ends of the format."""
    dtype = TORCH[name]
    drawn = np.random.default_rng(seed).bytes(count * dtype.itemsize)
    bits = torch.frombuffer(bytearray(drawn), dtype=INTEGERS[dtype.itemsize])
    facts = torch.finfo(dtype)
    least = facts.smallest_normal * facts.eps
    ends = [0.0, least, facts.smallest_normal, 0.5, 1.0, 2.0, facts.max, math.inf]
    odd = torch.tensor([sign * end for end in ends for sign in (1, -1)] + [math.nan], dtype=dtype)
    return torch.cat([bits.view(dtype), odd])


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_it_is_torchs(name: str) -> None:
    x, y = numbers(name, 500, 1), numbers(name, 500, 2)
    x, y = x[:, None], torch.cat([y[-17:], y[:40]])
    found, expected = next_number(x, y), torch.nextafter(x, y)
    same = (found == expected) & (found.signbit() == expected.signbit())
    assert (same | (found.isnan() & expected.isnan())).all()
    for a, b, c in zip(
        x.expand_as(found).reshape(-1)[::7].tolist(),
        y.expand_as(found).reshape(-1)[::7].tolist(),
        found.reshape(-1)[::7].tolist(),
        strict=True,
    ):
        proved = _next_toward(a, b, FORMATS[name])
        assert proved == c or (proved != proved and c != c)
        assert c != c or math.copysign(1.0, proved) == math.copysign(1.0, c)


class Wide(consistency.Backend):
    """Computes in float64, and rounds."""

    name = "wide"

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        return super().call(operator, [a.double() for a in args], kwargs).to(args[0].dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_the_next_number_of_another_format_is_noticed(dtype: str) -> None:
    """A right CPU passes; one that computes in float64 and rounds does not move at all."""
    operator = operators.get("nextafter")
    pair = [TensorRecipe((40,), dtype, ("normal", 0.0, 1.0), stop) for stop in (900, 8000)]
    case = Case("nextafter", dtype, tuple(pair))
    (right,) = evaluate(case, [resolve("cpu")], tolerances.load(), operator=operator)
    assert right.verdict.value == "exact"

    (wrong,) = evaluate(case, [Wide()], tolerances.load(), operator=operator)
    assert wrong.verdict.fails
