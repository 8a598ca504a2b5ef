"""The difference between two bundles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....errors import BundleError
from ....storage import bundle
from ..events import EventKind
from . import error_shifts, missing, outages, verdict_changes
from .compared_results import ResultChange
from .pairs import CommonResults
from .result_table import Names, ResultTable, read

MACHINE = "machine"  # the name for facts about all backends
_LONG = 400
_LISTED = list(EventKind)
ChangedFacts = tuple[tuple[str, str, str], ...]  # name, then, now


@dataclass(frozen=True)
class ComparedRun:
    """One of the two runs. ``corpus`` is the digest, ``only`` the number of results that the other
    run lacks, ``explored`` the number of these from exploration. ``cut_off``: what is missing of
    its results, in words."""

    folder: Path
    id: str
    label: str
    created: str
    corpus: str = ""
    only: int = 0
    explored: int = 0
    complete: bool = True
    cut_off: str = ""


@dataclass(frozen=True)
class RunDifference:
    """Two runs compared on ``like`` common results. ``environments`` are the changed facts by
    backend; those of all backends under ``machine``."""

    before: ComparedRun
    after: ComparedRun
    like: int
    changes: tuple[ResultChange, ...] = ()
    environments: Mapping[str, ChangedFacts] = field(default_factory=dict)
    not_reached: int = 0  # results for planned cases that the newer run does not have

    @property
    def is_whole(self) -> bool:
        """Whether neither run has lost results since it ended."""
        return not self.before.cut_off and not self.after.cut_off

    @property
    def regressions(self) -> tuple[ResultChange, ...]:
        return tuple(change for change in self.changes if change.regression)


def difference(old: Path, new: Path) -> RunDifference:
    """Compare two bundles. Raises BundleError with file and line."""
    headers = [bundle.read_header(folder) for folder in (old, new)]
    names = Names()
    before, after = read(old, names), read(new, names)
    groups = CommonResults(before, after)
    remaining, outage_changes = outages.split_outages(groups)
    changes = [
        *outage_changes,
        *verdict_changes.changes(remaining, missing.groups(headers[0], headers[1], before, after)),
        *error_shifts.error_shifts(groups),
    ]
    changes.sort(
        key=lambda c: (_LISTED.index(c.kind), -c.after if c.after == c.after else 0.0, c.group)
    )
    sides = (_side(old, headers[0], before, after), _side(new, headers[1], after, before))
    not_reached = missing.results(headers[0], headers[1], before, after)
    return RunDifference(
        *sides, groups.like, tuple(changes), _environments(old, new, *headers), not_reached
    )


def _side(
    folder: Path, header: Mapping[str, Any], ours: ResultTable, theirs: ResultTable
) -> ComparedRun:
    lacking = ours.lacking_in(theirs)
    explored = lacking & ours.flags(lambda result: result.origin == "explored")
    corpus = header["corpus"]["digest"] if header["corpus"] else ""
    ended = "seconds" in header and header.get("complete") is not False
    return ComparedRun(
        folder,
        header["id"],
        header["label"],
        header["created"],
        corpus,
        int(lacking.sum()),
        int(explored.sum()),
        ended,
        bundle.cut_off(folder, header),
    )


def _environments(
    old: Path, new: Path, before: Mapping[str, Any], after: Mapping[str, Any]
) -> dict[str, ChangedFacts]:
    """Changed facts by backend; a change common to several backends is listed once, under all
    their names."""
    old_environments = _read_environments(old, before)
    new_environments = _read_environments(new, after)
    backends = [
        *old_environments,
        *(name for name in new_environments if name not in old_environments),
    ]
    backends_by_change: dict[tuple[str, str, str], list[str]] = {}
    for backend in backends:
        if backend not in old_environments or backend not in new_environments:
            was, is_ = (
                "there" if backend in side else "" for side in (old_environments, new_environments)
            )
            backends_by_change[f"backend {backend}"[:_LONG], was, is_] = [MACHINE]
            continue
        for row in _changed_facts(
            *_comparable_environments(old_environments[backend], new_environments[backend])
        ):
            backends_by_change.setdefault(row, []).append(backend)
    changes: dict[str, list[tuple[str, str, str]]] = {}
    machine_changes = set(_changed_facts(before["machine"], after["machine"]))
    for row in sorted(machine_changes):
        changes.setdefault(MACHINE, []).append(row)
    for row, names in backends_by_change.items():
        if row not in machine_changes:
            changes.setdefault(", ".join(names), []).append(row)
    return {name: tuple(rows) for name, rows in changes.items()}


def _comparable_environments(
    old: dict[str, Any], new: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Both environments, without fingerprints if one has none, as is usual for short runs."""
    if all(any(name.startswith("fingerprint") for name in side) for side in (old, new)):
        return old, new
    without_fingerprints = [
        {name: value for name, value in side.items() if not name.startswith("fingerprint")}
        for side in (old, new)
    ]
    return without_fingerprints[0], without_fingerprints[1]


def _read_environments(folder: Path, header: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The facts about each backend by name, and the spec of one that is a program's: two programs
    may give their backends the same name."""
    settings = header.get("settings")
    specs = settings.get("specs") if isinstance(settings, dict) else None
    spelled = specs if isinstance(specs, dict) else {}
    environments = {name: dict(keys) for name, keys in bundle.read_environment(folder).items()}
    for name, keys in environments.items():
        if len(name) > _LONG or len(keys) > 1000:
            raise BundleError(
                f"{folder / 'environment.json'} does not describe what backends ran on"
            )
        if (spec := str(spelled.get(name, name))) != name:
            keys["spec"] = spec
        probed = keys.pop("fingerprint", None)
        facts = probed if isinstance(probed, dict) else {"": probed} if probed else {}
        keys |= {f"fingerprint {fact}".strip(): value for fact, value in list(facts.items())[:1000]}
    return environments


def _changed_facts(old: Mapping[str, Any], new: Mapping[str, Any]) -> ChangedFacts:
    pairs = (
        (name, str(old.get(name, ""))[:_LONG], str(new.get(name, ""))[:_LONG])
        for name in sorted({*old, *new})
    )
    return tuple(pair for pair in pairs if pair[1] != pair[2])
