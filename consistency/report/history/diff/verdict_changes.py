"""Changes of verdicts on the same cases."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ....core.text import format_factor
from ..events import EventKind
from .compared_results import GroupKey, ResultChange, ResultPair
from .pairs import Pairs

MAX_LISTED_LOSSES = 5  # groups of a backend lost for the same reason that are listed singly


def changes(
    groups: Mapping[GroupKey, Pairs], missing: Iterable[ResultChange] = ()
) -> Iterator[ResultChange]:
    """The changes of each group, and of ``missing`` groups; many losses of a backend for the same
    reason become one."""
    all_changes = [
        *(change for group, pairs in groups.items() for change in _of_group(group, pairs)),
        *missing,
    ]
    lost: defaultdict[tuple[str, str], list[ResultChange]] = defaultdict(list)
    for change in all_changes:
        if change.kind is EventKind.UNTESTED:
            lost[change.group[3], change.words].append(change)
        else:
            yield change
    for (backend, words), similar in lost.items():
        if len(similar) <= MAX_LISTED_LOSSES:
            yield from similar
        else:
            first = max(similar, key=lambda change: change.cases)
            cases, like = sum(c.cases for c in similar), sum(c.like for c in similar)
            yield ResultChange(
                EventKind.UNTESTED,
                ("*", "*", "*", backend),
                cases,
                like,
                first.before,
                0.0,
                words,
                first.case,
                len(similar),
            )


def _of_group(group: GroupKey, common: Pairs) -> Iterator[ResultChange]:
    pass_in_both = common.pass_in_both
    pairs = list(common.where(~pass_in_both))
    if not pairs:
        return

    def make_change(kind: EventKind, chosen: Sequence[ResultPair], words: str = "") -> ResultChange:
        ended = kind in (EventKind.FIXED, EventKind.KNOWN_VANISHED)
        case, old, new = max(chosen, key=lambda pair: (pair[1] if ended else pair[2]).rho)
        return ResultChange(
            kind,
            group,
            len(chosen),
            len(common),
            old.rho,
            new.rho,
            words or f"{new.verdict}: {new.explanation}",
            case,
        )

    known_grew = [p for p in pairs if p[1].known_grew(p[2])]
    newly_failing = [
        p for p in pairs if p[2].fails and not p[1].fails and not p[1].known_grew(p[2])
    ]
    fixed = [p for p in pairs if p[1].fails and p[2].passes]
    known_vanished = [
        p for p in pairs if p[1].verdict == "known" and p[2].passes and not p[1].flaky
    ]
    turned_known = [
        p for p in pairs if p[2].verdict == "known" and p[1].tested and p[1].verdict != "known"
    ]
    lost = _lost(pairs, len(common) - len(pairs))
    failure_changed = [
        p
        for p in pairs
        if p[1].fails and p[2].fails and (p[1].verdict, p[1].cause) != (p[2].verdict, p[2].cause)
    ]
    if newly_failing:
        yield make_change(EventKind.NEW_FAILURE, newly_failing)
    if known_grew:
        _, old, new = max(known_grew, key=lambda pair: pair[2].rho)
        limit = (
            f"at most {old.known.max_rho:g}"
            if old.known is not None and old.known.max_rho is not None
            else "no limit stated"
        )
        place = old.known.place if old.known is not None else ""
        yield make_change(
            EventKind.KNOWN_GREW,
            known_grew,
            f"known divergence, {format_factor(old.rho)} × budget then, "
            f"{format_factor(new.rho)} now ({place}: {limit})",
        )
    if failure_changed:
        _, old, new = max(failure_changed, key=lambda pair: pair[2].rho)
        text = (
            f"{old.verdict} ({old.cause or 'no cause'}) then, {new.verdict} "
            f"({new.cause or 'no cause'}) now"
        )
        yield make_change(EventKind.FAILURE_CHANGED, failure_changed, text)
    if lost:
        yield make_change(EventKind.UNTESTED, lost)
    if turned_known:
        yield make_change(
            EventKind.TURNED_KNOWN,
            turned_known,
            max(turned_known, key=lambda pair: pair[2].rho)[2].explanation,
        )
    if fixed and not newly_failing:
        was = max(fixed, key=lambda pair: pair[1].rho)[1]
        yield make_change(EventKind.FIXED, fixed, f"was {was.verdict}: {was.explanation}")
    if known_vanished and not newly_failing:
        still_known = sum(p[2].verdict == "known" for p in pairs)
        suffix = f"; {still_known} others still are" if still_known else ""
        yield make_change(
            EventKind.KNOWN_VANISHED,
            known_vanished,
            f"was {max(known_vanished, key=lambda pair: pair[1].rho)[1].explanation}{suffix}",
        )


def _lost(pairs: Sequence[ResultPair], passing: int) -> list[ResultPair]:
    """Pairs that are no longer tested, beside those ``passing`` in both runs. An inconclusive
    result counts only if most pairs lost their result."""
    tested = [p for p in pairs if p[1].tested]
    lost = [p for p in tested if not p[2].tested]
    refused = [p for p in lost if p[2].verdict != "inconclusive"]
    return lost if 2 * len(lost) > len(tested) + passing else refused
