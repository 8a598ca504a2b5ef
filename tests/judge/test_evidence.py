"""Nobody is accused before what accuses him is proved; where torch's float64 is wrong, that is the
CPU's own verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import consistency
from consistency import backends, operators
from consistency.core.detail import Unproved
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.diagnose.evaluation import evaluate
from consistency.engine import engine
from consistency.generate import materialize
from consistency.generate.search import batch
from consistency.judge.tolerances import load
from consistency.operators.declare import Operator
from consistency.reference.high_precision import ITSELF_OFF
from tests.support.running import unshrunk
from tests.support.wrong_float64 import Honest, WrongFloat64

# Operators that nothing but torch's float64 stood behind, with the ATen operator that is made
# wrong.
FORWARD = {
    "erf": "erf", "lgamma": "lgamma", "logit": "logit", "special.entr": "special_entr",
    "atan2": "atan2",
    "special.i1": "special_i1", "hypot": "hypot", "logaddexp": "logaddexp", "lerp": "lerp",
    "addcdiv": "addcdiv",
    "nn.functional.gelu": "gelu",
    "nn.functional.silu": "silu", "nn.functional.mish": "mish",
    "nn.functional.softplus": "softplus", "nn.functional.elu": "elu",
    "nn.functional.huber_loss": "huber_loss", "nn.functional.smooth_l1_loss": "smooth_l1_loss",
    "nn.functional.binary_cross_entropy": "binary_cross_entropy",
    "nn.functional.soft_margin_loss": "soft_margin_loss",
    "nn.functional.layer_norm": "native_layer_norm",
    "nn.functional.group_norm": "native_group_norm",
    "nn.functional.batch_norm": "native_batch_norm", "softmax": "_softmax",
    "log_softmax": "_log_softmax", "logsumexp": "logsumexp",
    "var": "var", "std": "std", "linalg.vector_norm": "linalg_vector_norm", "prod": "prod",
    "cumprod": "cumprod",
    "nn.functional.conv1d": "convolution", "nn.functional.conv2d": "convolution",
    "nn.functional.avg_pool2d": "avg_pool2d",
    "cdist": "_cdist_forward", "fft.irfft": "_fft_c2r", "fft.rfft": "_fft_r2c",
    "linalg.inv": "linalg_inv_ex",
    "linalg.det": "_linalg_det", "linalg.solve": "_linalg_solve_ex",
    "linalg.matrix_exp": "linalg_matrix_exp",
}  # fmt: skip
BACKWARD = {
    "nn.functional.gelu": "gelu_backward", "nn.functional.silu": "silu_backward",
    "nn.functional.softplus": "softplus_backward",
    "nn.functional.elu": "elu_backward", "sigmoid": "sigmoid_backward", "tanh": "tanh_backward",
    "nn.functional.leaky_relu": "leaky_relu_backward",
    "nn.functional.hardswish": "hardswish_backward",
    "nn.functional.logsigmoid": "log_sigmoid_backward", "nn.functional.glu": "glu_backward",
    "nn.functional.huber_loss": "huber_loss_backward",
    "nn.functional.smooth_l1_loss": "smooth_l1_loss_backward",
    "nn.functional.binary_cross_entropy": "binary_cross_entropy_backward",
    "softmax": "_softmax_backward_data",
    "log_softmax": "_log_softmax_backward_data",
    "nn.functional.layer_norm": "native_layer_norm_backward",
    "nn.functional.conv2d": "convolution_backward",
    "nn.functional.avg_pool2d": "avg_pool2d_backward", "cdist": "_cdist_backward",
    "nn.functional.batch_norm": "native_batch_norm_backward",
}  # fmt: skip
CASES = 4
RULES = replace(load(), expectations=())


def judged(operator: Operator, aten: str, direction: str, dtype: str) -> tuple[list[Result], int]:
    """Results of some cases on the CPU, NumPy, and a backend that is right; and how often something
    was planted in the CPU."""
    found: list[Result] = []
    wrong = 0
    present = [backends.resolve("cpu"), backends.resolve("numpy"), Honest()]
    for case in batch(operator, dtype, CASES):
        with WrongFloat64([aten]) as plant:
            found += evaluate(
                case,
                present,
                RULES,
                directions=[direction],
                diagnosis_budget=engine.DiagnosisBudget(),
                against="spot",
            )
        wrong += plant.done > 0
    return found, wrong


def wrong_itself(result: Result) -> bool:
    """Whether a backend fails in this case with nothing planted, proved: the FFT of some
    processors, elu of torch 2.4.1."""
    backend = Honest() if result.backend == "honest" else backends.resolve(result.backend)
    directions, diagnosis_budget = [result.direction], engine.DiagnosisBudget()
    (again,) = evaluate(
        result.case,
        [backend],
        RULES,
        directions=directions,
        diagnosis_budget=diagnosis_budget,
        against="spot",
    )
    return again.verdict.fails and again.proof is not None


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "aten", "direction"), [
    *((name, aten, "forward") for name, aten in FORWARD.items()), *((name, aten,
    "backward") for name, aten in BACKWARD.items()),
])  # fmt: skip
def test_a_wrong_reference_is_recognized_and_nobody_else_accused(
    name: str, aten: str, direction: str
) -> None:
    operator = operators.get(name)
    results, wrong = judged(operator, aten, direction, "float64")
    assert wrong > 0, "nothing was planted"
    accused = [r for r in results if r.verdict.fails]
    assert [r for r in accused if r.backend != "cpu" and not wrong_itself(r)] == []
    accused = [r for r in accused if r.backend == "cpu"]
    assert accused, "nobody noticed"
    assert all(r.explanation.startswith(ITSELF_OFF) and r.proof is not None for r in accused)
    others, _ = judged(operator, aten, direction, "float32")
    accused = [r for r in others if r.verdict.fails and not wrong_itself(r)]
    assert [r for r in accused if not left_the_format(r)] == []


def left_the_format(result: Result) -> bool:
    """Whether a backend is proved wrong by the formula that it really has: the exponential of
    `soft_margin_loss` is infinite in torch's own float64, too, if nothing is planted."""
    return result.cause == "evaluated-otherwise" and result.proof is not None


