"""A machine in trouble, and no operator to blame: cases of many operators crashed or timed out in
one run.

What was lost so is no news of each operator; it is told once. Two runs (:func:`apart`) and many
nights (:mod:`consistency.report.history.outages`) go by the same rule.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..events import EventKind
from ..outages import LOSSES, describe, is_outage
from .compared_results import GroupKey, ResultChange, Results
from .verdict_changes import ResultPair


@dataclass
class Outage:
    """What a backend lost in a run. ``words`` counts what was said of it; ``case`` is the id of
    one."""

    results: int = 0
    groups: set[GroupKey] = field(default_factory=set)
    words: Counter[str] = field(default_factory=Counter)
    case: str = ""

    @property
    def operators(self) -> int:
        return len({group[0] for group in self.groups})

    def __str__(self) -> str:
        return describe(self.results, self.operators)


def lost(results: Results) -> dict[str, Outage]:
    """What was lost, by backend, where the machine was in trouble."""
    every, found = Counter(group[3] for group, _ in results), defaultdict[str, Outage](Outage)
    for (group, case), one in results.items():
        if one.verdict in LOSSES:
            mine = found[group[3]]
            mine.results, mine.case = mine.results + 1, mine.case or case
            mine.groups.add(group)
            mine.words[f"{one.verdict}: {one.explanation}"] += 1
    return {
        b: mine for b, mine in found.items() if is_outage(mine.results, mine.operators, every[b])
    }


def split_outages(
    groups: Mapping[GroupKey, Sequence[ResultPair]], before: Results, after: Results
) -> tuple[Mapping[GroupKey, Sequence[ResultPair]], list[ResultChange]]:
    """The pairs without those that a machine in trouble lost, and a change for each backend that
    fell into trouble or got out."""
    then, now = lost(before), lost(after)
    if not then and not now:
        return groups, []
    rest: dict[GroupKey, list[ResultPair]] = {}
    fell, rose = (
        defaultdict[str, list[tuple[GroupKey, ResultPair]]](list),
        defaultdict[str, list[tuple[GroupKey, ResultPair]]](list),
    )
    for group, pairs in groups.items():
        backend, kept = group[3], rest.setdefault(group, [])
        for pair in pairs:
            was, is_ = (
                backend in side and one.verdict in LOSSES
                for side, one in ((then, pair[1]), (now, pair[2]))
            )
            if is_ and not was:
                fell[backend].append((group, pair))
            elif was and pair[2].passes:
                rose[backend].append((group, pair))
            elif not (was and is_):
                kept.append(pair)
    like = Counter[str]()
    for group, pairs in groups.items():
        like[group[3]] += len(pairs)
    changes = []
    for backend, mine in now.items():
        if fell[backend] or backend not in then:
            words = (
                f"{mine}{', as some did before' if backend in then else ''}; most often "
                f"{mine.words.most_common(1)[0][0]}"
            )
            changes.append(
                _change(EventKind.OUTAGE, backend, fell[backend], like[backend], words, mine)
            )
    changes += [
        _change(EventKind.FIXED, backend, rose[backend], like[backend],
        f"the machine was in trouble: {mine}", mine)
        for backend, mine in then.items() if rose[backend]
    ]  # fmt: skip
    return {group: pairs for group, pairs in rest.items() if pairs}, changes


def _change(
    kind: EventKind,
    backend: str,
    pairs: Sequence[tuple[GroupKey, ResultPair]],
    like: int,
    words: str,
    lost: Outage,
) -> ResultChange:
    """One line about many groups: those of ``pairs``, or of ``lost`` where all that was lost had
    been explored."""
    worst = max(
        (pair for _, pair in pairs), key=lambda pair: max(pair[1].rho, pair[2].rho), default=None
    )
    rhos = (worst[1].rho, worst[2].rho) if worst else (0.0, 0.0)
    groups = len({group for group, _ in pairs} or lost.groups)
    return ResultChange(
        kind,
        ("*", "*", "*", backend),
        len(pairs),
        like,
        *rhos,
        words,
        worst[0] if worst else lost.case,
        groups,
    )
