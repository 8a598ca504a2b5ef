"""What the matrix tells of a year beside what was planted, at its end and on single mornings."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .world import FIRST_NIGHT, Planted


@dataclass
class Score:
    """Of each kind how many were planted and found on their night; and what was told that was not
    there."""

    planted: dict[str, int]
    found: dict[str, int]
    missed: list[Planted]
    false: list[str]

    def share(self, *kinds: str) -> float:
        return sum(self.found.get(k, 0) for k in kinds) / max(
            sum(self.planted.get(k, 0) for k in kinds), 1
        )


def score(made, planted: Sequence[Planted]) -> Score:  # type: ignore[no-untyped-def]
    """Compare the change points found with the planted ones. The right night is the first one
    from then on that has the group's cases."""
    by_name = {environment.name: environment for environment in made.environments.values()}
    numbers = {(g.operator, g.dtype, g.direction): g.number for g in made.groups.values()}
    told = {(t.env, t.group, t.run, t.kind): t for t in made.change_points}
    result = Score({}, {}, [], [])
    for one in planted:
        environment = by_name[one.environment]
        group = numbers[one.operator, one.dtype, one.direction]
        key = (environment.env, group, _right(made, environment, group, one.night), one.kind)
        result.planted[one.kind] = result.planted.get(one.kind, 0) + 1
        if told.pop(key, None) is not None:
            result.found[one.kind] = result.found.get(one.kind, 0) + 1
        else:
            result.missed.append(one)
    for (env, group, night, kind), turn in told.items():
        g = made.groups[group]
        words = f"{kind} {made.environments[env].name} {g.operator} {g.kind} night {night} "
        words += f"({turn.cases} of {turn.of} cases, {turn.before:.2f} → {turn.after:.2f} octaves)"
        result.false.append(words)
    return result


def _right(made, environment, group: int, night: int) -> int:  # type: ignore[no-untyped-def]
    """The place, among the nights there are, of the first at or after this one on which the group
    was tested."""
    wanted = (FIRST_NIGHT + datetime.timedelta(days=night)).replace(tzinfo=None)
    tested = made.series[environment.env, group].tested
    return next(i for i, n in enumerate(environment.runs) if n.created >= wanted and tested[i] > 0)


def mornings(store, made, planted: Sequence[Planted], quiet: int, seed: int) -> dict[str, float]:  # type: ignore[no-untyped-def]
    """What would have been told on the mornings after planted changes, and on ``quiet`` others,
    without knowing what came later."""
    from consistency.report.history.change_points import find_change_points
    from consistency.report.history.series import case_histories, until

    rng = np.random.default_rng(seed)
    by_name = {environment.name: environment for environment in made.environments.values()}
    numbers = {(g.operator, g.dtype, g.direction): g.number for g in made.groups.values()}
    at: dict[int, dict[int, list[Planted]]] = {}
    truth: set[tuple[int, int, int]] = set()
    for one in planted:
        environment = by_name[one.environment]
        group = numbers[one.operator, one.dtype, one.direction]
        night = _right(made, environment, group, one.night)
        truth.add((environment.env, group, night))
        at.setdefault(environment.env, {}).setdefault(night, []).append(one)
    for environment in made.environments.values():
        for night in (
            rng.choice(len(environment.runs) - 2, size=max(quiet // len(made.environments), 1)) + 2
        ):
            at.setdefault(environment.env, {}).setdefault(int(night), [])
    counts = {"mornings": 0, "planted": 0, "told": 0, "silent": 0, "silent_told": 0, "false": 0}
    for environment in made.environments.values():
        fresh: dict[int, set[tuple[int, str]]] = {}
        for block in case_histories(store.db, environment):
            for night in {*at[environment.env], *(n + 1 for n in at[environment.env])} & set(
                range(len(environment.runs))
            ):
                known = block.until(night + 1)
                points, _ = find_change_points(until(environment, night + 1), known)
                fresh.setdefault(night, set()).update(
                    (t.group, t.kind) for t in points if t.run in (night - 1, night)
                )
        for night, ones in at[environment.env].items():
            for one in ones:
                key = (numbers[one.operator, one.dtype, one.direction], one.kind)
                which = "planted" if one.with_driver else "silent"
                counts[which] += 1
                counts["told" if one.with_driver else "silent_told"] += key in fresh.get(
                    night if one.with_driver else night + 1, set()
                )
            counts["mornings"] += 1
            near = {night - 1, night}
            counts["false"] += sum(
                kind in ("new", "error_grew", "untested")
                and not any((environment.env, group, n) in truth for n in near)
                for group, kind in fresh[night]
            )
    return counts
