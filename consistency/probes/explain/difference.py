"""A difference between two computations: its size, whether it is rounding, and whether summation
orders explain all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...backends.base import Backend
from ...core.dtypes import FORMATS
from ...core.model import Case
from ...diagnose.diagnosis_budget import DiagnosisBudget
from ...diagnose.evaluation import evaluate
from ...errors import UsageError
from ...generate.calls.case_operator import operator_of
from ...generate.materialize import prepare
from ...judge import tolerances
from ...judge.judgment import Judgment
from ...operators.declare import HALF, Operator
from ...reference import Reference, quiet
from ...reference.high_precision import refine
from ..summation.orders import Orders
from ..summation.trees import agreement
from ..sweep.expressions import compiled
from ..sweep.plans import SweepPlan
from .accuracy import TwoAlgorithms, two_algorithms
from .compared_sides import Side, by_formula, sums_are_known
from .fingerprints import of_operator, words
from .plain_difference import plain_difference
from .properties import confirmation

FEW = 64  # fewer elements may agree by chance


@dataclass(frozen=True)
class Threshold:
    """The largest size of dimension ``name`` at which both agree: ``predicted`` by the trees (0: no
    prediction), and ``measured`` (0: not measured).

    ``beyond`` is the fraction of elements that differ at the next size.
    """

    name: str
    predicted: int
    measured: int
    beyond: float = 0.0

    @property
    def confirmed(self) -> bool:
        return 0 < self.predicted == self.measured


@dataclass(frozen=True)
class Account:
    """A and B on one case: ``differing`` of ``elements`` elements differ, by ``apart`` at most;
    ``judged`` and ``orders`` of each side.

    ``ratio`` is the RMS difference over that in float64 (nan: not compared, inf: none in float64).
    ``plainly`` says what the difference is where no order of sums is needed for it.
    ``properties`` are sentences on other differences, where orders do not explain all elements.
    ``algorithms``: where no terms are added, or nobody knows which, the errors of both in ulp.
    """

    operator: Operator
    case: Case
    sides: tuple[Side, Side]
    shapes: tuple[tuple[int, ...], ...]
    elements: int
    differing: int
    apart: float
    judged: tuple[Judgment, Judgment]
    orders: tuple[Orders, Orders]
    ratio: float = math.nan
    threshold: Threshold | None = None
    properties: tuple[str, ...] = ()
    plainly: str = ""
    algorithms: TwoAlgorithms | None = None

    @property
    def explained(self) -> bool:
        """Whether replaying the recovered orders reproduces every output of both sides bit for
        bit."""
        return all(orders.exact and not orders.untested for orders in self.orders)

    @property
    def replayed(self) -> int:
        """Number of outputs reproduced bit for bit on both sides."""
        return min(orders.equal for orders in self.orders)

    @property
    def rounding(self) -> bool:
        return all(judgment.verdict.passes for judgment in self.judged)


def of_formula(
    plan: SweepPlan, formula: str, backend: Backend, sizes: Mapping[str, int], dtype: str, *,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Account:  # fmt: skip
    """An operator and a formula of its arguments, on one backend. Raises UsageError."""
    sizes = {**plan.usual, **sizes}
    ready = compiled(formula, [*plan.arguments, *plan.usual], plan.spelled)
    short = plan.operator.rpartition(".")[2]

    def sides(all_sizes: Mapping[str, int]) -> tuple[Side, Side]:
        name = f"F.{short}" if plan.operator.startswith("nn.functional.") else short
        return Side(name, backend), by_formula(formula, backend, ready, plan.arguments, all_sizes)

    result = account(plan.case(dtype, sizes, seed), sides(sizes), say, plan.arguments)
    if result.differing and not result.explained and (dtype in HALF or result.algorithms):
        result = replace(result, properties=_roundings(result))
    name = plan.vary.partition("=")[0]
    if result.differing and name in ("K", "N") and result.orders[0].orders:
        say(f"looking for the smallest {name} at which they differ")
        threshold = _threshold(result, plan, sides, sizes, dtype, seed, name)
        result = replace(result, threshold=threshold)
    return result


def _roundings(result: Account) -> tuple[str, ...]:
    """``x @ W.T + b rounds twice on its way (mm, add); F.linear rounds once …``, if the numbers of
    rounding steps differ."""
    materials = prepare(result.case)
    with quiet():
        steps = [side.roundings(result.operator, materials) for side in result.sides]
    if not all(steps) or len(steps[0]) == len(steps[1]):
        return ()
    sentences = [
        (
            f"{side.name} rounds {_TIMES.get(len(names), f'{len(names)} times')} on its way "
            f"({', '.join(names)})"
        )
        for side, names in zip(result.sides, steps, strict=True)
    ]
    return (f"{sentences[0]}; {sentences[1]}",)


_TIMES = {1: "once", 2: "twice"}


def of_case(
    case: Case, left: Backend, right: Backend, say: Callable[[str], None] = lambda text: None
) -> Account:
    """One case on two backends. Raises UsageError."""
    comparison = account(case, (Side(left.name, left), Side(right.name, right)), say=say)
    if comparison.explained or not comparison.differing:
        return comparison
    properties = [words(d) for d in of_operator(case.operator, case.dtype, left, right, say)]
    properties = [f"{left.name} → {right.name}: {text}" for text in properties]
    for backend, judged in zip((left, right), comparison.judged, strict=True):
        if judged.verdict.fails:
            say(f"looking for the cause on {backend.name}")
            (result,) = evaluate(
                case,
                [backend],
                tolerances.load(),
                directions=("forward",),
                diagnosis_budget=DiagnosisBudget(),
            )
            properties += [f"{backend.name}: {result.explanation}", confirmation(result, backend)]
    return replace(comparison, properties=tuple(text for text in properties if text))


def account(
    case: Case,
    sides: tuple[Side, Side],
    say: Callable[[str], None] = lambda text: None,
    names: Sequence[str] = (),
) -> Account:
    """Run both sides, compare and judge them, recover and replay both orders. ``names``: what a
    formula calls the operator's tensors."""
    operator, materials = operator_of(case), prepare(case)
    rules = tolerances.load()
    with quiet():
        say("computing both, and float64")
        reference = Reference(operator, materials, "forward")
        refine(reference, "float64")
        outcomes = [side.run(operator, materials) for side in sides]
        tensors = [_first(outcome) for outcome in outcomes]
        if tensors[0].shape != tensors[1].shape:
            two = " and ".join(
                f"{list(t.shape)} of {side.name}" for t, side in zip(tensors, sides, strict=True)
            )
            raise UsageError(f"results of two shapes, {two}, are not compared")
        judged = [
            side.judged(operator, outcome, reference, rules)
            for side, outcome in zip(sides, outcomes, strict=True)
        ]
        ratio = _ratio(case, operator, materials, sides, tensors)
        orders = []
        for side in sides:
            say(f"asking {side.name} for the order of its sums")
            orders.append(side.orders(operator, materials))
    plainly = ""
    if any(not judgment.verdict.passes for judgment in judged):
        given = reference.arguments.tensors
        called = [*names, *(f"argument {i + 1}" for i in range(len(names), len(given)))]
        plainly = plain_difference(
            tensors[0], tensors[1], (sides[0].name, sides[1].name),
            dict(zip(called, given, strict=False)),
        )  # fmt: skip
    algorithms = None
    # The error of a sum that cancels is no number of ulp: its budget says more.
    if reference.model.magnitude != "products" and not sums_are_known(operator, materials):
        expected = reference.outputs[0].tensor
        assert expected is not None
        given = reference.arguments.tensors
        called = [*names, *(f"argument {i + 1}" for i in range(len(names), len(given)))]
        algorithms = two_algorithms(
            tensors, expected, case.dtype, dict(zip(called, given, strict=False)),
            (sides[0].name, sides[1].name),
        )  # fmt: skip
    gap, differing = _gap(*tensors), int((~_same(*tensors)).sum())
    shapes = tuple(tuple(t.shape) for t in reference.arguments.tensors)
    return Account(
        operator, case, sides, shapes, gap.numel(), differing,
        float(gap.max()) if gap.numel() else 0.0, (judged[0], judged[1]),
        (orders[0], orders[1]), ratio, plainly=plainly, algorithms=algorithms,
    )  # fmt: skip


