"""What happened to the verdicts of the same cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ....core.text import format_factor
from ..events import EventKind
from .compared_results import ComparedResult, GroupKey, ResultChange

ResultPair = tuple[str, ComparedResult, ComparedResult]  # case, before, after
MAX_LISTED_LOSSES = 5  # groups of a backend that lose their results for one reason, listed singly


def changes(
    groups: Mapping[GroupKey, Sequence[ResultPair]], missing: Iterable[ResultChange] = ()
) -> Iterator[ResultChange]:
    """The changes of each group, with those of groups that are ``absent``; a backend that is gone
    altogether is one."""
    every = [
        *(change for group, pairs in groups.items() for change in _of_group(group, pairs)),
        *missing,
    ]
    lost: defaultdict[tuple[str, str], list[ResultChange]] = defaultdict(list)
    for change in every:
        if change.kind is EventKind.UNTESTED:
            lost[change.group[3], change.words].append(change)
        else:
            yield change
    for (backend, words), alike in lost.items():
        if len(alike) <= MAX_LISTED_LOSSES:
            yield from alike
        else:
            first = max(alike, key=lambda change: change.cases)
            cases, like = sum(c.cases for c in alike), sum(c.like for c in alike)
            yield ResultChange(
                EventKind.UNTESTED,
                ("*", "*", "*", backend),
                cases,
                like,
                first.before,
                0.0,
                words,
                first.case,
                len(alike),
            )


def _of_group(group: GroupKey, pairs: Sequence[ResultPair]) -> Iterator[ResultChange]:
    def make_change(kind: EventKind, chosen: Sequence[ResultPair], words: str = "") -> ResultChange:
        ended = kind in (EventKind.FIXED, EventKind.KNOWN_VANISHED)
        case, old, new = max(chosen, key=lambda pair: (pair[1] if ended else pair[2]).rho)
        return ResultChange(
            kind,
            group,
            len(chosen),
            len(pairs),
            old.rho,
            new.rho,
            words or f"{new.verdict}: {new.explanation}",
            case,
        )

    grown = [p for p in pairs if p[1].known_grew(p[2])]
    worse = [p for p in pairs if p[2].fails and not p[1].fails and p not in grown]
    better = [p for p in pairs if p[1].fails and p[2].passes]
    gone = [p for p in pairs if p[1].verdict == "known" and p[2].passes and not p[1].flaky]
    known = [
        p for p in pairs if p[2].verdict == "known" and p[1].tested and p[1].verdict != "known"
    ]
    lost = _lost(pairs)
    other = [
        p
        for p in pairs
        if p[1].fails and p[2].fails and (p[1].verdict, p[1].cause) != (p[2].verdict, p[2].cause)
    ]
    if worse:
        yield make_change(EventKind.NEW_FAILURE, worse)
    if grown:
        _, old, new = max(grown, key=lambda pair: pair[2].rho)
        limit = (
            f"at most {old.known.max_rho:g}"
            if old.known is not None and old.known.max_rho is not None
            else "no limit stated"
        )
        place = old.known.place if old.known is not None else ""
        yield make_change(
            EventKind.KNOWN_GREW,
            grown,
            f"known divergence, {format_factor(old.rho)} × budget then, "
            f"{format_factor(new.rho)} now ({place}: {limit})",
        )
    if other:
        _, old, new = max(other, key=lambda pair: pair[2].rho)
        text = (
            f"{old.verdict} ({old.cause or 'no cause'}) then, {new.verdict} "
            f"({new.cause or 'no cause'}) now"
        )
        yield make_change(EventKind.FAILURE_CHANGED, other, text)
    if lost:
        yield make_change(EventKind.UNTESTED, lost)
    if known:
        yield make_change(
            EventKind.TURNED_KNOWN, known, max(known, key=lambda pair: pair[2].rho)[2].explanation
        )
    if better and not worse:
        was = max(better, key=lambda pair: pair[1].rho)[1]
        yield make_change(EventKind.FIXED, better, f"was {was.verdict}: {was.explanation}")
    if gone and not worse:
        still = sum(p[2].verdict == "known" for p in pairs)
        rest = f"; {still} others still are" if still else ""
        yield make_change(
            EventKind.KNOWN_VANISHED,
            gone,
            f"was {max(gone, key=lambda pair: pair[1].rho)[1].explanation}{rest}",
        )


def _lost(pairs: Sequence[ResultPair]) -> list[ResultPair]:
    """What is no longer tested. That a case turns out to tell nothing is its numbers' doing, unless
    it happens to most of them."""
    tested = [p for p in pairs if p[1].tested]
    lost = [p for p in tested if not p[2].tested]
    refused = [p for p in lost if p[2].verdict != "inconclusive"]
    return lost if 2 * len(lost) > len(tested) else refused
