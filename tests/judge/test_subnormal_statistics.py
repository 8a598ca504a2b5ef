"""The distribution of errors of results below the smallest normal number, where the step of the
format is the least error that rounding leaves, and of those that vanish."""

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
from consistency.report.repro_script import assertions
from consistency.report.repro_script.failure_facts import Element

STEP = 2.0**-24  # of float16 below its smallest normal number


class OffBySteps(consistency.Backend):
    """Some results are off by ``count`` steps of float16's subnormal numbers."""

    name = "off-by-steps"
    tolerance_key = "directml"  # which may round toward zero: by one step

    def __init__(self, count: float) -> None:
        self.count = count

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        out = operator(*args, **kwargs)
        pattern = torch.arange(out.numel()).reshape(out.shape) * 7 % 5 % 3 - 1
        return out + (self.count * STEP * pattern).to(out.dtype)


def literal(tensor: torch.Tensor) -> Literal:
    return Literal(to_bytes(tensor), "float16", tuple(tensor.shape), tensor.stride())


def judged(scale: float, count: float) -> Result:
    """A product of small whole numbers × ``scale``, exact in float16, on that backend."""
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randint(-9, 10, (24, 24), generator=generator) * scale for _ in range(2))
    case = Case("matmul", "float16", (literal(x.half()), literal(y.half())), {})
    (result,) = evaluate(case, [OffBySteps(count)], load(), directions=("forward",))
    return result


def test_one_subnormal_step_is_rounding() -> None:
    result = judged(2.0**-12, 1.0)
    assert not result.verdict.fails, result.explanation
    assert 0.0 < result.metrics["rho_max"] < 1.0


@pytest.mark.parametrize(("scale", "count"), [(2.0**-12, 400.0), (2.0**-4, 2.0**20)])
def test_more_than_rounding_fails(scale: float, count: float) -> None:
    assert judged(scale, count).verdict.fails


@pytest.mark.parametrize("special", [float("nan"), float("inf")])
def test_a_script_looks_at_finite_errors_only(
    special: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assertions, "healthy_rms", lambda _: (1e-9, 4.0))
    element = Element(0, (0,), False, "float16", 1.0, 0.5)
    lines = assertions.spread(judged(2.0**-12, 16.0), element, lambda *_: "got", "exact")
    names: dict[str, Any] = {
        "got": torch.tensor([1.0, special]),
        "exact": torch.tensor([1.0, special], dtype=torch.float64),
        "device": "cpu",
        "torch": torch,
    }
    exec("\n".join(lines), names)  # its assertion fails where the error is NaN
    assert names["error"] == 0.0


class Rounded(consistency.Backend):
    """Products in float64, rounded to float32 to nearest, or toward zero."""

    def __init__(self, *, toward_zero: bool) -> None:
        self.name = "toward-zero" if toward_zero else "to-nearest"
        self.toward_zero = toward_zero

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        exact = operator(*(arg.double() for arg in args), **kwargs)
        out = exact.float()
        beyond = (out.double().abs() > exact.abs()) & self.toward_zero
        return torch.where(beyond, torch.nextafter(out, torch.zeros(())), out)


@pytest.mark.parametrize("vanishing", [0, 12, 24])
def test_results_that_vanish_say_nothing_of_the_direction_of_rounding(vanishing: int) -> None:
    """The first rows of the product are below half of the smallest subnormal number: 0 is the
    nearest, and toward zero."""
    generator = torch.Generator().manual_seed(2)
    x, y = (torch.rand(24, 24, generator=generator) - 0.5 for _ in range(2))
    x[:vanishing] *= 1e-30
    y *= 1e-20
    tensors = [Literal(to_bytes(z), "float32", (24, 24), z.stride()) for z in (x, y)]
    case = Case("mm", "float32", tuple(tensors), {})
    backends = [Rounded(toward_zero=False), Rounded(toward_zero=True)]
    nearest, truncated = evaluate(case, backends, load(), directions=("forward",))
    for result in (nearest, truncated):
        assert result.comparison is not None
    (healthy,), (biased,) = nearest.comparison.outputs, truncated.comparison.outputs
    assert sign_bias(healthy) < 4.0
    assert nearest.verdict.value == "rounding", nearest.explanation
    assert (sign_bias(biased) > 15.0) is (vanishing < 24)
    if vanishing == 24:
        assert truncated.verdict.value in {"rounding", "inconclusive"}, truncated.explanation
