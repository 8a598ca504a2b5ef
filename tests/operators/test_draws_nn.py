"""The draws of the neural-network and linear-algebra families: valid in every dtype and in float64,
mostly telling something."""

from __future__ import annotations

import importlib
import math
import warnings
from dataclasses import replace

import pytest
import torch

from consistency.backends import resolve
from consistency.core.model import Case, Outcome
from consistency.diagnose.evaluation import evaluate
from consistency.engine import engine
from consistency.generate.materialize import prepare
from consistency.judge.tolerances import load
from consistency.operators import registry
from consistency.operators.declare import Operator
from consistency.operators.parameter_sampling import spread
from tests.support.drawing import REFUSED, assert_telling, draw

MODULES = (
    "matmul", "contractions", "convolution", "normalization", "softmax", "activations", "pooling",
    "losses", "classification",
    "distances", "linear_algebra", "decompositions", "factored", "fourier", "interpolation",
    "embedding", "attention", "recurrent",
    "dropout",
)  # fmt: skip
OPERATORS = [
    operator
    for name in MODULES
    for operator in importlib.import_module(f"consistency.operators.{name}").OPERATORS
]
EXAMPLES = 12
MOST_ELEMENTS = 1 << 19  # of what lies behind the views, too
CPU = resolve("cpu")
CURRENT = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)

every = pytest.mark.parametrize("operator", OPERATORS, ids=lambda operator: operator.name)


def succeeded(outcome: Outcome, case: Case) -> bool:
    """Whether the call returned; False where this version of torch lacks a kernel, or is known to
    refuse. Everything else that raises is a bad draw."""
    lacking = outcome.status == "unsupported" and not CURRENT
    lacking = lacking or bool(REFUSED.search(outcome.message or ""))
    assert lacking or outcome.status == "ok", (
        f"{outcome.exception}: {outcome.message} in {case.line}"
    )
    return not lacking


def is_dull(outcome: Outcome) -> bool:
    return not any(
        output.tensor is not None and bool((output.tensor != 0).any()) for output in outcome.outputs
    )


def floats(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat"))


def widened(operator: Operator) -> Operator:
    """Its reference where the operator itself does not take wide integers: pivots are int32."""
    pivoted = operator.name in ("lu_solve", "linalg.lu_solve", "linalg.ldl_solve")
    return replace(operator, function=operator.reference) if pivoted else operator


@pytest.mark.one_in(24)
@every
def test_draws(operator: Operator) -> None:
    if operator.callable is None:
        pytest.skip(f"torch {torch.__version__} has no {operator.name}")
    for dtype in operator.dtypes:
        drawn, dull, differentiated = (
            draw(operator, dtype, EXAMPLES),
            0,
            not (operator.differentiable and floats(dtype)),
        )
        for case in drawn:
            assert Case.from_line(case.line).line == case.line
            materials = prepare(case)
            assert max((base.size for base in materials.bases), default=0) <= MOST_ELEMENTS, (
                case.line
            )
            wide, outcome = (
                CPU.run(widened(operator), materials, "forward", "float64"),
                CPU.run(operator, materials),
            )
            if not (succeeded(wide, case) and succeeded(outcome, case)):
                differentiated = True  # cannot be asked
                continue
            dull += is_dull(wide)
            assert not outcome.modified, (
                f"argument {outcome.modified} was written to in {case.line}"
            )
            if not differentiated:
                backward = CPU.run(operator, materials, "backward")
                differentiated = not succeeded(backward, case) or any(
                    output.tensor is not None for output in backward.outputs
                )
        if "constant" not in operator.traits:
            assert_telling(
                operator,
                dtype,
                drawn,
                dull,
                lambda case: is_dull(CPU.run(operator, prepare(case), "forward", "float64")),
            )
        assert differentiated, f"no {dtype} example of {operator.name} has a gradient"


@pytest.mark.skipif(not CURRENT, reason="older kernels are less accurate: elu took exp(x) - 1")
@pytest.mark.one_in(6)
@every
def test_error_models_accept_the_cpu(operator: Operator) -> None:
    """S and n exist for every draw, forward and backward, and the CPU's own rounding stays within
    them."""
    if operator.callable is None:
        pytest.skip(f"torch {torch.__version__} has no {operator.name}")
    rules = load()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in draw(
            operator, "float32" if "float32" in operator.dtypes else operator.dtypes[0], 12
        ):
            for result in evaluate(case, [CPU], rules, operator=operator):
                assert not result.verdict.fails, (
                    f"{result.direction}: {result.explanation} in {case.line}"
                )


@pytest.mark.parametrize(
    "operator", [o for o in OPERATORS if o.observe is not None], ids=lambda operator: operator.name
)
def test_observing_survives_wrong_outputs(operator: Operator) -> None:
    """Indices far outside and NaN, as faulty backends return them, read as something that differs;
    nothing fails."""
    assert operator.observe is not None
    for case in draw(operator, "float32", 12):
        materials = prepare(case)
        outcome, arguments = (
            CPU.run(operator, materials, "forward", "float64"),
            materials.build("float64"),
        )
        for wrong in (math.nan, 1.0):
            outputs = tuple(
                torch.full_like(
                    o.tensor,
                    wrong if o.tensor.dtype.is_floating_point or o.tensor.is_complex() else 1 << 20,
                )
                for o in outcome.outputs
                if o.tensor is not None
            )
            operator.observe(tuple(arguments.args), arguments.kwargs, outputs)


def test_convolutions_leave_out_what_crashes_only() -> None:
    """In bfloat16 windows of padding only; grouped images one pixel wide that are not contiguous,
    of which float64 mixes up the channels, are drawn."""
    conv2d = next(operator for operator in OPERATORS if operator.name == "nn.functional.conv2d")
    padded = narrow = 0
    for case in [
        *engine.draw(conv2d, "bfloat16", 80, 0)[0],
        *engine.draw(conv2d, "float32", 80, 0)[0],
    ]:
        arguments = prepare(case).build()
        image, weight = arguments.args[0], arguments.args[1]
        padding, dilation = (
            arguments.kwargs.get(name, default)
            for name, default in (("padding", 0), ("dilation", 1))
        )
        if case.dtype == "bfloat16" and not isinstance(padding, str):
            padding, dilation = (spread(n, 2) for n in (padding, dilation))
            padded += any(padding)
            assert all(
                p <= (k - 1) * s
                for p, k, s in zip(padding, weight.shape[2:], dilation, strict=True)
            ), case.line
        grouped = arguments.kwargs.get("groups", 1) > 1
        narrow += grouped and image.shape[-1] == 1 and not image.is_contiguous()
    assert padded
    assert narrow


def test_long_products_stay_in_range() -> None:
    prod = registry()["prod"]
    for case in engine.draw(prod, "bfloat16", 80, 0)[0]:
        arguments = prepare(case).build("float64")
        result = prod(*arguments.args, **arguments.kwargs).abs()
        finite = result[result.isfinite() & (result != 0.0)]
        assert (
            not finite.numel() or 2.0**-126 <= float(finite.min()) <= float(finite.max()) < 2.0**128
        ), case.line


def test_enough_operators() -> None:
    names = [operator.name for operator in OPERATORS]
    assert len(names) == len(set(names)) >= 110
