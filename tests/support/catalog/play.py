"""Plays rows of the catalog through the engine: what the judge said of each, and how often the
row did anything at all."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import torch

from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.core.model import Outcome, Output, Result
from consistency.engine import engine
from consistency.engine.events import Judged
from consistency.generate.materialize import Materials

from .model import Row

RepeatCheck = Callable[[Row, Materials, str, Outcome], None]
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass
class Played:
    """One row after a run. ``touched`` counts the results that were not, bit for bit, what torch
    gives on the CPU."""

    row: Row
    results: list[Result] = field(default_factory=list)
    touched: int = 0

    @property
    def failing(self) -> list[Result]:
        return [result for result in self.results if result.verdict.fails]

    @property
    def raised(self) -> list[Result]:
        """Results of calls that raised where torch does not."""
        return [result for result in self.results if result.verdict.value == "error"]


def play(
    rows: Iterable[Row], examples: int, seed: int = 0, watch: RepeatCheck | None = None
) -> dict[str, Played]:
    """Rows of one operator, dtype and direction on the same cases, drawn once. ``watch`` is told
    every outcome."""
    rows = list(rows)
    first = rows[0]
    operator = operators.get(first.operator)
    found = {row.name: Played(row) for row in rows}
    pending: dict[
        tuple[str, str, str], tuple[Materials, Outcome]
    ] = {}  # the first outcome of each; a second look makes more
    backends = []
    for row in rows:
        backend = row.backend()
        backend.listener = functools.partial(_keep, pending, row.name)
        backends.append(backend)
    chosen = engine.configure(
        [operator],
        backends,
        [first.dtype],
        first.directions,
        examples=examples,
        seed=seed,
        shrink=False,
    )
    for event in engine.run(chosen):
        if not isinstance(event, Judged):
            continue
        plain: dict[str, Outcome] = {}
        for result in event.results:
            one = found[result.backend]
            one.results.append(result)
            materials, outcome = pending.get(
                (result.backend, result.case.digest, result.direction), (None, None)
            )
            if materials is None or outcome is None:
                continue
            if result.direction not in plain:
                plain[result.direction] = Cpu().run(operator, materials, result.direction)
            one.touched += not alike(outcome, plain[result.direction])
            if watch is not None:
                watch(one.row, materials, result.direction, outcome)
        pending.clear()
    return found


def _keep(
    pending: dict[tuple[str, str, str], tuple[Materials, Outcome]],
    name: str,
    materials: Materials,
    direction: str,
    outcome: Outcome,
) -> None:
    pending.setdefault((name, materials.case.digest, direction), (materials, outcome))


def alike(a: Outcome, b: Outcome) -> bool:
    """Whether two outcomes are the same to the last bit, and in what they did to their inputs."""
    if (a.status, a.modified, len(a.outputs)) != (b.status, b.modified, len(b.outputs)):
        return False
    return all(_alike(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))


def _alike(a: Output, b: Output) -> bool:
    x, y = a.tensor, b.tensor
    if x is None or y is None:
        return x is y and (a.value == b.value or a.value != a.value)
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if x.is_complex():
        x, y = torch.view_as_real(x), torch.view_as_real(y)
    if x.is_floating_point():  # NaN is NaN, but the two zeros are two
        x, y = (
            torch.where(t.isnan(), torch.full_like(t, float("nan")), t)
            .contiguous()
            .view(_BITS[t.element_size()])
            for t in (x, y)
        )
    return torch.equal(x, y)


def told(found: Played) -> str:
    """Verdicts that fail, with their cases: what a person needs to look into it."""
    return "\n".join(
        f"{found.row.name}: {r.direction} {r.verdict} {r.explanation}\n    {r.case.line}"
        for r in found.failing[:3]
    )
