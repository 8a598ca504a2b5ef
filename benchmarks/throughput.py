"""What cases and results cost apart from their operators: python benchmarks/throughput.py
[draw replay memory start]

``draw``: CPU milliseconds per case that Hypothesis draws, over operators of all families.
``replay``: judged results a CPU second of one process that replays those of them with few numbers
on two backends, with a bundle. ``memory``: the peak of a process that judges so many results, and
of one that judges four times as many. ``start``: seconds from the start of the first command of the
README to its first verdict; it is stopped then.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from consistency import operators
from consistency.core.model import Case
from consistency.engine import engine
from consistency.engine.events import Event, Judged
from consistency.generate import search
from consistency.report import bundles
from consistency.storage.corpus.corpus import Corpus
from consistency.storage.corpus.reading import elements

BACKENDS = ("cpu", "cpu+onednn=off")
FEW = 4096  # numbers of a small case
ASKED = {"draw": 2.5, "replay": 3000.0, "start": 2.0}  # at most, at least, at most


def chosen(count: int) -> list[str]:
    """That many operators of all families, which compute numbers."""
    names = [
        name
        for name, operator in operators.registry().items()
        if "random" not in operator.traits and "float32" in operator.dtypes
    ]
    return names[:: max(len(names) // count, 1)][:count]


def drawn(names: Sequence[str], examples: int) -> tuple[list[Case], list[float]]:
    """Cases in float32, and the milliseconds that each of an operator cost."""
    cases, costs = [], []
    search.batch(
        operators.get("add"), "float32", 10
    )  # what Hypothesis imports when it is first used
    for name in names:
        began = time.process_time()
        found = search.batch(operators.get(name), "float32", examples)
        costs.append((time.process_time() - began) / max(len(found), 1) * 1e3)
        cases += found
    return cases, costs


def replayed(cases: Sequence[Case], names: Sequence[str]) -> tuple[int, float]:
    """How many results replaying gives, and its CPU seconds."""
    results = 0

    def count(event: Event) -> None:
        nonlocal results
        results += len(event.results) if isinstance(event, Judged) else 0

    config = engine.configure(
        names, BACKENDS, ["float32"], corpus=Corpus("drawn", tuple(cases)), explore=False,
        exhaustive=False,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        writer = bundles.writer(Path(folder) / "bundle")
        began = time.process_time()
        engine.drive(config, [writer, count])
        writer.close()
        return results, time.process_time() - began


def peak(examples: int) -> tuple[int, float]:
    """How many results a process of its own replays, and its peak memory in MB."""
    command = [sys.executable, __file__, "--replay", str(examples)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    told = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit("the replaying process failed")
    return int(told), usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6


def first_verdict() -> float:
    """Seconds from the start of ``consistency run`` to the first row of its results."""
    with tempfile.TemporaryDirectory() as name:
        rows = Path(name) / "rows.jsonl"
        command = [sys.executable, "-m", "consistency", "run", "--json", str(rows)]
        began = time.monotonic()
        process = subprocess.Popen(
            [*command, "--out", str(Path(name) / "bundle")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while process.poll() is None and not (rows.exists() and rows.stat().st_size):
            time.sleep(0.01)
        seconds = time.monotonic() - began
        process.send_signal(signal.SIGINT)
        process.wait()
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", default=["draw", "replay", "memory", "start"])
    parser.add_argument("--operators", type=int, default=60)
    parser.add_argument("--examples", type=int, default=20, help="cases of each operator")
    parser.add_argument("--replay", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    names, good = chosen(options.operators), True
    if options.replay:
        print(replayed(drawn(names, options.replay)[0], names)[0])
        return 0
    if "draw" in options.parts or "replay" in options.parts:
        cases, costs = drawn(names, options.examples)
    if "draw" in options.parts:
        mean = sum(costs) / len(costs)
        good = good and mean <= ASKED["draw"]
        print(f"drawing: {mean:.2f} ms a case, median operator {statistics.median(costs):.2f} ms, "
              f"slowest {max(costs):.1f} ms ({len(cases):,} cases)", flush=True)  # fmt: skip
    if "replay" in options.parts:
        small = [case for case in cases if elements(case) <= FEW]
        replayed(small[:50], names)
        results, seconds = replayed(small, names)
        good = good and results / seconds >= ASKED["replay"]
        print(f"replaying: {results:,} results of {len(small):,} small cases in {seconds:.1f} s of "
              f"CPU time: {results / seconds:,.0f} a second", flush=True)  # fmt: skip
    if "memory" in options.parts:
        (few, less), (many, more) = peak(options.examples), peak(4 * options.examples)
        print(f"memory: {few:,} results {less:.0f} MB, {many:,} results {more:.0f} MB: "
              f"{(more - less) * 1e6 / (many - few) / 1e3:.1f} kB for each further result",
              flush=True)  # fmt: skip
    if "start" in options.parts:
        seconds = statistics.median(first_verdict() for _ in range(3))
        good = good and seconds <= ASKED["start"]
        print(f"first verdict: {seconds:.1f} s after the start of the command", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
