"""Every operator's own draws: valid in every dtype and in float64, mostly telling something, and
kept exactly by JSON."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
import torch

from consistency.backends._outputs import collect
from consistency.core.model import Case
from consistency.generate.materialize import Materials, prepare
from consistency.operators.declare import Operator
from consistency.operators.nonunique_results import gather_or_nan, quotient_neighbors, tied_sums
from consistency.reference.computed_format import computed_dtype
from tests.support.drawing import REFUSE_LAYOUTS, REFUSED, assert_telling, draw

MODULES = (
    "unary", "special", "binary", "ternary", "comparisons", "casts", "reductions", "moments",
    "cumulative", "movement", "joining",
    "indexing", "scattering", "sorting", "creation", "random", "inplace", "view_copies",
    "masked", "polynomials", "windows",
)  # fmt: skip
OPERATORS = [
    operator
    for name in MODULES
    for operator in importlib.import_module(f"consistency.operators.{name}").OPERATORS
]
ANY_RESULT = ("constant", "view")
EXAMPLES = {"float32": 16}
FEWER = 8


def tensors_in(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return (
        [t for item in result for t in tensors_in(item)]
        if isinstance(result, (tuple, list))
        else []
    )


def run(operator: Operator, materials: Materials, dtype: str | None = None) -> list[torch.Tensor]:
    arguments = materials.build(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        refuses = operator.name.split(".")[0] in REFUSE_LAYOUTS
        function = operator.reference if operator.reference and (dtype or refuses) else operator
        return tensors_in(function(*arguments.args, **arguments.kwargs))


def is_dull(outputs: list[torch.Tensor]) -> bool:
    return bool(outputs) and not any((output != 0).any() for output in outputs)


def has_gradient(operator: Operator, materials: Materials) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = materials.build(gradients=operator.leaves)
        found = collect(lambda args, kwargs: operator(*args, **kwargs), operator, arguments, True)
    return any(gradient.tensor is not None for gradient in found)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)
def test_draws(operator: Operator) -> None:
    if operator.callable is None:
        pytest.skip(f"torch {torch.__version__} has no {operator.name}")
    for dtype in operator.dtypes:
        try:
            check(operator, dtype)
        except (NotImplementedError, RuntimeError) as error:
            if torch.__version__.startswith("2.4.") and (
                "not implemented" in str(error) or "Unsupported" in str(error)
            ):
                continue  # what a later torch offers
            raise


def check(operator: Operator, dtype: str) -> None:
    drawn = draw(operator, dtype, EXAMPLES.get(dtype, FEWER))
    dull = differentiated = 0
    for case in drawn:
        assert Case.from_line(case.line).line == case.line
        materials = prepare(case)
        try:
            outputs = run(operator, materials)
        except RuntimeError as error:
            if REFUSED.search(str(error)):
                continue
            raise
        wide = run(operator, materials, computed_dtype(operator, materials))
        assert [output.shape for output in outputs] == [output.shape for output in wide], case.line
        dull += is_dull(outputs)
        if operator.differentiable and dtype.startswith(("float", "bfloat")) and not differentiated:
            try:
                differentiated += has_gradient(operator, materials)
            except NotImplementedError as error:  # a kernel that torch has in one direction only
                if "not implemented for" not in str(error):
                    raise
                differentiated += 1
        if operator.observe is not None:
            arguments = materials.build("float64")
            operator.observe(tuple(arguments.args), arguments.kwargs, tuple(outputs))
    if (
        operator.error.kind != "structure"
        and not operator.traits.intersection(ANY_RESULT)
        and dtype != "bool"
    ):
        assert_telling(
            operator, dtype, drawn, dull, lambda case: is_dull(run(operator, prepare(case)))
        )
    if operator.differentiable and dtype.startswith(("float", "bfloat")):
        assert differentiated, f"no {dtype} example of {operator.name} has a gradient"


@pytest.mark.parametrize(
    "operator", [o for o in OPERATORS if o.observe is not None], ids=lambda operator: operator.name
)
def test_observing_survives_wrong_outputs(operator: Operator) -> None:
    """Indices far outside, as faulty backends return them, read as NaN or as something else that
    differs; nothing fails."""
    assert operator.observe is not None
    for case in draw(operator, "float32", EXAMPLES["float32"]):
        materials = prepare(case)
        outputs = run(operator, materials, "float64")
        arguments = materials.build("float64")
        far = [
            1
            if o.dtype.is_floating_point or o.dtype == torch.bool
            else min(1 << 40, torch.iinfo(o.dtype).max)
            for o in outputs
        ]
        wrong = tuple(
            torch.full_like(output, value) for output, value in zip(outputs, far, strict=True)
        )
        operator.observe(tuple(arguments.args), arguments.kwargs, wrong)


def test_a_position_outside_reads_as_nan() -> None:
    found = gather_or_nan(torch.tensor([1.0, 2.0]), 0, torch.tensor([1, 2, -1]))
    assert found.tolist()[0] == 2.0
    assert found.isnan().tolist() == [False, True, True]


@pytest.mark.parametrize("gradient", [[5.0, 0.0, 7.0], [0.0, 5.0, 7.0]])
def test_gradients_of_ties_are_summed(gradient: list[float]) -> None:
    """Whichever of two equal elements was selected, their common sum is the same."""
    (sums,) = tied_sums(lambda args, kwargs: 0)(
        (torch.tensor([3.0, 3.0, 1.0]),), {}, (torch.tensor(gradient),)
    )
    assert sums.tolist() == [5.0, 5.0, 7.0]


def test_a_quotient_may_be_one_step_off_only_where_it_is_rounded_to_a_whole_one() -> None:
    args = (torch.tensor([0.7, 6.0, 7.5]).double(), torch.tensor([0.1, 2.0, 2.0]).double())
    result = torch.tensor([6.0, 3.0, 3.0])
    below, above = (outputs[0].tolist() for outputs in quotient_neighbors(args, {}, (result,)))
    assert (below, above) == ([5.0, 3.0, 3.0], [7.0, 3.0, 3.0])
