"""What is established of a difference: how large it is, whether it is rounding, whether orders of
summation explain all of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...backends.base import Backend
from ...core.dtypes import FORMATS
from ...core.model import Case
from ...diagnose.diagnosis import DiagnosisBudget
from ...diagnose.evaluation import evaluate
from ...errors import UsageError
from ...generate.calls.case_operator import operator_of
from ...generate.materialize import prepare
from ...judge import tolerances
from ...judge.judge import Judgment
from ...operators.declare import HALF, Operator
from ...reference import Reference, quiet
from ...reference.high_precision import refine
from ..summation.orders import Orders
from ..summation.trees import agreement
from ..sweep.expressions import compiled
from ..sweep.plans import SweepPlan
from .compared_sides import Side, by_formula
from .fingerprints import of_operator, words
from .properties import confirmation

FEW = 64  # elements, of which some would agree by chance


@dataclass(frozen=True)
class Threshold:
    """Up to which size both agree: ``predicted`` by the trees (0: they predict nothing), and
    ``measured`` (0: not looked for).

    ``beyond`` is the share of elements that differ at the next size.
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
    """A and B on one case: ``differing`` of ``elements`` differ, by ``apart`` at most; ``judged``
    and ``orders`` of each side.

    ``ratio`` is the RMS difference here over that in float64 (nan: not compared, inf: no difference
    there). ``properties`` are sentences on what else differs in how both compute, where orders do
    not explain all.
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

    @property
    def explained(self) -> bool:
        """Whether every output of both sides came out bit for bit when the recovered orders were
        replayed on the case's data."""
        return all(orders.exact and not orders.untested for orders in self.orders)

    @property
    def replayed(self) -> int:
        """Outputs that came out bit for bit on both sides."""
        return min(orders.equal for orders in self.orders)

    @property
    def rounding(self) -> bool:
        return all(found.verdict.passes for found in self.judged)


