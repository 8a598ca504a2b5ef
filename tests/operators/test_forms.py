"""Forms, formulas, programs, foreach and optimizers: their draws are valid, healthy results pass,
planted faults are noticed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import consistency
from consistency.core.model import Result
from consistency.core.recipe import Literal, TensorRecipe
from consistency.engine import engine
from consistency.generate import search
from consistency.generate.materialize import prepare
from consistency.operators import get, registry
from consistency.operators.formulas import OPERATOR_FORMULAS
from consistency.operators.program_steps import VIEWS, WRITES, interpret, perform, without_numbers
from tests.support.drawing import REFUSE_LAYOUTS
from tests.support.running import failures, judged, noticed

pytestmark = pytest.mark.usefixtures("drawn_once")

FAMILIES = ("forms", "formulas", "programs", "foreach", "optimizers", "sequences")
OPERATORS = [operator for operator in registry().values() if operator.family in FAMILIES]
Perform = Callable[[str, list[torch.Tensor], list[Any]], torch.Tensor]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
@pytest.mark.filterwarnings("ignore")
def test_draws_run_in_their_dtype_and_in_float64(operator: consistency.Operator) -> None:
    if operator.callable is None:
        pytest.skip(f"torch {torch.__version__} has no {operator.name}")
    for case in search.batch(operator, operator.dtypes[0], 5):
        materials = prepare(case)
        for dtype in (None, "float64"):
            arguments = materials.build(dtype)
            refuses = operator.name.split(".")[0] in REFUSE_LAYOUTS
            function = operator.reference if operator.reference and (dtype or refuses) else operator
            function(*arguments.args, **arguments.kwargs)


def test_there_are_forty_pairs() -> None:
    assert len({formula.operator for formula in OPERATOR_FORMULAS}) >= 40


class Playing(consistency.Backend):
    """Runs programs with steps of its own."""

    def __init__(self, name: str, play: Perform) -> None:
        self.name, self.play = name, play

    def call(self, operator: consistency.Operator, args: Sequence[Any], kwargs: Any) -> Any:
        return interpret(args[0], args[1:], self.play)


def write_lost(name: str, operands: list[torch.Tensor], numbers: list[Any]) -> torch.Tensor:
    """Writes through a view with an offset go nowhere."""
    if name in WRITES and operands[0].storage_offset():
        return operands[0]
    return perform(name, operands, numbers)


def read_as_contiguous(name: str, operands: list[torch.Tensor], numbers: list[Any]) -> torch.Tensor:
    x = operands[0]
    straight = x.storage_offset() + x.numel() <= x.untyped_storage().nbytes() // x.element_size()
    if name in VIEWS or name in WRITES or x.is_contiguous() or not straight:
        return perform(name, operands, numbers)
    strides = torch.empty(x.shape, device="meta").stride()
    return perform(
        name, [x.as_strided(x.shape, strides, x.storage_offset()), *operands[1:]], numbers
    )


def offset_ignored(name: str, operands: list[torch.Tensor], numbers: list[Any]) -> torch.Tensor:
    x = operands[0]
    return perform(name, [x.as_strided(x.shape, x.stride(), 0), *operands[1:]], numbers)


def copy_for_a_view(name: str, operands: list[torch.Tensor], numbers: list[Any]) -> torch.Tensor:
    made = perform(name, operands, numbers)
    return made.clone() if name == "slice" else made


def other_order(name: str, operands: list[torch.Tensor], numbers: list[Any]) -> torch.Tensor:
    """Healthy: sums the other way round, other arithmetic for the same numbers."""
    if name == "sum":
        return operands[0].flip(numbers[0]).sum(*numbers)
    if name == "sub":
        return operands[0] + -operands[1]
    return perform(name, operands, numbers)


class Stale(Playing):
    """Reads what a tensor held when the program began."""

    def __init__(self) -> None:
        super().__init__("stale", perform)

    def call(self, operator: consistency.Operator, args: Sequence[Any], kwargs: Any) -> Any:
        before = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage().clone()
            for tensor in args[1:]
        }

        def play(name: str, operands: list[torch.Tensor], numbers: list[Any]) -> torch.Tensor:
            x = operands[0]
            old = before.get(x.untyped_storage().data_ptr())
            if name not in ("neg", "abs", "clone", "sum", "amax") or old is None or not x.numel():
                return perform(name, operands, numbers)
            stale = torch.empty(0, dtype=x.dtype).set_(old, x.storage_offset(), x.shape, x.stride())
            return perform(name, [stale, *operands[1:]], numbers)

        return interpret(args[0], args[1:], play)


def run(operator: str, backend: consistency.Backend | str, examples: int = 150) -> list[Result]:
    return list(judged([operator], [backend], ["float32"], examples=examples))


def is_noticed(operator: str, backend: consistency.Backend, examples: int) -> bool:
    return noticed([operator], [backend], ["float32"], examples=examples)


FAULTS = (
    Playing("write lost", write_lost),
    Playing("read as contiguous", read_as_contiguous),
    Playing("offset ignored", offset_ignored),
    Playing("copy for a view", copy_for_a_view),
    Stale(),
)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("backend", FAULTS, ids=lambda backend: str(backend.name))
def test_a_fault_between_steps_is_noticed(backend: consistency.Backend) -> None:
    chosen = engine.configure(["program"], [backend], ["float32"], examples=150)
    first = next(
        result
        for result in judged(["program"], [backend], ["float32"], examples=150)
        if result.verdict.fails
    )
    small = engine.smallest_failure(first, get("program"), [backend], chosen)
    assert small is not None
    assert len(small.case.args[0]) <= 3, small.case.line


def test_programs_that_numpy_interprets_agree() -> None:
    results = run("program", "numpy")
    assert [r.explanation for r in results if r.verdict.fails] == []
    assert any(r.verdict.passes for r in results)


def test_shapes_of_programs_are_those_of_their_numbers() -> None:
    cases = search.batch(get("program"), "float32", 100)
    assert {step[0] for case in cases for step in case.args[0]} >= {"add", "mul", "neg", "expand"}
    for case in cases:
        steps, *tensors = prepare(case).build().args
        numbers = interpret(steps, tensors)
        shapes = interpret(
            [step for step in steps if step[0] not in WRITES],
            [torch.empty(t.shape, device="meta") for t in tensors],
            without_numbers,
        )
        assert [t.shape for t in shapes] == [t.shape for t in numbers], case.line


def test_healthy_programs_pass() -> None:
    for play in (perform, other_order):
        assert not [
            r.explanation for r in run("program", Playing("healthy", play)) if r.verdict.fails
        ]


class Norms(consistency.Backend):
    """Batch norm with a fault in what it does with the running statistics."""

    def __init__(self, name: str) -> None:
        self.name = name

    def call(self, operator: consistency.Operator, args: Sequence[Any], kwargs: Any) -> Any:
        mean, variance, *rest = args
        if self.name == "untouched":
            return operator(mean.clone(), variance.clone(), *rest, **kwargs)
        first, second, last, *affine = rest
        trained = operator(mean, variance, first, second, last, *affine, **kwargs)
        own = operator(mean.clone(), variance.clone(), last, last, last, *affine, **kwargs)
        return [*trained[:2], own[0]]


@pytest.mark.parametrize("fault", ["untouched", "batch statistics in evaluation"])
@pytest.mark.parametrize("norm", ["batch_norm", "instance_norm"])
def test_running_statistics_are_judged(norm: str, fault: str) -> None:
    assert is_noticed(f"nn.functional.{norm}.train_then_eval", Norms(fault), 20)


class Around(consistency.Backend):
    """Writes one number beside the destination as well."""

    name = "around"

    def call(self, operator: consistency.Operator, args: Sequence[Any], kwargs: Any) -> Any:
        result = operator(*args, **kwargs)
        out = args[0]
        everything = out.as_strided(
            (out.untyped_storage().nbytes() // out.element_size(),), (1,), 0
        )
        mask = torch.zeros_like(everything, dtype=torch.bool)
        mask.as_strided(out.shape, out.stride(), out.storage_offset()).fill_(True)
        everything[~mask] = 77.0
        return result


@pytest.mark.parametrize("name", ["add.out", "exp.out", "matmul.out"])
def test_writing_around_the_destination_is_noticed(name: str) -> None:
    assert is_noticed(name, Around(), 40)


def test_a_form_is_ruled_by_its_operator() -> None:
    assert get("exp.out").ruled_by == get("exp.method").ruled_by == ("exp", "unary")
    drawn = search.batch(get("exp.out"), "float32", 5)
    assert all(isinstance(case.args[0], (TensorRecipe, Literal)) for case in drawn)


@pytest.mark.parametrize("dtype", ["float16", "int32"])
def test_forms_come_in_narrow_formats_and_are_judged_by_numpy(dtype: str) -> None:
    names = ["add.out", "abs.method", "div.out", "mean.out", "cumsum.out"]
    found = consistency.run(names, ["cpu", "numpy"], [dtype], examples=30, seed=5)
    assert not [r.explanation for r in found.failures]
    assert any(r.backend == "numpy" and r.verdict.tested for r in found.results)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_writing_around_a_narrow_destination_is_noticed(dtype: str) -> None:
    assert noticed(["exp.out"], [Around()], [dtype], examples=80)  # few are windows


class Cut(consistency.Backend):
    """sigmoid that is 0 from −60 on: above the range in which that is admissible."""

    name = "cut"

    def call(self, operator: consistency.Operator, args: Sequence[Any], kwargs: Any) -> Any:
        out, x = args
        result = operator(out, x)
        result[x < -60.0] = 0.0
        return result


def test_ranges_of_the_argument_hold_in_the_memory_behind_out() -> None:
    assert not [
        r.explanation for r in run("sigmoid.out", consistency.Backend(), 80) if r.verdict.fails
    ]
    assert is_noticed("sigmoid.out", Cut(), 80)


def test_programs_are_judged_by_numpy() -> None:
    found = consistency.run(["program"], ["numpy"], ["float32"], examples=60).results
    assert not [r.explanation for r in found if r.verdict.fails]
    assert sum(r.verdict.tested for r in found) > 30


class Steeper(consistency.Backend):
    """Gradients a thousandth too large."""

    name = "steeper"

    def call(self, operator: consistency.Operator, args: Sequence[Any], kwargs: Any) -> Any:
        result = operator(*args, **kwargs)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            result.register_hook(lambda gradient: gradient * 1.001)
        return result


class Narrow(consistency.Backend):
    """float64 computed in float32."""

    name = "narrow"

    def call(self, operator: consistency.Operator, args: Sequence[Any], kwargs: Any) -> Any:
        given = [
            arg.float() if isinstance(arg, torch.Tensor) and arg.is_floating_point() else arg
            for arg in args
        ]
        return operator(*given, **kwargs).double()


FORMULAS = [
    "linear", "softmax", "logsumexp", "layer_norm", "var", "gelu", "conv2d", "attention",
    "embedding", "nearest",
]  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [*FORMULAS[:2], *(pytest.param(name, marks=pytest.mark.nightly) for name in FORMULAS[2:])],
)
def test_faults_in_the_gradients_and_float64_of_formulas_are_noticed(name: str) -> None:
    name = f"formula.{name}"
    assert noticed([name], [Steeper()], ["float32"], ("backward",), examples=20)
    for direction in (
        ()
        if "float64" not in get(name).dtypes
        else ("backward",)
        if name == "formula.nearest"
        else ("forward", "backward")
    ):
        assert noticed([name], [Narrow()], ["float64"], (direction,), examples=20)
    assert not [r.explanation for r in failures([name], ["cpu"], examples=20, seed=7)]
