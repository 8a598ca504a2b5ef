"""Every form of a call that torch takes is judged alike: arguments by position or by name, ones
that torch has replaced, destinations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch

import consistency
from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.core.model import Case
from consistency.core.recipe import DType, TensorRecipe
from consistency.diagnose.evaluation import evaluate
from consistency.engine.unit_cases import draw
from consistency.errors import ConsistencyError
from consistency.generate.calls.case_operator import operator_of
from consistency.generate.materialize import leaves, literal, prepare
from consistency.judge import tolerances
from consistency.operators.call_signature import argument_names
from consistency.operators.common_form import common_form
from consistency.operators.declare import Operator
from consistency.reference import Reference, quiet

N = "nn.functional."
DRAWN = 3
FAMILIES = [
    pytest.param(family, marks=pytest.mark.nightly if family == "derivatives" else ())
    for family in sorted({operator.family for operator in operators.registry().values()})
]
# Their S is measured by changed inputs, whose changes follow the order of the tensors.
MEASURED = (
    "lstm", "gru", "rnn", "multi_head", "masked.", ".squares", "index_reduce", "lu_solve",
    "ldl_solve", "ormqr",
)  # fmt: skip


def forms(operator: Operator, case: Case) -> Iterator[Case]:
    """The same call with every argument named, with all that can by position, and with NumPy's
    names."""
    names = argument_names(operator)
    if 0 < len(case.args) <= len(names):
        named = dict(zip(names, case.args, strict=False))
        yield replace(case, args=(), kwargs=named | case.kwargs)
    args, kwargs = list(case.args), dict(case.kwargs)
    for name in names[len(args) :]:
        if name not in kwargs:
            break
        args.append(kwargs.pop(name))
    if len(args) > len(case.args):
        yield replace(case, args=tuple(args), kwargs=kwargs)
    if {"dim", "keepdim"} & set(case.kwargs):
        of_numpy = {"dim": "axis", "keepdim": "keepdims"}
        renamed = {of_numpy.get(name, name): value for name, value in case.kwargs.items()}
        yield replace(case, kwargs=renamed)


def model(case: Case, direction: str) -> tuple[float, list[float]] | None:
    """n and the sums of S, in an order of their own; None where torch does not take the call."""
    with quiet():
        reference = Reference(operator_of(case), prepare(case), direction)
        if not reference.outcome.ok:
            return None
        sums = [
            float(torch.nan_to_num(torch.as_tensor(m).double(), posinf=0.0).sum())
            for m in reference.magnitudes
            if m is not None
        ]
    return reference.terms(0) if direction == "forward" else 0.0, sorted(sums)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_error_model_of_every_form_is_the_same(family: str) -> None:
    for operator in operators.registry().values():
        if operator.family != family or operator.cases is not None or "random" in operator.traits:
            continue
        if operator.name.startswith("formula."):
            continue  # our own functions, whose hooks fit what is drawn
        if any(name in operator.name for name in MEASURED):
            continue
        for case in draw(operator, operator.dtypes[0], DRAWN, 1)[0]:
            expected: Any = model(case, "forward")
            for other in forms(operator, case) if expected else ():
                try:
                    found = model(other, "forward")
                except ConsistencyError:
                    continue  # no form that torch takes
                if found is not None:
                    assert found[0] == expected[0], f"{operator.name}: {other.line}"
                    # Drawn calls count None in the place of a tensor that is written.
                    every = [pytest.approx(size, rel=1e-9) for size in expected[1]]
                    sizes = f"{found[1]} beside {expected[1]}"
                    assert all(size in every for size in found[1]), f"{sizes}: {other.line}"


class Wrong(consistency.Backend):
    """A thousandth too much of every number."""

    name = "wrong"

    def call(self, operator: Operator, args: Any, kwargs: Any) -> Any:
        result = super().call(operator, args, kwargs)
        return [r * 1.001 for r in result] if isinstance(result, tuple) else result * 1.001


class Tenth(consistency.Backend):
    """A tenth too much."""

    name = "tenth"

    def call(self, operator: Operator, args: Any, kwargs: Any) -> Any:
        return super().call(operator, args, kwargs) * 1.1


STOPS = itertools.count(5000, 1009)


def tensor(*shape: int, values: tuple[Any, ...] = ("uniform", 0.1, 0.9), leaf: bool = True) -> Any:
    return TensorRecipe(shape, "float32", values, next(STOPS), leaf=leaf)


CALLS = [
    ("bmm", (), {"mat2": tensor(2, 3, 4), "input": tensor(2, 5, 3)}),
    ("lerp", (tensor(3, 4), tensor(3, 4)), {"weight": 5.0}),
    ("floor_divide", (), {"input": tensor(8), "other": tensor(8)}),
    ("dist", (), {"other": tensor(8), "input": tensor(2, 8), "p": 3.0}),
    ("fft.rfft", (tensor(3, 8), 6, 0), {}),
    (f"{N}layer_norm", (), {"normalized_shape": [4], "bias": tensor(4), "input": tensor(3, 4)}),
    (f"{N}pairwise_distance", (tensor(3, 64), tensor(3, 64), 3.0), {}),
    (f"{N}binary_cross_entropy", (tensor(9), tensor(9), None, None, False), {}),
    (f"{N}kl_div", (tensor(9), tensor(9)), {"size_average": False}),
    (
        f"{N}batch_norm",
        (tensor(4, 3),),
        {"weight": tensor(3), "running_var": tensor(3, leaf=False), "training": True,
         "running_mean": tensor(3, leaf=False), "bias": tensor(3)},
    ),
    ("logical_not", (tensor(4, values=("integers", 0, 1)),), {"out": tensor(4, leaf=False)}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS, ids=[name for name, _, _ in CALLS])
@pytest.mark.filterwarnings("ignore:size_average and reduce args:UserWarning")
def test_calls_in_other_forms_pass_and_a_thousandth_too_much_does_not(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    differentiable = operators.get(name).differentiable and "out" not in kwargs
    case = Case(name, "float32", args, kwargs, 1 << 20 if differentiable else 0)
    case = Case.from_json(case.to_json())
    rules = tolerances.load()
    for result in evaluate(case, [Cpu()], rules):
        assert result.verdict.passes, (result.direction, result.explanation)
    if name not in ("floor_divide", "logical_not"):
        wrong = evaluate(case, [Wrong()], rules)
        assert all(result.verdict.fails for result in wrong), [r.explanation for r in wrong]


@pytest.mark.parametrize(
    ("name", "dtype", "shorter"),
    [
        ("sum", "float64", "float32"),
        ("prod", "float64", "float32"),
        ("cumsum", "float32", "float16"),
        ("mean", "float32", "bfloat16"),
    ],
)
def test_a_shorter_dtype_that_a_call_asks_for_is_that_of_its_gradients(
    name: str, dtype: str, shorter: str
) -> None:
    """The cotangent is rounded to it; the CPU was told that its float64 gradient has the errors of
    float32."""
    x = TensorRecipe((3, 5), dtype, ("uniform", 0.5, 9.0), next(STOPS))
    dims = (1,) if name == "cumsum" else ()
    case = Case(name, dtype, (x, *dims), {"dtype": DType(shorter)}, 1 << 20)
    rules = tolerances.load()
    assert not [r.explanation for r in evaluate(case, [Cpu()], rules) if r.verdict.fails]
    assert all(result.verdict.fails for result in evaluate(case, [Tenth()], rules))


@pytest.mark.parametrize("name", ["layer_norm", "batch_norm"])
def test_gradients_of_named_weights_have_their_own_magnitudes(name: str) -> None:
    """Named, the bias stands before the weight: S of the one was taken for that of the other."""
    x, weight, bias = tensor(16, 3), tensor(3), tensor(3)
    args: tuple[Any, ...] = (x, (3,)) if name == "layer_norm" else (x, tensor(3), tensor(3))
    more = {} if name == "layer_norm" else {"training": True}
    operator = operators.get(f"{N}{name}")
    sizes = []
    for case in (
        Case(operator.name, "float32", (*args, weight, bias), more, 1 << 20),
        Case(operator.name, "float32", args, {"bias": bias, "weight": weight} | more, 1 << 20),
    ):
        reference = Reference(operator_of(case), prepare(case), "backward")
        places = leaves(case, reference.operator.leaves)
        found = map(torch.as_tensor, reference.magnitudes)
        sizes.append({case.tensors[n]: size for n, size in zip(places, found, strict=True)})
    for recipe, expected in sizes[0].items():
        torch.testing.assert_close(sizes[1][recipe], expected)


def test_arguments_that_torch_has_replaced() -> None:
    loss = operators.get(f"{N}mse_loss")
    for replaced, today in (
        ((1, 2, None, None, "sum"), "sum"),
        ((1, 2, False), "sum"),
        ((1, 2, True, False), "none"),
        ((1, 2, None, True), "mean"),
    ):
        args, kwargs = common_form(loss, replaced, {})
        assert (args, kwargs["reduction"]) == ((1, 2), today)


def test_what_overloads_name_differently_stays_where_it_is() -> None:
    # std(x, unbiased) and std(x, dim) differ in the second place.
    assert common_form(operators.get("std"), (1, True), {}) == ((1, True), {})


def test_sparse_gradients_are_compared() -> None:
    rows = TensorRecipe((2, 3), "int64", ("integers", 0, 9), next(STOPS))
    case = Case(f"{N}embedding", "float32", (rows, tensor(10, 4)), {"sparse": True}, 1 << 20)
    rules = tolerances.load()
    assert all(result.verdict.passes for result in evaluate(case, [Cpu()], rules))
    assert all(result.verdict.fails for result in evaluate(case, [Tenth()], rules))


def test_a_cast_from_float64_by_way_of_float32_is_expected_and_a_wrong_one_is_not() -> None:
    """9.167968301120512 lies below the middle of two numbers of float16, in float32 on it."""
    x = literal(torch.tensor([9.167968301120512, 1.0, 2.3], dtype=torch.float64))
    case = Case("to", "float64", (x, DType("float16")))
    rules = tolerances.load()
    (cpu,) = evaluate(case, [Cpu()], rules)
    assert not cpu.verdict.fails
    assert "float32 first" in cpu.explanation
    assert evaluate(case, [Tenth()], rules)[0].verdict.fails
