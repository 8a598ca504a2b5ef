"""What a thoroughly broken backend costs: python benchmarks/broken_backend.py [OPERATORS…]
(default: 30, 300)

A backend that is 1% off in that many operators is judged beside the CPU with the cases of a quick
run, every one of them, in this process, with a bundle. Printed are CPU seconds, those of a healthy
backend in its place, and how many failures were found, diagnosed and made smaller.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

import consistency
from consistency import operators
from consistency.engine import engine
from consistency.engine.events import Event, Judged, Minimized
from consistency.report import bundles

LIMIT = 600.0  # CPU seconds, for 300 operators


class Off(consistency.Backend):
    """The CPU, 1% off in some operators."""

    name = "off"

    def __init__(self, broken: frozenset[str]) -> None:
        self.broken = broken

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        result = super().call(operator, args, kwargs)
        return tree_map_only(torch.Tensor, _off, result) if operator.name in self.broken else result


def _off(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 1.01 if tensor.dtype.is_floating_point else tensor


def chosen(count: int) -> list[str]:
    """That many operators of all families, which compute numbers."""
    names = [
        name
        for name, operator in operators.registry().items()
        if "random" not in operator.traits and operator.error.kind != "exact"
    ]
    step = max(len(names) // count, 1)
    return names[::step][:count]


def play(names: list[str], broken: frozenset[str]) -> tuple[float, dict[str, int]]:
    """CPU seconds of a run of the operators, and what it counted."""
    counts = dict.fromkeys(("results", "failures", "with a cause", "made smaller"), 0)

    def count(event: Event) -> None:
        if isinstance(event, Judged):
            failing = [result for result in event.results if result.verdict.fails]
            counts["results"] += len(event.results)
            counts["failures"] += len(failing)
            counts["with a cause"] += sum(
                result.evidence is not None and result.evidence.cause is not None
                for result in failing
            )
        counts["made smaller"] += isinstance(event, Minimized)

    config = engine.configure(names, [Off(broken)], examples=2, shipped=True)
    with tempfile.TemporaryDirectory() as folder:
        writer = bundles.writer(Path(folder) / "bundle")
        began = time.process_time()
        engine.drive(config, [writer, count])
        writer.close()
        return time.process_time() - began, counts


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("operators", nargs="*", type=int, default=[30, 300])
    torch.set_num_threads(1)
    good = True
    for count in parser.parse_args().operators:
        names = chosen(count)
        healthy, _ = play(names, frozenset())
        seconds, counts = play(names, frozenset(names))
        good = good and (count > 300 or seconds <= LIMIT)
        numbers = ", ".join(f"{many:,} {what}" for what, many in counts.items())
        print(
            f"{count} operators: {seconds:.0f} s CPU, {healthy:.0f} s for a healthy backend; "
            f"{numbers}{'' if good else '   OVER THE LIMIT'}",
            flush=True,
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