def test_a_failure_shows_what_is_true() -> None:
    class Off(consistency.Backend):
        name = "off"

        def call(self, operator: Operator, args: Any, kwargs: Any) -> Any:
            return super().call(operator, args, kwargs) * 1.01

    run = unshrunk(["exp"], [Off()], dtypes=["float32"], directions=("forward",), examples=4)
    for result in run.failures:
        assert result.proof is not None
        assert f"the true value is {result.proof.digits[:10]}" in result.explanation
    assert run.failures


def test_without_proof_nobody_is_accused(monkeypatch: pytest.MonkeyPatch) -> None:
    from consistency.reference.certified import tracing

    class Off(consistency.Backend):
        name = "off"

        def call(self, operator: Operator, args: Any, kwargs: Any) -> Any:
            return super().call(operator, args, kwargs) * 1.01

    found = tracing.lookup
    monkeypatch.setattr(tracing, "lookup", lambda name: None if name == "exp" else found(name))
    run = unshrunk(["exp"], [Off()], dtypes=["float32"], directions=("forward",), examples=4)
    assert not run.failures
    disputed = [r for r in run.results if isinstance(r.detail, Unproved)]
    assert disputed
    assert all(r.verdict.value == "inconclusive" for r in disputed)
    assert "off says" in disputed[0].explanation
    assert "float64 on the CPU says" in disputed[0].explanation
    assert "torch.ops.aten.exp has no entry" in disputed[0].explanation


def test_a_gradient_of_a_wrong_formula_is_the_cpus_own_verdict() -> None:
    """The gradient of ldexp by a negative whole exponent is 0 in torch 2.13, not in 2.14, and NumPy
    has no gradients to disagree."""
    x = torch.tensor([1.0, 3.0, 5.0, 7.0], dtype=torch.float64)
    (result,) = evaluate(
        materialize.case_of("ldexp", "float64", (x, torch.tensor([-3, 1, 2, 3], dtype=torch.int32)),
        {}, 4000),
        [backends.resolve("cpu")], replace(load(), expectations=()), directions=["backward"],
        against="spot",
    )  # fmt: skip
    if "2.13" <= torch.__version__ < "2.14":
        assert result.explanation.startswith(ITSELF_OFF)
        assert result.proof is not None


class WrongRemainders(consistency.Backend):
    """Remainders of numbers beyond a million are 0, of no sign."""

    name = "wrong-remainders"

    def call(self, operator: Operator, args: Any, kwargs: Any) -> Any:
        result = super().call(operator, args, kwargs)
        return torch.where(args[0].abs() > 1e6, torch.zeros_like(result), result)


@pytest.mark.parametrize("name", ["fmod", "remainder"])
def test_where_a_sign_of_zero_cannot_be_proved_another_element_is(name: str) -> None:
    """The sign of a zero comes first in a verdict; what is off beside it is proved all the same."""
    operator = operators.get(name)
    numbers = TensorRecipe((65536,), "float32", ("every", 0, 65537))
    case = Case(name, "float32", (numbers, 2.546875))
    right, wrong = (
        judge_case(case, operator, [backend], RULES, ("forward",))[0]
        for backend in (backends.resolve("cpu"), WrongRemainders())
    )
    assert right.verdict.passes
    assert wrong.verdict.value in ("special-values", "divergent"), wrong.explanation
    assert "the true value is" in wrong.explanation
