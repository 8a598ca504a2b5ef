"""The failures of a run in groups of operator × backend × cause, so that neither a backend nor a
fault hides another."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..core.model import Result, kind
from ..core.verdict import VerdictKind
from ..diagnose.cause_vote import CauseVotes, Elected, pool_of, wrong_elements


class FailureKey(NamedTuple):
    """The failures of which one, the worst, is kept: those that vote together
    (:func:`~consistency.diagnose.cause_vote.pool_of`), by dtype, verdict and cause."""

    pool: tuple[str, ...]
    dtype: str
    verdict: str
    cause: str

    @staticmethod
    def of(result: Result) -> FailureKey:
        return FailureKey(pool_of(result), result.dtype, result.verdict.value, result.cause)


def severity(result: Result) -> float:
    """ρ, or infinity without one (wrong shape, exception, misplaced NaN)."""
    return result.metrics.get("rho_max", math.inf)


def without_cause(sentence: str, cause: str) -> str:
    """An explanation without the words of its own cause."""
    for piece, left in ((f": {cause}; ", ": "), (f"; {cause}", ""), (f": {cause}", "")):
        sentence = sentence.replace(piece, left, 1)
    return sentence


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """The failures of one operator on one backend with one cause, or with one verdict and no cause.

    ``results`` holds the worst *drawn* result of each of ``keys``, those with the elected cause
    first, the worst of these leading; ``smallest`` is the result of a minimized case, whose numbers
    are never shown beside those of a drawn one.
    """

    elected: Elected
    keys: tuple[FailureKey, ...]
    results: tuple[Result, ...]
    smallest: Result | None = None

    @property
    def worst(self) -> Result:
        """The worst drawn result with the elected cause."""
        return self.results[0]

    @property
    def shown(self) -> Result:
        """The result whose numbers and call a person looks at: the smallest, else the worst."""
        return self.smallest or self.worst

    @property
    def operator(self) -> str:
        return self.keys[0].pool[0]

    @property
    def backend(self) -> str:
        return self.keys[0].pool[1]

    @property
    def cases(self) -> int:
        """How many drawn cases fail so."""
        return self.elected.cases

    @property
    def headed(self) -> Result:
        """The worst result, for headlines: without its own cause where that is not the elected
        one."""
        evidence = self.worst.evidence
        if evidence is None or self.worst.cause == self.elected.name:
            return self.worst
        text = without_cause(self.worst.explanation, str(evidence.cause))
        evidence = replace(evidence, cause=self.elected.cause)
        return replace(self.worst, evidence=evidence, explanation=text)

    @property
    def order(self) -> tuple[bool, float, float]:
        """Sort key: a fault that many elements show leads; what is wrong forward makes gradients
        wrong, too."""
        weight = self.elected.weight
        forward = any(key.pool[2] == "forward" for key in self.keys)
        leads = forward and (weight >= 1.0 or self.elected.cause is not None)
        return leads, weight, severity(self.worst)


@dataclass(slots=True)
class Failures:
    """All failures of a run: their votes, the worst drawn result and the minimized one of each key;
    ``cases`` counts by :func:`~consistency.core.model.kind`."""

    worst: dict[FailureKey, Result] = field(default_factory=dict)
    smallest: dict[FailureKey, Result] = field(default_factory=dict)
    cases: Counter[tuple[str, ...]] = field(default_factory=Counter)
    _votes: dict[tuple[str, ...], CauseVotes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.worst)

    @property
    def operators(self) -> set[str]:
        """The operators that fail."""
        return {key.pool[0] for key in self.worst}

    def add(self, result: Result) -> FailureKey | None:
        """Count a failing result; its key, if it is the worst of its key so far."""
        key = FailureKey.of(result)
        self._votes.setdefault(key.pool, CauseVotes()).add(result)
        self.cases[kind(result)] += 1
        known = self.worst.get(key)
        rho = result.metrics.get("rho_max", 0.0)
        if known is not None and rho <= known.metrics.get("rho_max", 0.0):
            return None
        self.worst[key] = result
        return key

    def shrunk(self, result: Result) -> FailureKey:
        """Keep a minimized result; its key."""
        key = FailureKey.of(result)
        self.smallest[key] = result
        return key

    def by_operator(self) -> list[list[FailureGroup]]:
        """The groups as one list per operator: the operators with the worst failure first, of each
        the groups with the most evidence first."""
        operators: dict[str, list[FailureGroup]] = defaultdict(list)
        for group in self.groups():
            operators[group.operator].append(group)
        for groups in operators.values():
            groups.sort(key=lambda group: group.order, reverse=True)

        def weight(groups: list[FailureGroup]) -> tuple[float, float]:
            # A measurement on all cases has no size of its own; of operators that fail without a
            # number, who errs most with one.
            results = [result for group in groups for result in group.results]
            sizes = [0.0 if _is_measured(result) else severity(result) for result in results]
            return max(sizes), max(r.metrics.get("rho_max", 0.0) for r in results)

        return sorted(operators.values(), key=weight, reverse=True)

    def groups(self) -> list[FailureGroup]:
        """The groups of all operators, in order of appearance."""
        pools: dict[tuple[str, ...], list[FailureKey]] = defaultdict(list)
        for key in self.worst:
            pools[key.pool].append(key)
        found: dict[tuple[str, ...], list[FailureGroup]] = {}
        measured: list[FailureKey] = []
        for pool, keys in pools.items():
            if all(_is_undiagnosed(self.worst[key]) for key in keys):
                measured += keys
                continue
            for group in self._groups_of(pool, keys):
                operator, backend, _, verdict = pool
                name = group.elected.name or f"/{verdict}"
                found.setdefault((operator, backend, name), []).append(group)
        return self._with_measured(list(map(_merged, found.values())), measured)

    def _groups_of(self, pool: tuple[str, ...], keys: list[FailureKey]) -> list[FailureGroup]:
        elected = self._votes[pool].elect()
        names = [one.name for one in elected]
        members: list[list[FailureKey]] = [[] for _ in elected]
        for key in keys:
            members[names.index(key.cause) if key.cause in names else 0].append(key)
        groups = []
        for one, alike in zip(elected, members, strict=True):
            alike.sort(
                key=lambda key: (key.cause == one.name, severity(self.worst[key])), reverse=True
            )
            if alike:
                small = [self.smallest.get(key._replace(cause=one.name)) for key in alike]
                smallest = next((result for result in small if result is not None), None)
                groups.append(FailureGroup(one, tuple(alike), self._results(alike), smallest))
        return groups

    def _results(self, keys: list[FailureKey]) -> tuple[Result, ...]:
        return tuple(self.worst[key] for key in keys)

    def _with_measured(
        self, groups: list[FailureGroup], keys: list[FailureKey]
    ) -> list[FailureGroup]:
        """What was not diagnosed joins the strongest group of its operator and backend, whose fault
        it shows once more; without one it is a group."""
        for key in keys:
            alike = [group for group in groups if group.keys[0].pool[:2] == key.pool[:2]]
            if alike:
                group = max(alike, key=lambda group: group.order)
                groups[groups.index(group)] = replace(
                    group, keys=(*group.keys, key), results=(*group.results, self.worst[key])
                )
            else:
                result = self.worst[key]
                count = self.cases[kind(result)]
                groups.append(FailureGroup(Elected(None, 0, count, 0.0), (key,), (result,)))
        return groups


def _is_undiagnosed(result: Result) -> bool:
    """Whether nobody looked for its cause: a measurement on all cases of an operator, or numbers
    of a recording that was judged without a diagnosis."""
    if result.comparison is None:
        return _is_measured(result)
    return result.evidence is None and wrong_elements(result) > 0


def _is_measured(result: Result) -> bool:
    """Whether it is a measurement on all cases of an operator."""
    return result.comparison is None and result.verdict.kind is VerdictKind.PRECISION_SCALING


def _merged(groups: list[FailureGroup]) -> FailureGroup:
    """Forward and backward, or several verdicts, of one cause."""
    if len(groups) == 1:
        return groups[0]
    groups = sorted(groups, key=lambda group: group.order, reverse=True)
    first = groups[0]
    votes = [group.elected for group in groups]
    elected = Elected(
        first.elected.cause,
        sum(one.agreeing for one in votes),
        sum(one.cases for one in votes),
        sum(one.weight for one in votes),
    )
    keys = tuple(key for group in groups for key in group.keys)
    results = tuple(result for group in groups for result in group.results)
    smallest = next((group.smallest for group in groups if group.smallest is not None), None)
    return FailureGroup(elected, keys, results, smallest)
