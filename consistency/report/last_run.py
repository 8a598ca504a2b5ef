"""What changed since the run before: the bundle beside this one that was written last before it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import ConsistencyError
from ..storage import bundle
from .bundle_view import BundleView, read
from .failure_groups import FailureGroup

MAX_BYTES = 64 << 20  # of the earlier results: reading more would take longer than the page
MAX_SIBLINGS = 400  # folders that are looked at
SHOWN = 12  # operators of a kind of change
_RESULTS = "results.jsonl"


def changes_since_last(view: BundleView) -> dict[str, Any] | None:
    """``since``: when the run before began, ``new``, ``gone`` and ``other`` (another cause):
    sentences about operator and backend, ``same``: how many fail as before. Only what both runs
    tested is compared. None without such a run, or with one that cannot be read quickly.
    """
    earlier = _last_before(view)
    if earlier is None:
        return None
    try:
        before = read(earlier)
    except (ConsistencyError, OSError, ValueError):
        return None
    both = _tested(view) & _tested(before)
    now, then = (_faults(one) for one in (view, before))
    if not both:
        return None
    new = [where for where in now if where in both and where not in then]
    gone = [where for where in then if where in both and where not in now]
    kept = [where for where in now if where in both and where in then]
    other = [w for w in kept if now[w].elected.name != then[w].elected.name and now[w].elected.name]
    return {
        "since": str(before.header.get("created", ""))[:16].replace("T", " "),
        "name": earlier.name,
        "new": [_sentence(*where, now[where]) for where in new[:SHOWN]],
        "gone": [f"{operator} on {backend}" for operator, backend in gone[:SHOWN]],
        "other": [
            f"{_sentence(*where, now[where])} (before: {then[where].elected.name or 'no cause'})"
            for where in other[:SHOWN]
        ],
        "counts": (len(new), len(gone), len(other), len(kept) - len(other)),
    }


def _last_before(view: BundleView) -> Path | None:
    """The bundle in the same folder that was begun last before this one."""
    here = view.folder.resolve()
    created = str(view.header.get("created", ""))
    found: tuple[str, Path] | None = None
    try:
        siblings = sorted(here.parent.iterdir(), reverse=True)[:MAX_SIBLINGS]
    except OSError:
        return None
    for folder in siblings:
        if folder == here or not (folder / "bundle.json").is_file():
            continue
        try:
            when = str(bundle.read_header(folder).get("created", ""))
            size = (folder / _RESULTS).stat().st_size if (folder / _RESULTS).is_file() else 0
        except (ConsistencyError, OSError, json.JSONDecodeError):
            continue
        if when < created and size <= MAX_BYTES and (found is None or when > found[0]):
            found = (when, folder)
    return found[1] if found is not None else None


def _tested(view: BundleView) -> set[tuple[str, str]]:
    """Operator and backend of everything that was tested."""
    return {
        (operator, backend)
        for operator, groups in view.groups.by_operator().items()
        for _, _, backend, group in groups
        if group.rank > 0
    }


def _faults(view: BundleView) -> dict[tuple[str, str], FailureGroup]:
    """The leading group of each operator and backend that fails."""
    found: dict[tuple[str, str], FailureGroup] = {}
    for groups in view.summary.by_operator():
        for group in groups:
            pool = group.keys[0].pool
            found.setdefault((pool[0], pool[1]), group)
    return found


def _sentence(operator: str, backend: str, group: FailureGroup) -> str:
    return f"{operator} on {backend}: {str(group.elected) or group.worst.verdict.value}"
