"""What the observations add up to: per operator × dtype × direction what is needed, per entry of the file what it notices."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from ..tolerances import Rule
from .needs import Demands
from .observe import Fate, Observation

POOR = 0.5  # of the planted faults: an entry that notices fewer is listed
NARROW = 1.25  # a margin
FEWEST = 5  # planted faults that say something about an entry
DECISIVE = ("16 ulp in all", "TF32")  # the faults that an entry is expected to notice
DTYPE_KEYS = {"float64": "float32"}  # the file's key of a dtype: float64 takes what is said of float32
_MOST_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class Kind:
    """What one rule is asked for: operator, dtype, direction, backend."""

    operator: str
    dtype: str
    direction: str
    backend: str


@dataclass(slots=True)
class Share:
    """How often a fault was planted, how often detected, and what hid it when it was not."""

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
        """Detected of planted; NaN where nothing was planted."""
        return self.detected / self.planted if self.planted else math.nan

    def at(self, c: float, lam: float) -> float:
        """The share that smaller numbers would detect, at the least; NaN where nothing was planted."""
        more = sum(not demands.met(c, lam) for demands in self.missed)
        return (self.detected + more) / self.planted if self.planted else math.nan


class _Shares(defaultdict[str, Share]):
    def __init__(self) -> None:
        super().__init__(Share)

    def merge(self, others: dict[str, Share]) -> None:
        for name, share in others.items():
            self[name].merge(share)

    def poorest(self) -> float:
        """The smallest share among the decisive faults; 1 where too few were planted."""
        return min((self[name].value for name in self.decisive()), default=1.0)

    def poorest_at(self, c: float, lam: float) -> float:
        """The same with other numbers."""
        return min((self[name].at(c, lam) for name in self.decisive()), default=1.0)

    def decisive(self) -> list[str]:
        return [name for name in DECISIVE if name in self and self[name].planted >= FEWEST]


def _total(groups: Iterable[Group]) -> _Shares:
    total = _Shares()
    for group in groups:
        total.merge(group.shares)
    return total


@dataclass
class Group:
    """All results of one kind. ``rho`` is the largest × budget of a healthy result whose ``worst`` case has the id.

    ``demands`` are those of all, ``usual`` the values of ρ in order of appearance, for quantiles.
    """

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
    shares: _Shares = field(default_factory=_Shares)

    def add(self, one: Observation) -> None:
        for fault, fate in one.planted.items():
            self.shares[fault].add(fate)
        if one.problem and len(self.problems) < _MOST_PROBLEMS:
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
        """What c and λ could be divided by together; below 1 they are too small, infinity where all is correctly rounded."""
        factor = self.demands.factor(self.rule.c, self.rule.lam)
        return 1.0 / factor if factor > 0.0 else math.inf

    def quantile(self, share: float) -> float:
        """ρ that this share of the healthy results does not exceed."""
        ordered = sorted(self.rhos)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    @property
    def needed(self) -> tuple[float, float]:
        """(the smallest c at the present λ, the smallest λ at the present c)."""
        return self.demands.c(self.rule.lam), self.demands.lam(self.rule.c)


@dataclass
class Entry:
    """One entry of the file, by its place, and the groups that it judged."""

    place: str
    source: str
    groups: list[Group]

    @property
    def results(self) -> int:
        return sum(group.results for group in self.groups)

    @property
    def rho(self) -> float:
        return max((group.rho for group in self.groups), default=0.0)

    @property
    def margin(self) -> float:
        """The smallest of its groups'; infinity where everything is correctly rounded, or nothing could be said."""
        return min((group.margin for group in self.groups if group.results), default=math.inf)

    @property
    def shares(self) -> _Shares:
        return _total(self.groups)

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(group.kind.operator for group in self.groups))

    @property
    def stand_in(self) -> bool:
        """Whether nothing but a stand-in was judged by it."""
        return all(group.stand_in for group in self.groups)

    def needs(self) -> list[tuple[str, float]]:
        """The share of its budget that each operator needs, the neediest first."""
        found: dict[str, float] = {}
        for group in self.groups:
            found[group.kind.operator] = max(found.get(group.kind.operator, 0.0), 1.0 / group.margin)
        return sorted(found.items(), key=lambda item: -item[1])

    def poor(self) -> list[Group]:
        """The groups that fewer than half of the decisive faults are noticed in, the worst first."""
        found = [group for group in _alike(self.groups) if group.shares.poorest() < POOR]
        return sorted(found, key=lambda group: (group.shares.poorest(), -group.margin))


