"""Planted faults are made small: with the same verdict and cause, as small as a person could make
them, and in time.

A dozen of them here; all of them, with the distribution of the times, under ``-m nightly``.
"""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import consistency
from consistency import backends, operators
from consistency.backends.subprocess.backend import SubprocessBackend
from consistency.core.dtypes import real_of
from consistency.core.model import Case, Result
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.diagnosis_budget import DiagnosisBudget
from consistency.diagnose.shrink import MinimalCase, Progress, minimize
from consistency.diagnose.shrink.failure_signature import initial_verdict
from consistency.diagnose.shrink.tensor_edits import with_literals
from consistency.engine import engine
from consistency.engine.events import Judged
from consistency.errors import UsageError
from consistency.generate.calls.case_operator import operator_of
from consistency.generate.materialize import case_of, literal, prepare
from consistency.judge import tolerances
from tests.support.catalog import FAULTS
from tests.support.paths import SUPPORT

Deed = Callable[..., Any]
RULES = tolerances.load()


class Planted(consistency.Backend):
    """The CPU, with a fault planted behind it: ``wrong(result, *args)``."""

    name = "planted"

    def __init__(self, wrong: Deed) -> None:
        self.wrong = wrong

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return self.wrong(super().call(operator, args, kwargs), *args)


@dataclass(frozen=True)
class Fault:
    """A fault, and how small its minimal case must be: numbers, numbers that are not 0, and a
    sentence about its threshold. It is made small from the first case of ``seed``
    that ``suits``: what a case shrinks to depends on the cause that it shows."""

    name: str
    operator: str
    make: Callable[[], consistency.Backend]
    numbers: int
    nonzero: int
    dtype: str = "float32"
    direction: str = "forward"
    threshold: str = ""
    suits: Callable[[Case], bool] = lambda case: True
    seed: int = 0


def of_a_transposed_view(result: Tensor, x: Tensor, *rest: Any) -> Tensor:
    transposed = x.ndim > 1 and min(x.shape[-2:]) > 1 and x.stride(-1) > x.stride(-2)
    return result * 1.01 if transposed else result


def own(name: str, operator: str, wrong: Deed, numbers: int, nonzero: int, **more: Any) -> Fault:
    return Fault(name, operator, lambda: Planted(wrong), numbers, nonzero, **more)


def listed(numbers: int, nonzero: int, name: str, **more: Any) -> Fault:
    """One of the catalog, by how its name ends."""
    (row,) = [row for row in FAULTS if row.name == f"played:{name}"]
    return Fault(
        row.name, row.operator, row.backend, numbers, nonzero, row.dtype, row.directions[0], **more
    )


def of_whole_numbers(case: Case) -> bool:
    return all(tensor.values[0] == "integers" for tensor in case.tensors)


def of_two_tensors(case: Case) -> bool:
    """A view of two numbers and another tensor of one are the least, then."""
    return len(case.tensors) == 2


def of_an_image(case: Case) -> bool:
    """Not of a volume, whose sampling points have a coordinate more."""
    return len(prepare(case).build(device="meta").tensors[0].shape) == 4


def of_nan_alone(case: Case) -> bool:
    """NaN among finite numbers: of an infinity the softmax is NaN, too, from two numbers on."""
    (x,) = case.tensors
    tokens = {token for _, token in x.special} if isinstance(x, TensorRecipe) else set()
    return tokens == {"nan"} and x.values[0] != "tokens"


SOME = (
    own("K % 8 == 3", "matmul", lambda y, a, b: y * 1.01 if a.shape[-1] % 8 == 3 else y, 6, 2,
        threshold="K = 2 passes, K = 3 fails, K = 4 passes"),
    own("of a transposed view", "sum", of_a_transposed_view, 4, 1),
    own("x > 88", "exp", lambda y, x: torch.where(x > 88, y * 1.01, y), 1, 1,
    threshold="passes at 88.0, fails at 88.0000076"),
    own("88 < x < 88.7", "exp", lambda y, x: torch.where((x > 88) & (x < 88.7), y * 1.01, y), 1, 1,
        threshold="passes at 88.6999969, fails at 88.6999893"),
    own("K > 19", "mm", lambda y, a, b: y * 1.01 if a.shape[-1] > 19 else y, 40, 2,
    threshold="K = 19 passes, K = 20 fails"),
    listed(2, 2, "TF32 inputs / matmul float32"),
    listed(1, 1, "computed in float32 / sqrt float64"),
    listed(9, 1, "terms beyond a multiple of 8 dropped / amax float32"),
    listed(3, 1, "write to a view lost / mul_ float32", suits=of_two_tensors),
    listed(8, 2, "gradient transposed / bmm float32 backward"),
    listed(1, 1, "NaN dropped / softmax float32", suits=of_nan_alone),
    listed(4, 2, "wrong pixel center / nn.functional.grid_sample float32", suits=of_an_image),
)  # fmt: skip

