"""All that is told of two bundles."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....errors import BundleError
from ....storage import bundle
from ..events import EventKind
from . import compared_results, error_shifts, missing, outages, verdict_changes
from .compared_results import GroupKey, ResultChange, Results

MACHINE = "machine"  # what is about all backends stands under this name
_LONG = 400
_LISTED = list(EventKind)
ChangedFacts = tuple[tuple[str, str, str], ...]  # name, then, now


@dataclass(frozen=True)
class ComparedRun:
    """One of the two runs. ``corpus`` is its digest, ``explored`` how many results only this run
    has because it explored."""

    folder: Path
    id: str
    label: str
    created: str
    corpus: str = ""
    only: int = 0
    explored: int = 0
    complete: bool = True


@dataclass(frozen=True)
class RunDifference:
    """Two runs compared. ``environments``: by backend, what is not the same on both sides; under
    ``machine`` what is about all."""

    before: ComparedRun
    after: ComparedRun
    like: int
    changes: tuple[ResultChange, ...] = ()
    environments: Mapping[str, ChangedFacts] = field(default_factory=dict)
    not_reached: int = (
        0  # results on the same corpus, or on the same draws, that the newer run does not have
    )

    @property
    def regressions(self) -> tuple[ResultChange, ...]:
        return tuple(change for change in self.changes if change.regression)


def difference(old: Path, new: Path) -> RunDifference:
    """Compare two bundles. Raises BundleError with file and line."""
    headers = [bundle.read_header(folder) for folder in (old, new)]
    before, after = compared_results.results(old), compared_results.results(new)
    groups: dict[GroupKey, list[verdict_changes.ResultPair]] = defaultdict(list)
    like = 0
    for (group, case), now in after.items():
        then = before.get((group, case))
        if then is not None:
            groups[group].append((case, then, now))
            like += 1
    rest, outages_found = outages.split_outages(groups, before, after)
    changes = [
        *outages_found,
        *verdict_changes.changes(rest, missing.groups(headers[0], headers[1], before, after)),
        *error_shifts.error_shifts(groups),
    ]
    changes.sort(
        key=lambda c: (_LISTED.index(c.kind), -c.after if c.after == c.after else 0.0, c.group)
    )
    sides = (_side(old, headers[0], before, after), _side(new, headers[1], after, before))
    left = missing.results(headers[0], headers[1], before, after)
    return RunDifference(*sides, like, tuple(changes), _environments(old, new, *headers), left)


def _side(folder: Path, header: Mapping[str, Any], ours: Results, theirs: Results) -> ComparedRun:
    only = Counter(one.origin for key, one in ours.items() if key not in theirs)
    corpus = header["corpus"]["digest"] if header["corpus"] else ""
    ended = "seconds" in header and header.get("complete") is not False
    return ComparedRun(
        folder,
        header["id"],
        header["label"],
        header["created"],
        corpus,
        only.total(),
        only["explored"],
        ended,
    )


def _environments(
    old: Path, new: Path, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, ChangedFacts]:
    """What moved, backend by backend; what moved in the same way on several stands under all of
    their names, once."""
    then, now = _read(old), _read(new)
    backends = [*then, *(name for name in now if name not in then)]
    whose: dict[tuple[str, str, str], list[str]] = {}
    for backend in backends:
        if backend not in then or backend not in now:
            was, is_ = ("there" if backend in side else "" for side in (then, now))
            whose[f"backend {backend}"[:_LONG], was, is_] = [MACHINE]
            continue
        for row in _changed_facts(*_both_probed(then[backend], now[backend])):
            whose.setdefault(row, []).append(backend)
    found: dict[str, list[tuple[str, str, str]]] = {}
    known = set(_changed_facts(before["machine"], after["machine"]))
    for row in sorted(known):
        found.setdefault(MACHINE, []).append(row)
    for row, names in whose.items():
        if row not in known:
            found.setdefault(", ".join(names), []).append(row)
    return {name: tuple(rows) for name, rows in found.items()}


def _both_probed(
    then: dict[str, Any], now: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Without fingerprints where one side has none: short runs take none, which is no change of the
    machine."""
    if all(any(name.startswith("fingerprint") for name in side) for side in (then, now)):
        return then, now
    without = [
        {name: value for name, value in side.items() if not name.startswith("fingerprint")}
        for side in (then, now)
    ]
    return without[0], without[1]


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    found = {name: dict(keys) for name, keys in bundle.read_environment(folder).items()}
    for name, keys in found.items():
        if len(name) > _LONG or len(keys) > 1000:
            raise BundleError(
                f"{folder / 'environment.json'} does not describe what backends ran on"
            )
        probed = keys.pop("fingerprint", None)
        facts = probed if isinstance(probed, dict) else {"": probed} if probed else {}
        keys |= {f"fingerprint {fact}".strip(): value for fact, value in list(facts.items())[:1000]}
    return found


def _changed_facts(then: Mapping[str, Any], now: Mapping[str, Any]) -> ChangedFacts:
    pairs = (
        (name, str(then.get(name, ""))[:_LONG], str(now.get(name, ""))[:_LONG])
        for name in sorted({*then, *now})
    )
    return tuple(pair for pair in pairs if pair[1] != pair[2])
