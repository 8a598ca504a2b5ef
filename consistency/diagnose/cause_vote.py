"""The cause of many failing cases, by vote: of one operator, backend and kind of failure.

Each failing case votes for the causes that explain its error. Its weight is the number of its
wrong elements, 16 of which count in full: a hypothesis that is true of one number only by chance
is true of sixteen by chance far less often. A cause found by an experiment (another layout, a
repeat) counts in full. Cases without a cause abstain, and are counted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..core.model import Cause, Result

WHOLE_CASE = 16  # wrong elements from which a case's vote counts in full
# Of the weight of one whole case: six wrong elements in all, the number above which an
# attribution does not ask for an explanation to the last bit.
MIN_WEIGHT = 6.0 / WHOLE_CASE
MIN_SHARE_OF_VOTES = 0.1  # of the votes of a kind; a cause with less has no group of its own
EXPERIMENTS = frozenset(
    {
        "nondeterministic", "input-modified", "depends-on-layout", "depends-on-batch",
        "depends-on-position",
    }
)  # fmt: skip
# These faults would change every case alike: one that explains less than half of the votes is a
# coincidence of some cases.
_UNCONDITIONAL = frozenset(
    {
        "zero", "negated", "scaled", "offset-added", "tf32-inputs", "bfloat16-inputs",
        "float16-inputs", "bfloat16x3-inputs",
    }
)  # fmt: skip
# What an experiment shows is more general than a hypothesis: its ballot admits these as well.
_SPECIAL_FORMS = {
    "depends-on-layout": ("strides-ignored", "offset-ignored"),
    "early-overflow": ("no-max-shift",),
}


@dataclass(frozen=True, slots=True)
class Ballot:
    """What a failing case votes for: the id of its cause (empty: none), those that explain its
    error as well, and the weight (0 … 1)."""

    cause: str
    rivals: tuple[str, ...]
    weight: float

    @property
    def named(self) -> tuple[str, ...]:
        """All ids that this case admits."""
        special = _SPECIAL_FORMS.get(self.cause, ())
        return (self.cause, *self.rivals, *special) if self.cause else ()


@dataclass(frozen=True, slots=True)
class Elected:
    """A cause and its votes: ``agreeing`` of ``cases`` failing cases; ``weight`` is theirs.
    ``cause`` is None where no vote is reliable."""

    cause: Cause | None
    agreeing: int
    cases: int
    weight: float

    @property
    def name(self) -> str:
        return self.cause.name if self.cause is not None else ""

    def __str__(self) -> str:
        """``one-pass variance explains 100%: 17 of 22 cases``; of a single case, its cause."""
        if self.cause is None:
            return ""
        count = f": {self.agreeing:,} of {self.cases:,} cases" if self.cases > 1 else ""
        return f"{self.cause}{count}"


def pool_of(result: Result) -> tuple[str, ...]:
    """Operator, backend, direction and first verdict: the failures that vote together."""
    evidence = result.evidence
    verdict = evidence.initial_verdict if evidence is not None else result.verdict.value
    return result.operator, result.backend, result.direction, verdict


def wrong_elements(result: Result) -> int:
    """The number of elements that differ from the reference in the output that fails."""
    outputs = result.comparison.outputs if result.comparison is not None else ()
    counts = [
        max(sum(output.special.values()), 0 if output.special else output.differing)
        for output in outputs
        if output.name == result.output or not result.output
    ]
    return max(counts, default=0)


def ballot_of(result: Result) -> Ballot:
    """The vote of a failing result; one whose failure is not of numbers counts in full, one that
    was not diagnosed not at all."""
    if result.evidence is None and wrong_elements(result):
        return Ballot("", (), 0.0)
    rivals = result.evidence.rivals if result.evidence is not None else ()
    count = wrong_elements(result)
    is_whole = result.cause in EXPERIMENTS or (not count and result.comparison is not None)
    return Ballot(result.cause, rivals, 1.0 if is_whole else min(count, WHOLE_CASE) / WHOLE_CASE)


@dataclass(slots=True)
class CauseVotes:
    """The votes of one pool. Equal ballots are counted, not kept."""

    counts: Counter[Ballot] = field(default_factory=Counter)
    best: dict[str, Cause] = field(default_factory=dict)  # by id, from the heaviest ballot
    _heaviest: dict[str, float] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        """Count a failing result."""
        ballot = ballot_of(result)
        self.counts[ballot] += 1
        if result.evidence is not None and result.evidence.cause is not None:
            cause = result.evidence.cause
            if ballot.weight > self._heaviest.get(cause.name, -1.0):
                self._heaviest[cause.name] = ballot.weight
                self.best[cause.name] = cause

    def elect(self) -> list[Elected]:
        """The causes of the pool, the strongest first; the first one counts all cases, so that
        those without a cause, and those with one of too little weight, are among its cases.

        The winner has the largest weight of ballots that admit it; of equal ones that which is
        most often the first choice. The ballots that admit it are then settled, and the others
        may elect another.
        """
        total = sum(self.counts.values())
        weight = sum(ballot.weight * count for ballot, count in self.counts.items())
        remaining = dict(self.counts)
        found: list[Elected] = []
        while (name := _winner(remaining, self.best, weight)) is not None:
            admitted = {b: n for b, n in remaining.items() if name in b.named}
            votes = sum(b.weight * n for b, n in admitted.items())
            if votes < MIN_WEIGHT or (found and votes < MIN_SHARE_OF_VOTES * weight):
                break
            found.append(Elected(self.best[name], sum(admitted.values()), 0, votes))
            remaining = {b: n for b, n in remaining.items() if name not in b.named}
        if not found:
            return [Elected(None, 0, total, weight)]
        others = sum(elected.agreeing for elected in found[1:])
        first = Elected(found[0].cause, found[0].agreeing, total - others, found[0].weight)
        return [first, *(Elected(e.cause, e.agreeing, e.agreeing, e.weight) for e in found[1:])]


def _winner(ballots: dict[Ballot, int], best: dict[str, Cause], total: float) -> str | None:
    """The id that the heaviest ballots admit; None where no ballot names a cause."""
    admitted: dict[str, float] = defaultdict(float)
    chosen: dict[str, float] = defaultdict(float)
    for ballot, count in ballots.items():
        for name in set(ballot.named):
            admitted[name] += ballot.weight * count
        chosen[ballot.cause] += ballot.weight * count
    names = [
        name
        for name in best
        if admitted[name] > 0.0 and not (name in _UNCONDITIONAL and 2.0 * admitted[name] <= total)
    ]
    return max(names, key=lambda name: (admitted[name], chosen[name]), default=None)


def representative(results: Sequence[Result]) -> Result:
    """The first of failing results of one pool that has the elected cause, with this cause; where
    none is elected, the first without a cause, or without the one that it had."""
    votes = CauseVotes()
    for result in results:
        votes.add(result)
    cause = votes.elect()[0].cause
    name = cause.name if cause is not None else ""
    first = next((result for result in results if result.cause == name), None)
    if first is not None:
        return first
    first = next((r for r in results if name and name in ballot_of(r).named), results[0])
    evidence = first.evidence
    return first if evidence is None else replace(first, evidence=replace(evidence, cause=cause))