MORE = (
    listed(3, 1, "bfloat16 inputs / baddbmm float32"),
    listed(2, 2, "bfloat16 in three products / bmm float32"),
    listed(1, 1, "float16 accumulator / mean float32"),
    listed(20, 20, "truncating every 1 / mm float32"),
    listed(2, 1, "computed in float32 / var float64"),
    listed(4, 2, "offset ignored / gather float32"),
    listed(6, 2, "strides ignored / matmul float32"),
    listed(7, 1, "strides of the last ignored / scatter float32"),
    listed(4, 1, "last stride taken for 1 / nn.functional.avg_pool2d float32"),
    listed(4, 2, "offset ignored / nn.functional.conv2d float32 backward"),
    listed(1, 0, "input modified / neg float32"),
    listed(1, 1, "int64 in 32 bits / abs int64"),
    listed(0, 0, "empty / eye float32"),
    listed(1, 1, "times 1.02 / mean float16"),
    listed(2, 2, "one element times 1.001 at 0.5 / matmul float32", seed=1),
    listed(16, 3, "body of 16 with 14 bits / sigmoid float32", seed=1),
    listed(2, 1, "shifted by one / stack int64"),
    listed(2, 2, "subnormals flushed / mul float32"),
    listed(1, 0, "constantly true / all bool"),
    listed(2, 2, "one element 4 ulp off / matmul float32"),
    listed(2, 1, "gradient doubled / prod float32 backward"),
    listed(3, 2, "gradient times 1.02 / nn.functional.linear float16 backward"),
    listed(6, 1, "gradient of wrong shape / nn.functional.bilinear float32 backward"),
    listed(1, 1, "logarithm / asinh float32"),
    listed(2, 1, "atan(y / x) / atan2 float32"),
    listed(2, 0, "less or equal / lt float32"),
    listed(2, 2, "-inf twice is NaN / logcumsumexp float32"),
    listed(3, 1, "side ignored / searchsorted float32", seed=1),
    listed(1, 1, "diagonal ignored / tril float32", seed=3),
    listed(2, 2, "one pass / nn.functional.group_norm float32"),
    listed(4, 1, "statistics of the batch / nn.functional.instance_norm float32"),
    listed(2, 2, "edge repeated / nn.functional.conv1d float32"),
    listed(1, 1, "slope ignored / nn.functional.leaky_relu float32"),
    listed(3, 1, "swap ignored / nn.functional.triplet_margin_loss float32", seed=1),
    listed(2, 1, "norm ignored / fft.fft float32"),  # one padded to two is a longer call
)


@functools.cache
def found(fault: Fault) -> tuple[Result, consistency.Backend]:
    """The first failure of a run in a case that suits, and the backend that failed."""
    for examples in (25, 100, 400):
        backend = fault.make()
        chosen = engine.configure(
            [fault.operator],
            [backend],
            [fault.dtype],
            [fault.direction],
            examples,
            fault.seed,
            shrink=False,
        )
        for event in engine.run(chosen):
            failing = (
                [r for r in event.results if r.verdict.fails and fault.suits(r.case)]
                if isinstance(event, Judged)
                else []
            )
            if failing:
                return failing[0], backend
    raise AssertionError(f"{fault.name} was not found")


def small(result: Result, backend: consistency.Backend, **options: Any) -> MinimalCase:
    operator = (
        operators.get(result.operator) if not result.case.source else operator_of(result.case)
    )
    return minimize(result, operator, backend, RULES, **options)


def size(case: Case) -> tuple[int, int]:
    """Numbers in all tensors, and how many of them are not 0."""
    materials = prepare(case)
    bases = [*materials.bases, *(c for c in materials.cotangents if c is not None)]
    return sum(b.size for b in bases), sum(int(np.count_nonzero(real_of(b))) for b in bases)


