"""Outages of a machine between two runs: cases of many operators crashed or timed out in one run.

Such losses are reported once instead of for each operator. The same rule applies to the history of
many runs (:mod:`consistency.report.history.outages`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..events import EventKind
from ..outages import LOSSES, describe, is_outage
from .compared_results import ComparedResult, GroupKey, ResultChange, ResultPair
from .pairs import CommonResults, Pairs
from .result_table import CASE, ResultTable


@dataclass
class Outage:
    """Results that a backend lost in a run. ``words`` counts their explanations; ``case`` is the id
    of one."""

    results: int = 0
    groups: set[GroupKey] = field(default_factory=set)
    words: Counter[str] = field(default_factory=Counter)
    case: str = ""

    @property
    def operators(self) -> int:
        return len({group[0] for group in self.groups})

    def __str__(self) -> str:
        return describe(self.results, self.operators)


def lost(results: ResultTable) -> dict[str, Outage]:
    """Outages by backend."""
    names, cases = list(results.names.groups), list(results.names.cases)
    totals, outages = Counter[str](), defaultdict[str, Outage](Outage)
    for number, count in zip(*np.unique(results.groups, return_counts=True), strict=True):
        totals[names[number][3]] += int(count)
    for position in np.flatnonzero(results.flags(_is_lost)).tolist():
        group, result = names[results.groups[position]], results.result(position)
        outage = outages[group[3]]
        outage.results += 1
        outage.case = outage.case or cases[int(results.keys[position]) & CASE]
        outage.groups.add(group)
        outage.words[f"{result.verdict}: {result.explanation}"] += 1
    return {
        b: outage
        for b, outage in outages.items()
        if is_outage(outage.results, outage.operators, totals[b])
    }


def _is_lost(result: ComparedResult) -> bool:
    return result.verdict in LOSSES


def split_outages(groups: CommonResults) -> tuple[Mapping[GroupKey, Pairs], list[ResultChange]]:
    """The pairs without those lost in an outage, and one change per backend whose outage began or
    ended."""
    old_outages, new_outages = lost(groups.before), lost(groups.after)
    if not old_outages and not new_outages:
        return groups, []
    remaining: dict[GroupKey, Pairs] = {}
    lost_pairs, recovered_pairs = (
        defaultdict[str, list[tuple[GroupKey, ResultPair]]](list),
        defaultdict[str, list[tuple[GroupKey, ResultPair]]](list),
    )
    for group, pairs in groups.items():
        backend, stay = group[3], np.ones(len(pairs), np.bool_)
        for index in np.flatnonzero(~pairs.pass_in_both).tolist():
            pair = pairs[index]
            was, is_ = (
                backend in side and result.verdict in LOSSES
                for side, result in ((old_outages, pair[1]), (new_outages, pair[2]))
            )
            stay[index] = not (was or is_)
            if is_ and not was:
                lost_pairs[backend].append((group, pair))
            elif was and pair[2].passes:
                recovered_pairs[backend].append((group, pair))
            elif was and not is_:
                stay[index] = True
        remaining[group] = pairs.where(stay)
    like = Counter[str]()
    for group, pairs in groups.items():
        like[group[3]] += len(pairs)
    changes = []
    for backend, outage in new_outages.items():
        if lost_pairs[backend] or backend not in old_outages:
            words = (
                f"{outage}{', as some did before' if backend in old_outages else ''}; most often "
                f"{outage.words.most_common(1)[0][0]}"
            )
            changes.append(
                _change(
                    EventKind.OUTAGE, backend, lost_pairs[backend], like[backend], words, outage
                )
            )
    changes += [
        _change(EventKind.FIXED, backend, recovered_pairs[backend], like[backend],
        f"the machine was in trouble: {outage}", outage)
        for backend, outage in old_outages.items() if recovered_pairs[backend]
    ]  # fmt: skip
    return {group: pairs for group, pairs in remaining.items() if pairs}, changes


def _change(
    kind: EventKind,
    backend: str,
    pairs: Sequence[tuple[GroupKey, ResultPair]],
    like: int,
    words: str,
    lost: Outage,
) -> ResultChange:
    """One change for many groups: those of ``pairs``, or of ``lost`` if only explored cases were
    lost."""
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
