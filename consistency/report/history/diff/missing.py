"""Results of an older run that a newer run with the same plan lacks: not tested is not passed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..events import EventKind
from .compared_results import ComparedResult, GroupKey, ResultChange
from .result_table import CASE, ResultTable

_PLAN = ("seed", "examples", "source")  # settings that determine the cases without a corpus


def results(
    old: Mapping[str, Any], new: Mapping[str, Any], before: ResultTable, after: ResultTable
) -> int:
    """Number of missing results for cases that both runs planned to judge."""
    old_settings, new_settings = old["settings"], new["settings"]
    if not _same_corpus(old, new) or (
        old["corpus"] is None
        and any(old_settings.get(key) != new_settings.get(key) for key in _PLAN)
    ):
        return 0
    lacking = before.lacking_in(after) & before.flags(_is_planned)
    names = list(before.names.groups)
    numbers, counts = np.unique(before.groups[lacking], return_counts=True)
    return sum(
        int(count)
        for number, count in zip(numbers, counts, strict=True)
        if _requested(names[number], new_settings)
    )


def groups(
    old: Mapping[str, Any], new: Mapping[str, Any], before: ResultTable, after: ResultTable
) -> Iterator[ResultChange]:
    """The lost tests of operators without any result on a backend in the newer run, unless it ran
    out of time."""
    out_of_time = "seconds" in new and new.get("complete") is False
    has_plan = all(key in new["settings"] for key in ("operators", "backends"))
    if out_of_time or not has_plan or not _same_corpus(old, new):
        return
    names, cases = list(before.names.groups), list(before.names.cases)
    present = {(names[n][0], names[n][3]) for n in np.unique(after.groups).tolist()}
    planned = before.flags(lambda result: result.tested and _is_planned(result))
    lost: defaultdict[GroupKey, list[tuple[str, ComparedResult]]] = defaultdict(list)
    absent = [
        n
        for n in np.unique(before.groups).tolist()
        if (names[n][0], names[n][3]) not in present and _requested(names[n], new["settings"])
    ]
    for position in np.flatnonzero(planned & np.isin(before.groups, absent)).tolist():
        case = cases[int(before.keys[position]) & CASE]
        lost[names[before.groups[position]]].append((case, before.result(position)))
    reasons = new.get("unavailable", {})
    for group, pairs in lost.items():
        case, worst = max(pairs, key=lambda pair: pair[1].rho)
        reason = str(
            reasons.get(
                group[3], "no results" if "seconds" in new else "no results: the run did not end"
            )
        )
        yield ResultChange(
            EventKind.UNTESTED, group, len(pairs), len(pairs), worst.rho, 0.0, reason[:400], case
        )


def _is_planned(result: ComparedResult) -> bool:
    return result.origin != "explored"


def _same_corpus(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    one, other = ((header["corpus"] or {}).get("digest") for header in (old, new))
    return one == other


def _requested(group: GroupKey, settings: Mapping[str, Any]) -> bool:
    """Whether a run with these settings was to judge such results, as far as they say."""
    named = zip(
        (settings.get(key) for key in ("operators", "dtypes", "directions", "backends")),
        group,
        strict=True,
    )
    return all(name in chosen for chosen, name in named if isinstance(chosen, list))