def check(fault: Fault, minimal: MinimalCase) -> None:
    numbers, nonzero = size(minimal.result.case)
    assert (numbers, nonzero) <= (fault.numbers, fault.nonzero), minimal.result.case.line
    assert nonzero <= fault.nonzero, minimal.result.case.line
    assert minimal.result.verdict == minimal.original.verdict
    assert initial_verdict(minimal.result) == initial_verdict(minimal.original)
    assert minimal.result.cause == minimal.original.cause
    assert minimal.rate == (3, 3)
    assert not minimal.interrupted
    assert not fault.threshold or fault.threshold in minimal.thresholds


@pytest.mark.one_in(12)
@pytest.mark.parametrize("fault", SOME, ids=lambda fault: f"{fault.operator} {fault.name}")
def test_a_fault_is_made_small(fault: Fault) -> None:
    check(fault, small(*found(fault)))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("fault", SOME[:4], ids=lambda fault: f"{fault.operator} {fault.name}")
def test_literal_tensors_are_made_as_small(fault: Fault) -> None:
    result, backend = found(fault)
    case = with_literals(result.case)
    (literal,) = engine.judge_case(
        case,
        operators.get(case.operator),
        [backend],
        RULES,
        (result.direction,),
        diagnosis_budget=DiagnosisBudget(),
    )
    assert literal.verdict.fails
    check(fault, small(literal, backend))


@pytest.mark.nightly
def test_forty_faults_are_made_small_in_time() -> None:
    """Each in 30 seconds, but for one in twenty; from drawn cases and from literal tensors."""
    seconds: dict[str, float] = {}
    for fault in (*SOME, *MORE):
        result, backend = found(fault)
        minimal = small(result, backend)
        check(fault, minimal)
        seconds[fault.name] = minimal.seconds
    times = sorted(seconds.values())
    share = {p: times[int(p * (len(times) - 1))] for p in (0.5, 0.95, 1.0)}
    told = f"{len(times)} faults: " + ", ".join(
        f"{p:.0%} within {t:.1f} s" for p, t in share.items()
    )
    print(told)
    assert len(times) >= 40
    assert sum(t > 30.0 for t in times) < 0.05 * len(times), told


class Flaky(consistency.Backend):
    """Wrong in one call of three, whatever it is asked."""

    name = "flaky"

    def __init__(self) -> None:
        self.random = random.Random(1)

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        result = super().call(operator, args, kwargs)
        return result * 1.01 if self.random.random() < 1 / 3 else result


def test_a_flaky_failure_is_made_small_and_its_rate_told() -> None:
    result, backend = found(Fault("flaky", "matmul", Flaky, 2, 2))
    assert result.verdict.value == "nondeterministic"
    minimal = small(result, backend)
    assert size(minimal.result.case) == (2, 2)
    assert minimal.result.verdict.value == "nondeterministic"
    failed, runs = minimal.rate
    assert runs == 10
    assert 0 < failed < 10


def test_ctrl_c_keeps_the_best_so_far() -> None:
    """At any call: what comes back fails as the original did, and is no larger."""
    result, backend = found(SOME[1])
    sizes, most = [], small(result, backend).calls
    assert most > 60
    for call in (1, 5, 20, 60, most):

        def stop(progress: Progress, call: int = call) -> None:
            if progress.calls == call:
                raise KeyboardInterrupt

        minimal = small(result, backend, progress=stop)
        assert minimal.interrupted
        assert minimal.calls == call
        assert minimal.result.verdict == result.verdict
        assert initial_verdict(minimal.result) == initial_verdict(result)
        sizes.append(size(minimal.result.case))
    assert sizes[0] == size(result.case)
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]


@pytest.mark.nightly
def test_the_time_limit_is_kept() -> None:
    calls: list[None] = []

    def slow(y: Tensor, x: Tensor, *rest: Any) -> Tensor:
        calls.append(None)
        time.sleep(0.02)
        return of_a_transposed_view(y, x)

    result, backend = found(own("slow", "sum", slow, 4, 1))
    calls.clear()
    minimal = small(result, backend, seconds=3.0)
    assert minimal.interrupted
    assert len(calls) < 2 * 3.0 / 0.02  # the search itself and the last look at what it found
    assert size(minimal.result.case) <= size(result.case)


