"""Made-up histories of operators over some weeks, and what a reader is told of each every morning.

A history is one operator on one machine. *Permanent*: from some night on, some cases fail every
night. *Flaky*: some cases fail at random, 5 to 60% of the calls, since the first night. *Flaky by
night*: the same, but all calls of a night agree, so that repeats show nothing. *Driver*: another
kernel, as good, with a new driver. *Drift*: an error that grows night by night and stays within the
budget, or leaves it for good. A run repeats failing cases, and what that gave is in the bundle;
not so for recorded results (*flaky, recorded*, and a part of the permanent ones).
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .world import FIRST_NIGHT

CASES, REPEATS = 6, 3
UNREPEATED = 0.1  # share of permanent ones whose bundles say nothing of repeats
SHARES = {
    "permanent": 0.35, "flaky": 0.35, "driver": 0.08, "drift": 0.12, "flaky by night": 0.05,
    "flaky, recorded": 0.05,
}  # fmt: skip


@dataclass
class History:
    """One operator on one machine. ``size``: × budget [cases, nights], NaN without a number.
    ``begins``: the night from which on a case fails for good."""

    label: str
    operator: str
    kind: str
    words: str
    size: np.ndarray[Any, np.dtype[np.float64]]
    fails: np.ndarray[Any, np.dtype[np.bool_]]
    evidence: dict[tuple[int, int], dict[str, int]] = field(default_factory=dict)
    begins: int | None = None

    def rows(self, night: int) -> Iterator[str]:
        for case in range(CASES):
            fails, size = bool(self.fails[case, night]), float(self.size[case, night])
            row: dict[str, Any] = {
                "operator": self.operator, "dtype": "float32", "direction": "forward",
                "backend": "gpu", "verdict": "rounding", "fails": fails,
                "case_id": f"{self.operator}-{case:010x}", "family": "unary", "output": "out/0",
                "explanation": "", "metrics": {}, "shapes": [], "sha256": "",
            }  # fmt: skip
            if fails:
                row["verdict"] = "special-values" if np.isnan(size) else "divergent"
                if (case, night) in self.evidence:
                    row["evidence"] = self.evidence[case, night]
            if not np.isnan(size):
                row["metrics"] = {"rho_max": size}
            yield json.dumps(row) + "\n"


def histories(count: int, nights: int, machines: int, seed: int) -> list[History]:
    """So many histories, spread over the machines, each kind with its share."""
    rng = np.random.default_rng(seed)
    kinds = [kind for kind, share in SHARES.items() for _ in range(round(share * count))]
    kinds += ["permanent"] * (count - len(kinds))
    drivers = [driver_night(machine, nights) for machine in range(machines)]
    return [
        _history(rng, kind, f"machine{i % machines}", f"op{i:04d}", nights, drivers[i % machines])
        for i, kind in enumerate(rng.permutation(kinds[:count]))
    ]


def driver_night(machine: int, nights: int) -> int:
    """The night on which a machine gets its new driver."""
    return 4 + machine * 7 % (nights - 8)


def _history(
    rng: np.random.Generator, kind: str, label: str, operator: str, nights: int, driver: int
) -> History:
    usual = np.exp2(rng.uniform(-5, -1.2, (CASES, 1)))
    size = usual * np.exp2(rng.normal(0, 0.1, (CASES, nights)) * (rng.random() < 0.3))
    one = History(label, operator, str(kind), "", size, np.zeros((CASES, nights), dtype=np.bool_))
    repeated = kind != "flaky, recorded" and rng.random() >= UNREPEATED * (kind == "permanent")
    chosen = rng.permutation(CASES)
    if kind == "permanent":
        _permanent(rng, one, chosen, driver, repeated)
    elif kind.startswith("flaky"):
        _flaky(rng, one, chosen[: rng.integers(1, 4)], repeated)
    elif kind == "driver":
        size[:, driver:] = np.minimum(usual * np.exp2(rng.normal(0, 0.8, (CASES, 1))), 0.95)
    else:
        _drift(rng, one, repeated)
    one.words += "" if repeated else ", not repeated"
    return one


def _permanent(
    rng: np.random.Generator, one: History, chosen: Any, driver: int, repeated: bool
) -> None:
    nights = one.size.shape[1]
    with_driver = rng.random() < 0.5
    one.begins = driver if with_driver else int(rng.integers(2, nights - 2))
    many = int(rng.choice([1, CASES, rng.integers(2, CASES)], p=[0.4, 0.3, 0.3]))
    error = str(rng.choice(["same", "nearly the same", "no number", "another"],
                           p=[0.6, 0.2, 0.1, 0.1]))  # fmt: skip
    one.words = f"{many} cases, {error} error, {'driver' if with_driver else 'no driver'}"
    for case in chosen[:many]:
        first = float(np.exp2(rng.uniform(0.6, 14.0)))
        for night in range(one.begins, nights):
            factor = {"nearly the same": rng.normal(0, 0.02), "another": rng.normal(0, 2.0)}
            value = max(first * float(np.exp2(factor.get(error, 0.0))), 1.01)
            one.size[case, night] = np.nan if error == "no number" else value
            one.fails[case, night] = True
            if repeated:
                other = REPEATS if error == "another" else 0
                one.evidence[case, night] = {"repeats": REPEATS, "other": other, "within": 0}


def _flaky(rng: np.random.Generator, one: History, chosen: Any, repeated: bool) -> None:
    nights, rate = one.size.shape[1], float(rng.uniform(0.05, 0.6))
    same, by_night = rng.random() < 0.4, one.kind == "flaky by night"
    one.words = f"{len(chosen)} cases at {rate:.0%}, {'same' if same else 'another'} error"
    for case in chosen:
        first = float(np.exp2(rng.uniform(1.0, 10.0)))
        for night in np.flatnonzero(rng.random(nights) < rate):
            one.fails[case, night] = True
            one.size[case, night] = first if same else float(np.exp2(rng.uniform(1.0, 10.0)))
            within = 0 if by_night else int((rng.random(REPEATS) >= rate).sum())
            other = within if same or by_night else REPEATS
            if repeated:
                one.evidence[case, night] = {"repeats": REPEATS, "other": other, "within": within}


def _drift(rng: np.random.Generator, one: History, repeated: bool) -> None:
    nights, leaves = one.size.shape[1], rng.random() < 0.5
    growth = float(rng.uniform(1.03, 1.15))
    last = float(rng.uniform(1.5, 8.0) if leaves else rng.uniform(0.3, 0.9))
    one.words = f"grows {growth:.2f} × a night, to {last:.2g} × budget"
    course = last * growth ** (np.arange(nights) - nights + 1.0)
    course *= min(0.8 / float(course[1]), 1.0)  # the first nights are within the budget
    spread = np.exp2(-rng.uniform(0.0, 0.3, (CASES, 1)))
    spread[0] = 1.0
    one.size[:] = course[None, :] * spread
    one.fails[:] = one.size > 1.0
    if one.fails.any():
        one.begins = int(one.fails.any(axis=0).argmax())
    if repeated:
        one.evidence = {
            (int(case), int(night)): {"repeats": REPEATS, "other": 0, "within": 0}
            for case, night in np.argwhere(one.fails)
        }


def write(all_of_them: list[History], folder: Path) -> None:
    """Bundles in the real format: one per machine and night."""
    nights = all_of_them[0].size.shape[1]
    by_label: dict[str, list[History]] = {}
    for one in all_of_them:
        by_label.setdefault(one.label, []).append(one)
    for machine, (label, ones) in enumerate(sorted(by_label.items())):
        for night in range(nights):
            here = folder / label / f"{night:03d}"
            here.mkdir(parents=True)
            created = FIRST_NIGHT + datetime.timedelta(days=night)
            header = {
                "format": 2, "id": f"{label}-{night:04d}", "created": created.isoformat(),
                "label": label, "machine": {"os": "Linux"}, "corpus": None,
                "consistency": "0.1.0", "settings": {"seed": 0}, "complete": True,
            }  # fmt: skip
            (here / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
            driver = "552.1" if night >= driver_night(machine, nights) else "551.9"
            (here / "environment.json").write_text(
                json.dumps({"gpu": {"driver": driver, "torch": "2.13.0"}}), encoding="utf-8"
            )
            text = "".join(line for one in ones for line in one.rows(night))
            (here / "results.jsonl").write_text(text, encoding="utf-8")


@dataclass
class Told:
    """What was told of one history: the mornings on which it was new, and flaky."""

    history: History
    new: list[int] = field(default_factory=list)
    flaky: list[int] = field(default_factory=list)
    uncertain: list[int] = field(default_factory=list)

    @property
    def in_time(self) -> bool:
        begins = self.history.begins
        return begins is not None and any(night in (begins, begins + 1) for night in self.new)


def mornings(all_of_them: list[History], folder: Path) -> list[Told]:
    """Read the bundles night by night, and note what each morning's page tells."""
    from consistency.report.history.bundle_sources import bundles
    from consistency.report.history.events import EventKind
    from consistency.report.history.query_entries import latest_event
    from consistency.report.history.snapshot import snapshot
    from consistency.report.history.store import Store

    told = {(one.label, one.operator): Told(one) for one in all_of_them}
    found, problems = bundles([folder])
    assert not problems
    held = Store()
    for night in range(all_of_them[0].size.shape[1]):
        end = (FIRST_NIGHT + datetime.timedelta(days=night)).replace(tzinfo=None)
        held.take([one for one in found if one.created <= end])
        made = snapshot(held)
        for (env, group), cell in made.cells.items():
            environment = made.environments[env]
            one = told[environment.label, made.groups[group].operator]
            event = latest_event(environment, cell)
            for nights, holds in (
                (one.new, event == EventKind.NEW_FAILURE),
                (one.uncertain, event == EventKind.TRANSIENT),
                (one.flaky, cell.flaky is not None),
            ):
                if holds:
                    nights.append(night)
    held.close()
    return list(told.values())


def figures(told: list[Told]) -> dict[str, Counter[str]]:
    """By kind: how many histories there are, and of how many what was told."""
    result: dict[str, Counter[str]] = {}
    for one in told:
        counts = result.setdefault(one.history.kind, Counter())
        counts["histories"] += 1
        counts["fail for good"] += one.history.begins is not None
        counts["told in time"] += one.in_time
        counts["called new"] += bool(one.new)
        counts["called flaky"] += bool(one.flaky)
    return result
