"""The cells of the matrix as entries for queries: one per operator × dtype × direction ×
environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...core.text import quote
from .events import EventKind
from .series import EnvironmentHistory
from .snapshot import FAILED, NOT_TESTED, PASSED, WARNED, MatrixCell, Snapshot

USUAL = (
    "driver",
    "device",
    "torch",
    "numpy",
    "cuda",
    "cudnn",
    "torch_directml",
)  # may be asked for where nobody has one
STATE = {FAILED: "fail", WARNED: "warn", PASSED: "pass", NOT_TESTED: "untested"}


def entries(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Every cell with the fields that a query can use, and the command that reproduces it."""
    counts = states(snapshot)
    identities = {env: identity_of(one) for env, one in snapshot.environments.items()}
    for (env, number), cell in snapshot.cells.items():
        group, environment = snapshot.groups[number], snapshot.environments[env]
        yield {
            "operator": group.operator, "family": group.family, "dtype": group.dtype,
            "direction": group.direction,
            "environment": environment.name, "label": environment.label,
            "backend": environment.backend, "verdict": cell.verdict,
            "state": STATE[cell.rank], "rho": cell.rho, "cases": cell.cases, "of": cell.of,
            "cause": cell.cause,
            "workaround": cell.workaround, "sentence": cell.sentence,
            "night": environment.runs[cell.run].name,
            "since": since(environment, cell), "kind": latest_event(environment, cell),
            "flaky": flaky(cell), "counts": counts[number],
            "identity": identities[env], "command": command(snapshot, cell),
        }  # fmt: skip


def states(snapshot: Snapshot) -> dict[int, dict[str, int]]:
    """By group, the number of environments in each state."""
    found: dict[int, dict[str, int]] = {number: {} for number in snapshot.groups}
    for (_, number), cell in snapshot.cells.items():
        counts = found[number]
        counts[STATE[cell.rank]] = counts.get(STATE[cell.rank], 0) + 1
    return found


def names(snapshot: Snapshot) -> list[str]:
    """The names of environments' values in the query language."""
    found = dict.fromkeys(
        [*USUAL, *(name for one in snapshot.environments.values() for name in identity_of(one))]
    )
    return sorted(name for name in found if not name.startswith("fingerprint"))


def identity_of(environment: EnvironmentHistory) -> Mapping[str, str]:
    """The environment's identity in its last run, by names without spaces."""
    last = environment.identities[-1] if environment.identities else {}
    return {name.replace(" ", "-").replace(":", "-").lower(): value for name, value in last.items()}


def since(environment: EnvironmentHistory, cell: MatrixCell) -> str | None:
    return environment.runs[cell.since].name if cell.since is not None else None


def latest_event(environment: EnvironmentHistory, cell: MatrixCell) -> str:
    """What is news of it in the environment's latest run: a change point, ``transient`` or
    ``flaky``; empty if there is none."""
    point = cell.change_point
    if point is not None and point.is_news(len(environment.runs) - 1):
        return point.kind
    if cell.rank == FAILED and cell.transient:
        return EventKind.TRANSIENT
    return EventKind.FLAKY if cell.flaky else ""


def flaky(cell: MatrixCell) -> float | None:
    return cell.flaky[0] / cell.flaky[1] if cell.flaky else None


def command(snapshot: Snapshot, cell: MatrixCell) -> str:
    """The command that runs the cell's case again, from its bundle."""
    environment, group = snapshot.environments[cell.env], snapshot.groups[cell.group]
    where = f"{quote(environment.runs[cell.run].path)} --id {quote(cell.case_id)}"
    return (
        f"consistency repro {where} --backend {quote(environment.spec(cell.run))} "
        f"--direction {group.direction}"
    )