def test_progress_is_told() -> None:
    told: list[Progress] = []
    minimal = small(*found(SOME[2]), progress=told.append)
    assert [p.calls for p in told] == list(range(1, minimal.calls + 1))
    assert told[-1].size == 1
    assert told[0].words == "how often it fails"
    assert {"drawing smaller cases", "threshold"} <= {p.words for p in told}


def test_one_bug_does_not_become_another() -> None:
    """NaN for long tensors, small errors for all: each stays what it is."""

    def two_bugs(y: Tensor, x: Tensor) -> Tensor:
        return torch.full_like(y, torch.nan) if x.numel() > 8 else y * 1.01

    backend = Planted(two_bugs)
    case = case_of("exp", "float32", (torch.linspace(0.1, 2.0, 40),), {})
    (long,) = engine.judge_case(
        case,
        operators.get("exp"),
        [backend],
        RULES,
        ("forward",),
        diagnosis_budget=DiagnosisBudget(),
    )
    assert long.verdict.value == "special-values"
    assert size(small(long, backend).result.case)[0] == 9
    case = case_of("exp", "float32", (torch.linspace(0.1, 2.0, 8),), {})
    (short,) = engine.judge_case(
        case,
        operators.get("exp"),
        [backend],
        RULES,
        ("forward",),
        diagnosis_budget=DiagnosisBudget(),
    )
    assert short.cause == "scaled"
    assert size(small(short, backend).result.case)[0] == 1


class Restless(consistency.Backend):
    """Of six numbers or more, now and then the last bit is another one."""

    name = "restless"

    def __init__(self) -> None:
        self.random = random.Random(0)

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        result = super().call(operator, args, kwargs)
        change = result.numel() >= 6 and self.random.random() < 0.5
        return torch.nextafter(result, torch.zeros_like(result)) if change else result


def results_of(
    operator: str, backend: consistency.Backend, dtypes: Sequence[str], **options: Any
) -> list[Result]:
    chosen = engine.configure(
        [operator], [backend], dtypes, ["forward"], 25, shrink=False, **options
    )
    return [
        r
        for event in engine.run(chosen)
        if isinstance(event, Judged)
        for r in event.results
        if r.verdict.fails
    ]


def test_other_bits_from_run_to_run_are_made_small() -> None:
    backend = Restless()
    result = next(
        r
        for r in results_of("exp", backend, ["float32"], repeat=3)
        if "other bits from run to run" in r.explanation
    )
    minimal = small(result, backend)
    assert size(minimal.result.case)[0] == 6
    assert minimal.result.verdict.value == "nondeterministic"
    assert "other bits from run to run" in minimal.result.explanation
    assert minimal.rate[0] > 1


def test_errors_that_do_not_shrink_are_made_small() -> None:
    def in_float64(y: Tensor, x: Tensor) -> Tensor:
        return y * (1.0 + 1e-12) if y.dtype == torch.float64 else y

    backend = Planted(in_float64)
    result = next(
        r
        for r in results_of("exp", backend, ["float32", "float64"])
        if r.verdict.value == "precision-scaling"
    )
    minimal = small(result, backend)
    assert minimal.result.verdict.value == "precision-scaling"
    assert minimal.result.dtype == "float64"
    assert size(minimal.result.case)[0] == 1


@pytest.mark.nightly
def test_crashes_are_made_small_and_put_nothing_into_quarantine() -> None:
    spec = f"{SUPPORT / 'bad_backends.py'}:Aborts+isolated"
    (backend,) = backends.resolve_all([spec])
    backend = backends.isolated(backend, spec)
    try:
        result = next(
            r for r in results_of("neg", backend, ["float32"]) if r.verdict.value == "crash"
        )
        backend = backends.isolated(backend, spec)
        minimal = small(result, backend)
        (tensor,) = minimal.result.case.tensors
        assert math.prod(tensor.shape) == 4
        assert minimal.result.verdict.value == "crash"
        assert minimal.thresholds == ("3 passes, 4 fails, 5 passes",)
        assert minimal.rate == (1, 1)
        assert isinstance(backend, SubprocessBackend)
        assert backend.restarts >= 5
        assert not backend.quarantined("neg")
    finally:
        backend.close()


