"""A bias that is added last leans the errors of a sum of two products to one side, although every
step is rounded to nearest; truncation leans nearly all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import torch

import consistency
from consistency.core.bits import to_bytes
from consistency.core.model import Case, Result
from consistency.core.recipe import Literal
from consistency.diagnose.evaluation import evaluate
from consistency.judge.error_statistics import sign_bias
from consistency.judge.tolerances import load


def rounded(exact: torch.Tensor, *, toward_zero: bool) -> torch.Tensor:
    """Numbers of float64 in float32."""
    out = exact.float()
    beyond = (out.double().abs() > exact.abs()) & toward_zero
    return torch.where(beyond, torch.nextafter(out, torch.zeros(())), out)


class BiasLast(consistency.Backend):
    """Two products in float64, their sum and that with the bias rounded to float32."""

    def __init__(self, *, toward_zero: bool) -> None:
        self.name = "toward-zero" if toward_zero else "to-nearest"
        self.toward_zero = toward_zero

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        x, weight, bias = (arg.double() for arg in args)
        products = rounded(x @ weight.T, toward_zero=self.toward_zero)
        return rounded(products.double() + bias, toward_zero=self.toward_zero)


def judged(*, bias: float, toward_zero: bool) -> Result:
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(4097, 2, generator=generator)
    tensors = (x, torch.tensor([[1.0763, 0.9316]]), torch.tensor([bias]))
    literals = [Literal(to_bytes(t), "float32", tuple(t.shape), t.stride()) for t in tensors]
    case = Case("nn.functional.linear", "float32", tuple(literals), {})
    (result,) = evaluate(case, [BiasLast(toward_zero=toward_zero)], load(), directions=("forward",))
    return result


@pytest.mark.parametrize("bias", [-0.40272511228195856, 0.3702159103021186, -0.12468662571585132])
def test_rounding_to_nearest_is_not_called_truncation(bias: float) -> None:
    healthy = judged(bias=bias, toward_zero=False)
    assert healthy.verdict.value == "rounding", healthy.explanation
    assert healthy.comparison is not None
    assert sign_bias(healthy.comparison.outputs[0]) < 3.0  # 0 where they lean all the same


def test_truncation_of_both_steps_leans_nearly_all() -> None:
    truncated = judged(bias=0.3702159103021186, toward_zero=True)
    assert truncated.comparison is not None
    assert sign_bias(truncated.comparison.outputs[0]) > 40.0