def _first(outcome: Any) -> torch.Tensor:
    tensor = outcome.outputs[0].tensor
    assert isinstance(tensor, torch.Tensor)
    return tensor


def _ratio(
    case: Case,
    operator: Operator,
    materials: Any,
    sides: Sequence[Side],
    tensors: Sequence[torch.Tensor],
) -> float:
    """The RMS difference in the case's dtype over that in float64 on the same data."""
    if (
        case.dtype not in FORMATS
        or case.dtype == "float64"
        or any(side.backend.unsupported(operator, "float64", "forward") for side in sides)
    ):
        return math.nan
    rms = float(_gap(*tensors).square().mean().sqrt())
    outcomes = [side.backend.run(operator, materials, dtype="float64") for side in sides]
    if any(not outcome.ok for outcome in outcomes):
        return math.nan
    float64_tensors = [_first(outcome) for outcome in outcomes]
    float64_rms = float(_gap(*float64_tensors).square().mean().sqrt())
    return rms / float64_rms if float64_rms > 0 else math.inf if rms > 0 else math.nan


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Equal numbers; NaN is NaN."""
    return (a == b) | ((a != a) & (b != b))


def _gap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Absolute differences in float64; 0 where equal, including equal infinities."""
    wide_dtype = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    return torch.where(_same(a, b), 0.0, (a.to(wide_dtype) - b.to(wide_dtype)).abs())


def _threshold(
    account_: Account, plan: SweepPlan, sides: Callable[[Mapping[str, int]], tuple[Side, Side]],
    sizes: Mapping[str, int], dtype: str,
    seed: int, name: str,
) -> Threshold:  # fmt: skip
    """The threshold predicted from the trees and checked at both sizes around it; bisected if the
    prediction is wrong."""

    def share(size: int) -> float:
        all_sizes = {**sizes, name: size}
        case = plan.case(dtype, all_sizes, seed)
        operator, materials = operator_of(case), prepare(case)
        with quiet():
            a, b = (side.tensor(operator, materials) for side in sides(all_sizes))
        return float((~_same(a, b)).double().mean())

    predicted = predict(account_.orders)
    if predicted and not share(predicted):
        beyond = share(predicted + 1)
        if beyond:
            return Threshold(name, predicted, predicted, beyond)
    if account_.elements < FEW:
        return Threshold(name, predicted, 0)  # equal bits would be luck
    low, high = 0, sizes[name]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if share(middle) else (middle, high)
    return Threshold(name, predicted, low, share(low + 1))


def predict(orders: tuple[Orders, Orders]) -> int:
    """The number of terms up to which both trees add in the same order; 0 if they predict no
    limit."""
    orders_a, orders_b = (recovered.orders for recovered in orders)
    if (
        len(orders_a) != 1
        or len(orders_b) != 1
        or not all(recovered.exact for recovered in orders)
        or orders_a[0].manner != orders_b[0].manner
    ):
        return 0
    if orders_a[0].tree.leaves != orders_b[0].tree.leaves:
        return 0
    terms = agreement(orders_a[0].tree, orders_b[0].tree)
    return terms if terms < orders_a[0].tree.terms else 0