def test_cases_from_elsewhere_are_made_small() -> None:
    """A call that the case names itself, with literal tensors and cotangents, as recordings and
    models give them."""
    x, weight = (
        torch.linspace(-1.0, 1.0, 32).reshape(1, 2, 4, 4),
        torch.linspace(0.5, 1.0, 24).reshape(3, 2, 2, 2),
    )
    case = case_of("conv2d", "float32", (x, weight), {})
    case = replace(
        case,
        source="call/torch.nn.functional.conv2d",
        cotangents=(literal(torch.linspace(0.1, 1.0, 27).reshape(1, 3, 3, 3)),),
    )
    backend = Planted(lambda y, x, weight: y.detach() + 1.5 * (y - y.detach()))
    (result,) = engine.judge_case(
        case, operator_of(case), [backend], RULES, ("backward",), diagnosis_budget=DiagnosisBudget()
    )
    assert result.verdict.fails
    minimal = small(result, backend)
    assert minimal.result.case.source == case.source
    assert minimal.result.cause == result.cause
    assert size(minimal.result.case)[0] <= 5


@pytest.mark.nightly
def test_a_known_divergence_is_made_small_as_if_nobody_knew() -> None:
    x = (
        (1024.0 + torch.linspace(-1.0, 1.0, 300))
        .reshape(2, 6, 5, 5)
        .contiguous(memory_format=torch.channels_last)
    )
    case = case_of("nn.functional.group_norm", "float32", (x, 3), {})
    backend = backends.resolve_all(["cpu"])[0]
    (result,) = engine.judge_case(
        case,
        operators.get(case.operator),
        [backend],
        RULES,
        ("forward",),
        diagnosis_budget=DiagnosisBudget(),
    )
    assert result.verdict.value == "known"
    minimal = small(result, backend, seconds=10.0)
    assert minimal.original is result
    assert minimal.result.verdict.value == "divergent"
    assert minimal.result.metrics["rho_max"] > 10.0
    assert size(minimal.result.case) < size(case)


@pytest.mark.nightly
def test_drawn_tensors_stay_drawn_where_their_bits_do_not_fail() -> None:
    """Of whole numbers that a recipe names as such, the last bit counts."""

    def last_bit(y: Tensor, *rest: Any) -> Tensor:
        return torch.where(y.abs() >= 2.0, torch.nextafter(y, torch.full_like(y, torch.inf)), y)

    fault = own("last bit", "matmul", last_bit, 12, 12, suits=of_whole_numbers)
    minimal = small(*found(fault), examples=100)
    assert all(isinstance(tensor, TensorRecipe) for tensor in minimal.result.case.tensors)
    assert "drawn tensors are needed: given by their bits they do not fail" in minimal.steps
    assert size(minimal.result.case)[0] <= 12


def test_what_depends_on_the_calls_before_is_confirmed_or_left() -> None:
    """On the way others were called in between: what is handed back fails when it is called again
    and again."""
    minimal = small(*found(listed(0, 0, "gradient on top of the last / fft.ifft float32 backward")))
    assert minimal.rate == (3, 3)
    assert "smaller cases failed after other calls only" in minimal.steps
    minimal = small(*found(listed(0, 0, "stale buffer / add float32")))
    assert minimal.rate == (0, 10)
    assert minimal.steps == (
        (
            "it did not happen in 10 runs here: nothing was made smaller; it may depend on what "
            "ran before"
        ),
    )


def test_what_is_told_of_a_case() -> None:
    minimal = small(*found(replace(SOME[1], seed=2)))
    assert minimal.steps[1].endswith("→ 4 numbers")
    assert "1 of 4 numbers not 0" in minimal.steps
    assert "layout still needed: tensor 0 strides [1, 2]" in minimal.steps
    assert minimal.thresholds == ("1×2 passes, 2×2 fails",)
    assert minimal.calls > 10


def test_what_does_not_fail_is_refused() -> None:
    case = case_of("exp", "float32", (torch.tensor([1.0, 2.0, 3.0]),), {})
    (result,) = engine.judge_case(
        case, operators.get("exp"), [Planted(lambda y, x: y)], RULES, ("forward",)
    )
    with pytest.raises(
        UsageError,
        match=r"exp-\w+ is (rounding|exact) on planted: only what fails can be made smaller",
    ):
        small(result, Planted(lambda y, x: y))


def test_what_does_not_happen_again_is_left_as_it_is() -> None:
    result, _ = found(SOME[2])
    minimal = small(result, Planted(lambda y, x: y))
    assert minimal.result is result
    assert minimal.rate == (0, 10)
    assert minimal.steps == ("it did not happen in 10 runs here: nothing was made smaller",)
