"""Gradients of a multi-head attention whose keys are nearly equal: what they are differences of is
larger than any of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

import consistency
from consistency import operators
from consistency.core.bits import to_bytes
from consistency.core.model import Case, Result
from consistency.core.recipe import Literal
from consistency.diagnose.evaluation import evaluate
from consistency.judge.tolerances import load

NAME = "nn.functional.multi_head_attention_forward"


class Torch(consistency.Backend):
    """torch's CPU; ``factor``: of the operator's first argument, so of all gradients it takes part
    in."""

    name = "torch"

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return operator(args[0] * self.factor, *args[1:], **kwargs)


def judged(key: torch.Tensor, factor: float = 1.0) -> Result:
    generator = torch.Generator().manual_seed(5)
    query = torch.randint(60, 63, (10, 1, 2), generator=generator).float()
    value = torch.rand(3, 1, 2, generator=generator)
    weights = [torch.rand(shape, generator=generator) - 0.5 for shape in ((6, 2), (6,), (2, 2))]
    tensors = [query, key, value, *weights, torch.zeros(2)]
    q, k, v, w, b, out, last = (
        Literal(to_bytes(t), "float32", tuple(t.shape), t.stride()) for t in tensors
    )
    case = Case(NAME, "float32", (q, k, v, 2, 1, w, b, None, None, False, 0.0, out, last), {}, 7)
    (result,) = evaluate(case, [Torch(factor)], load(), directions=("backward",))
    return result


EQUAL = torch.full((3, 1, 2), 61.0)
VARIED = torch.linspace(-1.0, 1.0, 6).reshape(3, 1, 2)


@pytest.mark.parametrize("key", [EQUAL, VARIED], ids=["equal", "varied"])
def test_the_cpu_is_not_accused(key: torch.Tensor) -> None:
    result = judged(key)
    assert not result.verdict.fails, result.explanation


@pytest.mark.parametrize("key", [EQUAL, VARIED], ids=["equal", "varied"])
def test_a_query_that_is_twice_as_large_is_noticed(key: torch.Tensor) -> None:
    assert judged(key, 2.0).verdict.fails


def test_where_keys_differ_the_gradients_say_how_large_errors_are() -> None:
    backward = operators.get(NAME).error.backward
    assert callable(backward)
    gradients = (torch.tensor([0.5, -3.0]),)
    assert backward((EQUAL, EQUAL), {}, gradients) == "normwise"
    assert backward((VARIED, VARIED), {}, gradients) == 6.0
