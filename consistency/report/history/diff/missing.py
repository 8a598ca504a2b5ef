"""What an older run judged and a newer one, which was asked for the same, does not have: not tested
is not passed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from ..events import EventKind
from .compared_results import ComparedResult, GroupKey, ResultChange, Results

_PLAN = ("seed", "examples", "source")  # which cases a run without a corpus draws


def results(old: Mapping[str, Any], new: Mapping[str, Any], before: Results, after: Results) -> int:
    """How many results are missing on the cases that both runs meant to judge."""
    then, now = old["settings"], new["settings"]
    if not _same_corpus(old, new) or (
        old["corpus"] is None and any(then.get(key) != now.get(key) for key in _PLAN)
    ):
        return 0
    return sum(
        one.origin != "explored" and key not in after and _requested(key[0], now)
        for key, one in before.items()
    )


def groups(
    old: Mapping[str, Any], new: Mapping[str, Any], before: Results, after: Results
) -> Iterator[ResultChange]:
    """What was tested of operators of which the newer run has nothing on that backend, unless its
    time was up."""
    out_of_time = "seconds" in new and new.get("complete") is False
    says = all(isinstance(new["settings"].get(key), list) for key in ("operators", "backends"))
    if out_of_time or not says or not _same_corpus(old, new):
        return
    there = {(group[0], group[3]) for group, _ in after}
    lost: defaultdict[GroupKey, list[tuple[str, ComparedResult]]] = defaultdict(list)
    for (group, case), one in before.items():
        if (
            one.tested
            and one.origin != "explored"
            and (group[0], group[3]) not in there
            and _requested(group, new["settings"])
        ):
            lost[group].append((case, one))
    gone = new.get("unavailable")
    reasons = gone if isinstance(gone, dict) else {}
    for group, pairs in lost.items():
        case, worst = max(pairs, key=lambda pair: pair[1].rho)
        why = str(
            reasons.get(
                group[3], "no results" if "seconds" in new else "no results: the run did not end"
            )
        )
        yield ResultChange(
            EventKind.UNTESTED, group, len(pairs), len(pairs), worst.rho, 0.0, why[:400], case
        )


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
