"""The cells of the matrix as entries that the query language speaks of: one per operator × dtype ×
direction × environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...core.text import quote
from .series import Environment
from .snapshot import FAILED, NOT_TESTED, PASSED, WARNED, Board, Cell

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


def entries(board: Board) -> Iterator[dict[str, Any]]:
    """Every cell with what a query can ask of it, and the command that repeats it."""
    counts = states(board)
    identities = {env: identity_of(one) for env, one in board.environments.items()}
    for (env, number), cell in board.cells.items():
        group, environment = board.groups[number], board.environments[env]
        yield {
            "operator": group.operator, "family": group.family, "dtype": group.dtype,
            "direction": group.direction,
            "environment": environment.name, "label": environment.label,
            "backend": environment.backend, "verdict": cell.verdict,
            "state": STATE[cell.rank], "rho": cell.rho, "cases": cell.cases, "of": cell.of,
            "cause": cell.cause,
            "workaround": cell.workaround, "sentence": cell.sentence,
            "night": environment.nights[cell.night].name,
            "since": since(environment, cell), "kind": kind(environment, cell),
            "flaky": flaky(cell), "counts": counts[number],
            "identity": identities[env], "command": command(board, cell),
        }  # fmt: skip


def states(board: Board) -> dict[int, dict[str, int]]:
    """By group: on how many environments it is in which state."""
    found: dict[int, dict[str, int]] = {number: {} for number in board.groups}
    for (_, number), cell in board.cells.items():
        counts = found[number]
        counts[STATE[cell.rank]] = counts.get(STATE[cell.rank], 0) + 1
    return found


def names(board: Board) -> list[str]:
    """What environments tell of themselves, or might, as the query language spells it."""
    found = dict.fromkeys(
        [*USUAL, *(name for one in board.environments.values() for name in identity_of(one))]
    )
    return sorted(name for name in found if not name.startswith("fingerprint"))


def identity_of(environment: Environment) -> Mapping[str, str]:
    """What the environment was on its last night, by names without spaces."""
    last = environment.identities[-1] if environment.identities else {}
    return {name.replace(" ", "-").replace(":", "-").lower(): value for name, value in last.items()}


def since(environment: Environment, cell: Cell) -> str | None:
    return environment.nights[cell.since].name if cell.since is not None else None


def kind(environment: Environment, cell: Cell) -> str:
    """What happened on the environment's last night: a turn, or ``once`` or ``flaky``; empty where
    nothing did."""
    if cell.turn is not None and cell.turn.night == len(environment.nights) - 1:
        return cell.turn.kind
    if cell.rank == FAILED and cell.odd:
        return "once"
    return "flaky" if cell.flaky else ""


def flaky(cell: Cell) -> float | None:
    return cell.flaky[0] / cell.flaky[1] if cell.flaky else None


def command(board: Board, cell: Cell) -> str:
    """The command that runs the cell's case again, from its bundle."""
    environment, group = board.environments[cell.env], board.groups[cell.group]
    where = f"{quote(environment.nights[cell.night].path)} --id {quote(cell.case_id)}"
    return (
        f"consistency repro {where} --backend {quote(environment.spec(cell.night))} "
        f"--direction {group.direction}"
    )
