"""What the templates of the site show, as plain values: the morning, an operator, the
environments."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from .cells import because
from .change_points import KINDS, Turn
from .diff.trouble import in_words
from .drawing import picture, small
from .entries import command, flaky, kind, since
from .series import Environment
from .snapshot import FAILED, NOT_TESTED, RANKS, Board, Cell, Group

TITLES = {
    "new": "fails now", "drifted": "errs more, still passing", "untested": "no longer tested",
    "fixed": "fixed", "calmed": "errs less",
    "tested": "tested again", "once": "failed once, nothing else changed",
}  # fmt: skip
MARKS = {
    "new": "✗",
    "drifted": "↗",
    "untested": "–",
    "fixed": "✓",
    "calmed": "↘",
    "tested": "+",
    "once": "?",
}
STALE_HOURS = 40
MOST_ROWS, MOST_PICTURES, MOST_KEYS = 200, 24, 60


def about_morning(board: Board, files: Mapping[str, str]) -> dict[str, Any]:
    """What changed on the last night, on every environment."""
    newest = max((one.nights[-1].created for one in board.environments.values()), default=None)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    late = {}
    for one in board.environments.values():
        if (
            newest is not None
            and (newest - one.nights[-1].created).total_seconds() > STALE_HOURS * 3600
        ):
            late[one.env] = one
    for turn in board.last_turns():
        if turn.env not in late:
            rows[turn.kind].append(_turned(board, turn, files))
    for cell in board.cells.values():
        if cell.env not in late and kind(board.environments[cell.env], cell) == "once":
            rows["once"].append(_seen_once(board, cell, files))
    for each in rows.values():
        each.sort(key=lambda row: (-row["order"], row["operator"], row["environment"]))
    parts = [
        {"kind": name, "title": title, "mark": MARKS[name],
         "rows": rows[name][:MOST_ROWS], "more": max(len(rows[name]) - MOST_ROWS, 0),
         "count": len(rows[name])}
        for name, title in TITLES.items() if rows.get(name)
    ]  # fmt: skip
    troubled = [
        one for one in board.environments.values() if one.env not in late and one.nights[-1].lost[0]
    ]
    known = [cell for cell in board.cells.values() if cell.expectation or cell.verdict == "known"]
    return {
        "night": newest.strftime("%Y-%m-%d") if newest else "", "parts": parts,
        "summary": _summary(board, rows, len(troubled)),
        "troubled": [_in_trouble(one) for one in troubled],
        "to_do": list(board.expectations)[:MOST_ROWS],
        "bad": bool(troubled) or any(rows.get(name) for name in ("new", "drifted", "untested")),
        "good": not any(cell.rank == FAILED for cell in board.cells.values()),
        "late": list(late.values()),
        "moved": [(one,
        one.moved[-1][:12]) for one in board.environments.values()
        if one.env not in late and one.moved[-1]],
        "flaky": _flaky(board, files)[:MOST_ROWS], "expected": [_cell_row(board, cell,
        files) for cell in known][:MOST_ROWS],
        "failing": sum(cell.rank == FAILED for cell in board.cells.values()),
        "nights": sum(len(e.nights) for e in board.environments.values()),
        "environments": len(board.environments), "operators": len(files), "worst": _worst(board,
        files),
    }  # fmt: skip


def _in_trouble(one: Environment) -> dict[str, str]:
    """One line about a machine that lost cases of many operators last night."""
    began = one.troubled_since(len(one.nights) - 1)
    return {
        "name": one.name, "words": in_words(*one.nights[-1].lost),
        "since": one.nights[began].name, "why": because(one, began, max(began - 1, 0)),
    }  # fmt: skip


def _summary(board: Board, rows: Mapping[str, Sequence[Mapping[str, Any]]], troubled: int) -> str:
    if not board.environments:
        return "No night has any result"
    counts = {name: len(rows.get(name, ())) for name in ("new", "drifted", "untested")}
    words = {"new": "new failure", "drifted": "larger error", "untested": "loss of testing"}
    several = {"new": "new failures", "drifted": "larger errors", "untested": "losses of testing"}
    told = [
        f"{count:,} {words[name] if count == 1 else several[name]}"
        for name, count in counts.items()
        if count
    ]
    told += [f"{troubled:,} machine{'s' if troubled > 1 else ''} in trouble"] if troubled else []
    if not told:
        once, failing = (
            len(rows.get("once", ())),
            sum(cell.rank == FAILED for cell in board.cells.values()),
        )
        known = (
            [f"{failing - once:,} known failure{'s' if failing - once > 1 else ''}"]
            if failing > once
            else []
        )
        which = _joined([*known, *([f"{once:,} failed once"] if once else [])]) if failing else ""
        return (
            f"Nothing {'certain' if once else 'new'} this "
            f"morning{': ' + which if which else ', and nothing fails'}"
        )
    return f"{_joined(told)} this morning"


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _worst(board: Board, files: Mapping[str, str]) -> list[dict[str, Any]]:
    """Of what fails, the worst six operators, one line each."""
    best: dict[str, Cell] = {}
    for cell in board.cells.values():
        name = board.groups[cell.group].operator
        if (
            cell.rank == FAILED
            and name in files
            and (name not in best or _size(cell) > _size(best[name]))
        ):
            best[name] = cell
    chosen = sorted(best.values(), key=lambda cell: -_size(cell))[:6]
    return [_cell_row(board, cell, files) for cell in chosen]


def _size(cell: Cell) -> float:
    return math.inf if cell.rho is None else cell.rho


def _turned(board: Board, turn: Turn, files: Mapping[str, str]) -> dict[str, Any]:
    environment, group = board.environments[turn.env], board.groups[turn.group]
    cell = board.cells.get((turn.env, turn.group))
    return {
        "operator": group.operator, "kind": group.kind, "environment": environment.name,
        "file": files.get(group.operator, ""),
        "numbers": f"{octaves(turn.before)} → {octaves(turn.after)}",
        "cases": f"{turn.cases} of {turn.of}",
        "why": because(environment, turn.night, turn.last), "cause": cell.cause if cell else "",
        "workaround": cell.workaround if cell else "",
        "expectation": cell.expectation if cell else "",
        "also": _also(board, turn.env, turn.group),
        "order": turn.after if turn.after == turn.after else 99.0,
        "night": environment.nights[turn.night].name,
        "command": command(board, cell) if cell else "",
    }  # fmt: skip


def _seen_once(board: Board, cell: Cell, files: Mapping[str, str]) -> dict[str, Any]:
    row = _cell_row(board, cell, files)
    return row | {
        "numbers": row["now"], "cases": f"{cell.odd} of {cell.of}",
        "why": "a flake, or the first of more: tomorrow tells",
        "order": cell.rho or 99.0, "also": _also(board, cell.env, cell.group),
    }  # fmt: skip


def _also(board: Board, env: int, group: int) -> list[str]:
    """Where else it fails, and since when."""
    found = []
    for cell in board.failing_on(group):
        if cell.env != env:
            environment = board.environments[cell.env]
            began = since(environment, cell)
            found.append(f"{environment.name}{f' since {began}' if cell.since else ''}")
    return [*found[:4], *([f"{len(found) - 4} more"] if len(found) > 4 else [])]


def _flaky(board: Board, files: Mapping[str, str]) -> list[dict[str, Any]]:
    chosen = [cell for cell in board.cells.values() if cell.flaky]
    chosen.sort(key=lambda cell: -(flaky(cell) or 0.0))
    return [_cell_row(board, cell, files) for cell in chosen]


def _cell_row(board: Board, cell: Cell, files: Mapping[str, str]) -> dict[str, Any]:
    environment, group = board.environments[cell.env], board.groups[cell.group]
    return {
        "operator": group.operator, "kind": group.kind, "environment": environment.name,
        "file": files.get(group.operator, ""),
        "now": "–" if cell.rank == NOT_TESTED else times(cell.rho), "verdict": cell.verdict,
        "rank": RANKS[cell.rank],
        "since": since(environment, cell), "why": because(environment, cell.since,
        cell.before) if cell.since else "",
        "sentence": cell.sentence,
        "cause": cell.cause, "workaround": cell.workaround, "expectation": cell.expectation,
        "flaky": cell.flaky,
        "night": environment.nights[cell.night].name, "command": command(board, cell),
        "stale": cell.night != len(environment.nights) - 1,
        "also": _also(board, cell.env, cell.group) if cell.rank == FAILED else [],
    }  # fmt: skip


def times(rho: float | None) -> str:
    if rho is None:
        return "no number"
    return "over 1,000,000" if rho >= 1e6 else f"{rho:,.0f}" if rho >= 10 else f"{rho:.2g}"


def octaves(value: float) -> str:
    return "?" if math.isnan(value) else times(2.0**value)


def about_operator(
    board: Board, groups: Sequence[Group], links: Mapping[tuple[int, int], tuple[str, ...]]
) -> dict[str, Any]:
    """An operator's tables and lines, by dtype and direction."""
    mine = {group.number for group in groups}
    turns: dict[tuple[int, int], list[Turn]] = defaultdict(list)
    for turn in board.turns:
        if turn.group in mine:
            turns[turn.env, turn.group].append(turn)
    left = MOST_PICTURES
    kinds: list[dict[str, Any]] = []
    for group in groups:
        rows, pictures = [], []
        for env, environment in board.environments.items():
            cell, line = board.cells.get((env, group.number)), board.lines.get((env, group.number))
            if cell is None:
                continue
            happened = turns.get((env, group.number), [])
            row = _cell_row(board, cell, {}) | {
                "small": small(line) if line is not None else "",
                "files": links.get((env, group.number), ()),
            }
            rows.append(row)
            if line is not None and (happened or cell.rank == FAILED or cell.flaky) and left > 0:
                left -= 1
                told = [_told(board, environment, turn) for turn in happened[-12:]]
                pictures.append(
                    {
                        "environment": environment.name,
                        "drawn": picture(environment, line, happened),
                        "turns": told,
                        "row": row,
                    }
                )
        rows.sort(key=lambda row: -RANKS.index(row["rank"]))
        kinds.append({"name": group.kind, "rows": rows, "pictures": pictures})
    kinds.sort(key=lambda kind: all(row["rank"] != RANKS[FAILED] for row in kind["rows"]))
    worst = max(
        (
            cell.rank
            for env in board.environments
            for g in groups
            if (cell := board.cells.get((env, g.number)))
        ),
        default=0,
    )
    return {
        "kinds": kinds,
        "family": groups[0].family,
        "failed": worst == FAILED,
        "one_night": not any(k["pictures"] for k in kinds),
    }