def of_formula(
    plan: SweepPlan, formula: str, backend: Backend, sizes: Mapping[str, int], dtype: str, *,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Account:  # fmt: skip
    """An operator and a formula of its arguments, on one backend. Raises UsageError."""
    sizes = {**plan.usual, **sizes}
    ready = compiled(formula, [*plan.arguments, *plan.usual])
    short = plan.operator.rpartition(".")[2]

    def sides(whole: Mapping[str, int]) -> tuple[Side, Side]:
        name = f"F.{short}" if plan.operator.startswith("nn.functional.") else short
        return Side(name, backend), by_formula(formula, backend, ready, plan.arguments, whole)

    found = account(plan.case(dtype, sizes, seed), sides(sizes), say=say)
    if found.differing and not found.explained and dtype in HALF:
        found = replace(found, properties=_roundings(found))
    name = plan.vary.partition("=")[0]
    if found.differing and name in ("K", "N") and found.orders[0].orders:
        say(f"looking for the smallest {name} at which they differ")
        threshold = _threshold(found, plan, sides, sizes, dtype, seed, name)
        found = replace(found, threshold=threshold)
    return found


def _roundings(found: Account) -> tuple[str, ...]:
    """``x @ W.T + b rounds 2 times to float16 (mm, add), F.linear once (addmm)``, where they do not
    round alike."""
    materials = prepare(found.case)
    with quiet():
        steps = [side.roundings(found.operator, materials) for side in found.sides]
    if not all(steps) or len(steps[0]) == len(steps[1]):
        return ()
    told = [
        (
            f"{side.name} rounds {_TIMES.get(len(names), f'{len(names)} times')} on its way "
            f"({', '.join(names)})"
        )
        for side, names in zip(found.sides, steps, strict=True)
    ]
    return (f"{told[0]}; {told[1]}",)


_TIMES = {1: "once", 2: "twice"}


def of_case(
    case: Case, left: Backend, right: Backend, say: Callable[[str], None] = lambda text: None
) -> Account:
    """One case on two backends. Raises UsageError."""
    found = account(case, (Side(left.name, left), Side(right.name, right)), say=say)
    if found.explained or not found.differing:
        return found
    told = [words(d) for d in of_operator(case.operator, case.dtype, left, right, say)]
    told = [f"{left.name} → {right.name}: {text}" for text in told]
    for backend, judged in zip((left, right), found.judged, strict=True):
        if judged.verdict.fails:
            say(f"looking for the cause on {backend.name}")
            (result,) = evaluate(
                case,
                [backend],
                tolerances.load(),
                directions=("forward",),
                diagnosis_budget=DiagnosisBudget(),
            )
            told += [f"{backend.name}: {result.explanation}", confirmation(result, backend)]
    return replace(found, properties=tuple(text for text in told if text))


def account(
    case: Case, sides: tuple[Side, Side], say: Callable[[str], None] = lambda text: None
) -> Account:
    """Run both, compare, judge, recover both orders, replay them."""
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
    gap, differing = _gap(*tensors), int((~_same(*tensors)).sum())
    shapes = tuple(tuple(t.shape) for t in reference.arguments.tensors)
    return Account(
        operator, case, sides, shapes, gap.numel(), differing,
        float(gap.max()) if gap.numel() else 0.0, (judged[0], judged[1]),
        (orders[0], orders[1]), ratio,
    )  # fmt: skip


def _first(outcome: Any) -> torch.Tensor:
    found = outcome.outputs[0].tensor
    assert isinstance(found, torch.Tensor)
    return found


def _ratio(
    case: Case,
    operator: Operator,
    materials: Any,
    sides: Sequence[Side],
    tensors: Sequence[torch.Tensor],
) -> float:
    """The RMS difference in the case's dtype, over the one in float64 on the same numbers."""
    if (
        case.dtype not in FORMATS
        or case.dtype == "float64"
        or any(side.backend.unsupported(operator, "float64", "forward") for side in sides)
    ):
        return math.nan
    here = float(_gap(*tensors).square().mean().sqrt())
    outcomes = [side.backend.run(operator, materials, dtype="float64") for side in sides]
    if any(not outcome.ok for outcome in outcomes):
        return math.nan
    wide = [_first(outcome) for outcome in outcomes]
    there = float(_gap(*wide).square().mean().sqrt())
    return here / there if there > 0 else math.inf if here > 0 else math.nan


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Equal numbers; NaN is NaN."""
    return (a == b) | ((a != a) & (b != b))


def _gap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """How far apart, in float64; 0 where equal (two infinities, too)."""
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    return torch.where(_same(a, b), 0.0, (a.to(wide) - b.to(wide)).abs())


def _threshold(
    found: Account, plan: SweepPlan, sides: Callable[[Mapping[str, int]], tuple[Side, Side]],
    sizes: Mapping[str, int], dtype: str,
    seed: int, name: str,
) -> Threshold:  # fmt: skip
    """Predicted from the trees, then looked at just below and above; searched for where the
    prediction is wrong."""

    def share(size: int) -> float:
        whole = {**sizes, name: size}
        case = plan.case(dtype, whole, seed)
        operator, materials = operator_of(case), prepare(case)
        with quiet():
            a, b = (side.tensor(operator, materials) for side in sides(whole))
        return float((~_same(a, b)).double().mean())

    predicted = predict(found.orders)
    if predicted and not share(predicted):
        beyond = share(predicted + 1)
        if beyond:
            return Threshold(name, predicted, predicted, beyond)
    if found.elements < FEW:
        return Threshold(name, predicted, 0)  # equal bits would be luck
    low, high = 0, sizes[name]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if share(middle) else (middle, high)
    return Threshold(name, predicted, low, share(low + 1))


def predict(orders: tuple[Orders, Orders]) -> int:
    """The number of terms up to which both add alike, as far as their trees go; 0 where they do not
    tell."""
    one, other = (found.orders for found in orders)
    if (
        len(one) != 1
        or len(other) != 1
        or not all(found.exact for found in orders)
        or one[0].manner != other[0].manner
    ):
        return 0
    if one[0].tree.leaves != other[0].tree.leaves:
        return 0
    terms = agreement(one[0].tree, other[0].tree)
    return terms if terms < one[0].tree.terms else 0
