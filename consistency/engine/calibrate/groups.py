"""Summaries of the observations of one kind (operator × dtype × direction × backend)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ...judge.rule_values import Rule
from .needs import Demands
from .observe import Fate, Observation

FEWEST = 5  # planted faults from which a share is meaningful
DECISIVE = ("16 ulp in all", "TF32")  # the faults that a rule should detect
_MAX_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class Kind:
    """What one rule applies to: operator, dtype, direction, backend."""

    operator: str
    dtype: str
    direction: str
    backend: str


@dataclass(slots=True)
class Share:
    """How often a fault was planted and detected, and what hid it otherwise."""

    planted: int = 0
    detected: int = 0
    hidden_by: Counter[str] = field(default_factory=Counter)
    missed: list[Demands] = field(default_factory=list)

    def add(self, fate: Fate) -> None:
        self.planted += 1
        if fate.hidden_by:
            self.hidden_by[fate.hidden_by] += 1
            self.missed.append(fate.demands)
        else:
            self.detected += 1

    def merge(self, other: Share) -> None:
        self.planted += other.planted
        self.detected += other.detected
        self.hidden_by += other.hidden_by
        self.missed += other.missed

    @property
    def value(self) -> float:
        """Detected faults over planted ones; NaN if none was planted."""
        return self.detected / self.planted if self.planted else math.nan

    def at(self, c: float, lam: float) -> float:
        """A lower bound of the share that smaller c and λ would detect; NaN if no fault was
        planted."""
        more = sum(not demands.met(c, lam) for demands in self.missed)
        return (self.detected + more) / self.planted if self.planted else math.nan


class FaultShares(defaultdict[str, Share]):
    """Shares by name of the fault."""

    def __init__(self) -> None:
        super().__init__(Share)

    def merge(self, others: dict[str, Share]) -> None:
        for name, share in others.items():
            self[name].merge(share)

    def poorest(self) -> float:
        """The smallest share among the decisive faults; 1 where too few were planted."""
        return min((self[name].value for name in self.decisive()), default=1.0)

    def poorest_at(self, c: float, lam: float) -> float:
        """The same for other c and λ."""
        return min((self[name].at(c, lam) for name in self.decisive()), default=1.0)

    def decisive(self) -> list[str]:
        return [name for name in DECISIVE if name in self and self[name].planted >= FEWEST]


def total(groups: Iterable[ObservationGroup]) -> FaultShares:
    """The combined shares of several groups."""
    shares = FaultShares()
    for group in groups:
        shares.merge(group.shares)
    return shares


@dataclass
class ObservationGroup:
    """All results of one kind. ``rho`` is the largest × budget of a healthy result, ``worst`` the
    id of its case; ``demands`` are those of all results, ``rhos`` their × budgets."""

    kind: Kind
    family: str
    rule: Rule
    stand_in: bool = False
    results: int = 0
    rho: float = 0.0
    worst: str = ""
    failing: int = 0
    problems: list[tuple[str, str]] = field(default_factory=list)
    demands: Demands = field(default_factory=Demands)
    rhos: list[float] = field(default_factory=list)
    shares: FaultShares = field(default_factory=FaultShares)

    def add(self, one: Observation) -> None:
        for fault, fate in one.planted.items():
            self.shares[fault].add(fate)
        if one.problem and len(self.problems) < _MAX_PROBLEMS:
            self.problems.append((one.case.id, one.problem))
        if one.demands is None:
            return
        self.results += 1
        self.rhos.append(one.rho)
        self.demands.add(one.demands)
        self.failing += one.rho > 1.0
        if one.rho > self.rho:
            self.rho, self.worst = one.rho, one.case.id

    @property
    def margin(self) -> float:
        """The factor by which c and λ could both be divided; below 1 they are too small, infinity
        where all results are correctly rounded."""
        factor = self.demands.factor(self.rule.c, self.rule.lam)
        return 1.0 / factor if factor > 0.0 else math.inf

    def quantile(self, share: float) -> float:
        """The × budget that this share of the healthy results does not exceed."""
        ordered = sorted(self.rhos)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    @property
    def needed(self) -> tuple[float, float]:
        """(smallest c at the present λ, smallest λ at the present c)."""
        return self.demands.c(self.rule.lam), self.demands.lam(self.rule.c)


def joined(groups: Sequence[ObservationGroup]) -> ObservationGroup:
    """One group that replaces several, with the kind and the rule of the first."""
    one = ObservationGroup(groups[0].kind, groups[0].family, groups[0].rule, groups[0].stand_in)
    for group in groups:
        one.results += group.results
        one.failing += group.failing
        one.problems += group.problems
        one.rhos += group.rhos
        one.demands.add(group.demands)
        one.shares.merge(group.shares)
        if group.rho > one.rho:
            one.rho, one.worst = group.rho, group.worst
    backends = ", ".join(dict.fromkeys(group.kind.backend for group in groups))
    dtypes = ", ".join(dict.fromkeys(group.kind.dtype for group in groups))
    one.kind = replace(groups[0].kind, backend=backends, dtype=dtypes)
    return one