def _told(board: Board, environment: Environment, turn: Turn) -> dict[str, Any]:
    return {
        "night": environment.nights[turn.night].name, "kind": turn.kind, "title": TITLES[turn.kind],
        "mark": MARKS[turn.kind],
        "regression": turn.regression, "numbers": f"{octaves(turn.before)} → {octaves(turn.after)}",
        "cases": f"{turn.cases} of {turn.of}",
        "why": because(environment, turn.night, turn.last), "case": board.case_ids.get(turn.item,
        ""),
    }  # fmt: skip


def about_environments(board: Board) -> dict[str, Any]:
    """What tells environments apart, and what has changed in each."""
    last = {one.env: dict(one.identities[-1]) for one in board.environments.values()}
    values: dict[str, set[str]] = defaultdict(set)
    for told in last.values():
        for name, value in told.items():
            values[name].add(value)
    shared = {
        name
        for name, found in values.items()
        if len(found) == 1 and all(name in told for told in last.values())
    }
    rows = []
    for one in board.environments.values():
        states = Counter(
            RANKS[cell.rank] for (env, _), cell in board.cells.items() if env == one.env
        )
        apart = [
            (name, value)
            for name, value in last[one.env].items()
            if name not in shared or len(last) == 1
        ]
        moved = [
            (night.name, pairs[:8]) for night, pairs in zip(one.nights, one.moved,
            strict=True) if pairs
        ][-10:][::-1]  # fmt: skip
        rows.append({
            "name": one.name, "nights": len(one.nights), "first": one.nights[0].name,
            "last": one.nights[-1].name,
            "states": [(state, states[state]) for state in reversed(RANKS) if states[state]],
            "facts": [pair for pair in apart if not pair[0].startswith("fingerprint")][:MOST_KEYS],
            "fingerprint": [
                pair for pair in last[one.env].items() if pair[0].startswith("fingerprint")
            ][:MOST_KEYS],
            "moved": moved, "complete": one.nights[-1].complete,
            "text": " ".join([one.name, *(f"{name} {value}" for name,
            value in last[one.env].items())]).lower()[:4000],
        })  # fmt: skip
    same = [(name, next(iter(values[name]))) for name in sorted(shared)] if len(last) > 1 else []
    return {"rows": rows, "same": same[:MOST_KEYS]}


assert set(KINDS) <= set(TITLES)
