"""Healthy results, and the same results with planted faults: every case passes through the real
comparison and the real judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ... import backends as _backends
from ...backends.base import Backend
from ...backends.cpu import Cpu
from ...core.dtypes import FORMATS
from ...core.model import Case, Comparison, Outcome
from ...generate.materialize import prepare
from ...judge.compare import compare
from ...judge.judge import judge
from ...judge.judgment import Judgment
from ...judge.known import Occasion
from ...judge.rule_values import Policy, Rule
from ...operators.declare import Operator
from ...reference import Reference, quiet
from ...reference.high_precision import refine
from ..config import RunConfig, directions_of, operator_dtypes
from ..engine import draw
from .faults import planted
from .needs import LEAST_C, Demands, demands

_CPU = Cpu()


@dataclass(frozen=True)
class CalibrationPlan:
    """What is calibrated: ``settings`` as for a run, for each of ``seeds``. ``stand_ins`` are
    backends that this machine lacks: their rules judge the CPU's results, so that their entries are
    scored too. ``more`` are further cases, taken unchanged if their operator and dtype are
    chosen."""

    config: RunConfig
    seeds: tuple[int, ...] = (0, 1, 2)
    stand_ins: tuple[str, ...] = ()
    more: tuple[Case, ...] = ()

    @property
    def pairs(self) -> list[tuple[Operator, str]]:
        """The operator × dtype pairs; integers and booleans are judged exactly and have neither c
        nor λ."""
        return [
            (operator, dtype)
            for operator, dtype in operator_dtypes(self.config)
            if dtype in FORMATS
        ]

    @property
    def cases(self) -> int:
        """The approximate number of cases to draw."""
        return len(self.pairs) * self.config.examples * len(self.seeds)


@dataclass(frozen=True, slots=True)
class Fate:
    """The outcome of a planted fault: ``hidden_by`` is empty if it was detected, else ``c``,
    ``lambda``, ``both``, ``absolute``, ``ranges``, ``vacuous`` or ``neither``. ``demands`` then
    describes the c and λ that would detect it: those that do not meet the demands."""

    hidden_by: str = ""
    demands: Demands = field(default_factory=Demands)


@dataclass(frozen=True, slots=True)
class Observation:
    """One healthy result. ``rho`` is its × budget, ``demands`` what it needs of c and λ (None: it
    says nothing about them). ``planted`` maps each fault tried on it to its fate. ``problem`` is
    set if it fails for a reason that no c and λ can fix."""

    case: Case
    family: str
    direction: str
    backend: str
    rule: Rule
    rho: float
    demands: Demands | None
    explanation: str
    fails: bool = False
    problem: str = ""
    stand_in: bool = False
    planted: Mapping[str, Fate] = field(default_factory=dict)


def observations(plan: CalibrationPlan) -> Iterator[tuple[Case, list[Observation]]]:
    """The observations of each case (possibly none)."""
    chosen = plan.config
    present = [b for b in chosen.backends if not _backends.availability(b)]
    for operator, dtype in plan.pairs:
        directions = directions_of(chosen, operator, dtype)
        for seed in plan.seeds:
            selected = [
                case
                for case in plan.more
                if (case.operator, case.dtype) == (operator.name, dtype) and seed == plan.seeds[0]
            ]
            for case in [*draw(operator, dtype, chosen.examples, seed)[0], *selected]:
                try:
                    observed = list(_observed(case, operator, present, directions, plan))
                except Exception:  # as in a run, one case that fails must not end the calibration
                    observed = []
                yield case, observed


def _observed(
    case: Case,
    operator: Operator,
    backends: Sequence[Backend],
    directions: Sequence[str],
    plan: CalibrationPlan,
) -> Iterator[Observation]:
    materials = prepare(case)
    with quiet():
        for direction in directions:
            reference = Reference(operator, materials, direction)
            refine(reference)
            if not reference.outcome.ok or operator.error.kind == "structure":
                continue
            baseline = _CPU.run(operator, materials, direction)
            yield from _CaseObserver(
                case, operator, direction, reference, baseline, plan
            ).everywhere(backends)


class _CaseObserver:
    """One case in one direction."""

    def __init__(
        self,
        case: Case,
        operator: Operator,
        direction: str,
        reference: Reference,
        baseline: Outcome,
        plan: CalibrationPlan,
    ) -> None:
        self.case, self.operator, self.direction, self.reference, self.plan = (
            case,
            operator,
            direction,
            reference,
            plan,
        )
        self.baseline, self.twin = baseline, compare(baseline, reference)
        self.tried: dict[tuple[Rule, Policy], Mapping[str, Fate]] = {}

    def everywhere(self, backends: Sequence[Backend]) -> Iterator[Observation]:
        for backend in backends:
            if _backends.refusal(backend, self.operator, self.case.dtype, self.direction):
                continue
            plain = isinstance(backend, Cpu) and not backend.switched
            outcome = (
                self.baseline
                if plain
                else backend.run(self.operator, self.reference.materials, self.direction)
            )
            if outcome.ok:
                comparison = self.twin if plain else compare(outcome, self.reference, self.baseline)
                yield self._observation(backend.name, backend.identity, outcome, comparison, plain)
        for name in self.plan.stand_ins if self.baseline.ok else ():
            observed = self._observation(name, {}, self.baseline, self.twin, plain=True)
            if (
                observed.rule.place != self._rule("cpu", {}).place
            ):  # else nothing is said of it in particular
                yield replace(observed, stand_in=True)

    def _observation(
        self,
        backend: str,
        identity: Mapping[str, str],
        outcome: Outcome,
        comparison: Comparison,
        plain: bool,
    ) -> Observation:
        rule = self._rule(backend, identity)
        where = {key: identity.get(key, "") for key in ("device", "driver")}
        name, family = self.operator.ruled_by
        policy = self.plan.config.tolerances.policy(
            backend, operator=name, family=family, dtype=self.case.dtype, **where
        )
        judgment = judge(comparison, self.twin, rule, policy)
        rho = judgment.metrics.get("rho_max", 0.0)
        # The CPU has no error against itself, which says nothing about the budget it needs.
        problem, needs = (
            "",
            None if plain and not self.reference.independent else demands(comparison, rule, policy),
        )
        if judgment.verdict.fails and self._is_known(backend, identity, judgment, rho):
            needs = None
        elif judgment.verdict.fails and (rho <= 1.0 or not needs):
            problem, needs = f"{judgment.verdict}: {judgment.explanation}", None
        return Observation(
            self.case, self.operator.family, self.direction, backend, rule, rho, needs,
            judgment.explanation,
            judgment.verdict.fails, problem, False,
            {} if judgment.verdict.fails else self._plant_faults(outcome, judgment, rule, policy),
        )  # fmt: skip

    def _rule(self, backend: str, identity: Mapping[str, str]) -> Rule:
        name, family = self.operator.ruled_by
        return self.plan.config.tolerances.rule(
            name, self.case.dtype, family=family, direction=self.direction, backend=backend,
            device=identity.get("device", ""), driver=identity.get("driver", ""),
        )  # fmt: skip

    def _is_known(
        self, backend: str, identity: Mapping[str, str], judgment: Judgment, rho: float
    ) -> bool:
        """Whether the file lists this divergence as known; it then says nothing about healthy
        results."""
        occasion = Occasion(self.case, backend, self.direction, identity)
        return (
            occasion.known(self.plan.config.tolerances.expectations, judgment.verdict.value, rho)
            is not None
        )

    def _plant_faults(
        self, outcome: Outcome, healthy: Judgment, rule: Rule, policy: Policy
    ) -> Mapping[str, Fate]:
        """The fate of each fault; tried once for all backends with the same rule."""
        if not healthy.verdict.passes:
            return {}  # inconclusive: no fault of the tolerance
        if (rule, policy) not in self.tried:
            self.tried[rule, policy] = {
                name: self._fate(compare(faulty, self.reference, self.baseline), rule, policy)
                for name, faulty in planted(outcome, self.reference, _CPU)
            }
            return self.tried[rule, policy]
        return {}

    def _fate(self, comparison: Comparison, rule: Rule, policy: Policy) -> Fate:
        verdict = judge(comparison, self.twin, rule, policy).verdict
        if verdict.fails:
            return Fate()
        hidden_by = self._hidden_by(comparison, rule, policy) if verdict.tested else "vacuous"
        return Fate(hidden_by, demands(comparison, rule, policy))

    def _hidden_by(self, comparison: Comparison, rule: Rule, policy: Policy) -> str:
        """The part of the budget that lets the fault pass."""

        def fails(other: Rule) -> bool:
            return judge(comparison, self.twin, other, policy).verdict.fails

        bare = replace(rule, absolute=None)
        if rule.absolute is not None and fails(bare):
            return "absolute"
        if fails(replace(bare, lam=0.0)):
            return "lambda"
        if fails(replace(bare, c=LEAST_C)):
            return "c"
        return (
            "both"
            if fails(replace(bare, c=LEAST_C, lam=0.0))
            else "ranges"
            if rule.ranges
            else "neither"
        )
