"""What happened to the verdicts of the same cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .seen import Change, Group, Seen

Pair = tuple[str, Seen, Seen]  # case, before, after
MOST_LOST = 5  # groups of one backend that lose their results for the same reason, told one by one


def changes(
    groups: Mapping[Group, Sequence[Pair]], absent: Iterable[Change] = ()
) -> Iterator[Change]:
    """The changes of each group, with those of groups that are ``absent``; a backend that is gone
    altogether is one."""
    every = [
        *(change for group, pairs in groups.items() for change in _of_group(group, pairs)),
        *absent,
    ]
    lost: defaultdict[tuple[str, str], list[Change]] = defaultdict(list)
    for change in every:
        if change.kind == "untested":
            lost[change.group[3], change.words].append(change)
        else:
            yield change
    for (backend, words), alike in lost.items():
        if len(alike) <= MOST_LOST:
            yield from alike
        else:
            first = max(alike, key=lambda change: change.cases)
            cases, like = sum(c.cases for c in alike), sum(c.like for c in alike)
            yield Change(
                "untested",
                ("*", "*", "*", backend),
                cases,
                like,
                first.before,
                0.0,
                words,
                first.case,
                len(alike),
            )


def _of_group(group: Group, pairs: Sequence[Pair]) -> Iterator[Change]:
    def told(kind: str, chosen: Sequence[Pair], words: str = "") -> Change:
        case, old, new = max(
            chosen, key=lambda pair: pair[1].rho if kind in ("fixed", "gone") else pair[2].rho
        )
        return Change(
            kind,
            group,
            len(chosen),
            len(pairs),
            old.rho,
            new.rho,
            words or f"{new.verdict}: {new.explanation}",
            case,
        )

    grown = [p for p in pairs if p[1].grown_to(p[2])]
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
        yield told("new", worse)
    if grown:
        _, old, new = max(grown, key=lambda pair: pair[2].rho)
        limit = (
            f"at most {old.known.max_rho:g}"
            if old.known is not None and old.known.max_rho is not None
            else "no limit stated"
        )
        place = old.known.place if old.known is not None else ""
        yield told(
            "grown",
            grown,
            f"known divergence, {old.rho:.3g} × budget then, {new.rho:.3g} now ({place}: {limit})",
        )
    if other:
        _, old, new = max(other, key=lambda pair: pair[2].rho)
        text = (
            f"{old.verdict} ({old.cause or 'no cause'}) then, {new.verdict} "
            f"({new.cause or 'no cause'}) now"
        )
        yield told("changed", other, text)
    if lost:
        yield told("untested", lost)
    if known:
        yield told("known", known, max(known, key=lambda pair: pair[2].rho)[2].explanation)
    if better and not worse:
        was = max(better, key=lambda pair: pair[1].rho)[1]
        yield told("fixed", better, f"was {was.verdict}: {was.explanation}")
    if gone and not worse:
        still = sum(p[2].verdict == "known" for p in pairs)
        rest = f"; {still} others still are" if still else ""
        yield told(
            "gone", gone, f"was {max(gone, key=lambda pair: pair[1].rho)[1].explanation}{rest}"
        )


def _lost(pairs: Sequence[Pair]) -> list[Pair]:
    """What is no longer tested. That a case turns out to tell nothing is its numbers' doing, unless
    it happens to most of them."""
    tested = [p for p in pairs if p[1].tested]
    lost = [p for p in tested if not p[2].tested]
    refused = [p for p in lost if p[2].verdict != "inconclusive"]
    return lost if 2 * len(lost) > len(tested) else refused