class Calibration:
    """Everything observed so far, by kind."""

    def __init__(self) -> None:
        self.groups: dict[Kind, Group] = {}

    def add(self, observed: Iterable[Observation]) -> None:
        for one in observed:
            kind = Kind(one.case.operator, one.case.dtype, one.direction, one.backend)
            group = self.groups.get(kind)
            if group is None:
                group = self.groups[kind] = Group(kind, one.family, one.rule, one.stand_in)
            group.add(one)

    @property
    def results(self) -> int:
        return sum(group.results for group in self.groups.values())

    @property
    def shares(self) -> _Shares:
        """Of all faults that were planted into results of backends that are here."""
        return _total(group for group in self.groups.values() if not group.stand_in)

    def entries(self) -> list[Entry]:
        """The entries that judged anything: those too tight first, then by how little they notice, then the tightest."""
        found: dict[str, list[Group]] = defaultdict(list)
        for group in self.groups.values():
            found[group.rule.place].append(group)
        entries = [Entry(place, groups[0].rule.source, groups) for place, groups in found.items()]
        return sorted(entries, key=lambda e: (e.rho <= 1.0, e.shares.poorest(), -e.rho))

    def too_tight(self) -> list[Group]:
        """The groups in which a healthy result is over its budget, the worst first."""
        found = [group for group in self.groups.values() if group.rho > 1.0 and not group.stand_in]
        return sorted(found, key=lambda group: -group.rho)

    def nearly(self) -> list[Group]:
        """The groups that pass with little room (a margin below 1.25), the tightest first."""
        found = [group for group in self.groups.values() if group.rho <= 1.0 and group.margin < NARROW and not group.stand_in]
        return sorted(_alike(found), key=lambda group: group.margin)

    def problems(self) -> Iterator[tuple[Group, str, str]]:
        """Healthy results that fail for what no c and λ can mend: group, case id, what the judge says."""
        for group in self.groups.values():
            if not group.stand_in:
                yield from ((group, case, text) for case, text in group.problems)


def _alike(groups: Sequence[Group]) -> list[Group]:
    """Groups with the same numbers, put together: float64 has float32's, and most backends have the same.

    Faults are planted once for all backends with the same rule, so that one of them alone has the shares.
    """
    merged: dict[tuple[object, ...], list[Group]] = defaultdict(list)
    for group in groups:
        dtype = DTYPE_KEYS.get(group.kind.dtype, group.kind.dtype)
        merged[group.kind.operator, dtype, group.kind.direction, group.stand_in, group.rule.c, group.rule.lam].append(group)
    return [joined(alike) for alike in merged.values()]


def joined(groups: Sequence[Group]) -> Group:
    """One group in place of several; it keeps the kind and the rule of the first."""
    total = Group(groups[0].kind, groups[0].family, groups[0].rule, groups[0].stand_in)
    for group in groups:
        total.results += group.results
        total.failing += group.failing
        total.problems += group.problems
        total.rhos += group.rhos
        total.demands.add(group.demands)
        total.shares.merge(group.shares)
        if group.rho > total.rho:
            total.rho, total.worst = group.rho, group.worst
    backends = ", ".join(dict.fromkeys(group.kind.backend for group in groups))
    dtypes = ", ".join(dict.fromkeys(group.kind.dtype for group in groups))
    total.kind = replace(groups[0].kind, backend=backends, dtype=dtypes)
    return total
