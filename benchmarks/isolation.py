"""What a process of its own costs: the same run on ``cpu+threads=1`` in the run's process and in a
worker, in turns.

    python benchmarks/isolation.py [--repeats N] [--cases N]

Prints cases per second of both and the median of their ratio, over small cases of some operators:
once with everything that a run does (cases are drawn), once from cases to verdicts alone.
"""

from __future__ import annotations

import argparse
import statistics
import time

from consistency import backends, operators
from consistency.backends.base import Backend
from consistency.backends.subprocess.backend import AHEAD
from consistency.core.model import Case
from consistency.diagnose import evaluation
from consistency.engine import engine
from consistency.engine.events import Started
from consistency.judge import tolerances
from consistency.operators.declare import Operator

OPERATORS = (
    "add",
    "exp",
    "sum",
    "matmul",
    "softmax",
    "nn.functional.layer_norm",
    "nn.functional.conv2d",
    "index_select",
)
INSIDE, APART = "cpu+threads=1", "cpu+threads=1+isolated"


def seconds(backend: Backend, cases: list[tuple[Operator, Case]]) -> float:
    rules = tolerances.load()
    began = time.perf_counter()
    for position, (operator, case) in enumerate(cases):
        backend.prefetch((o, c, "forward") for o, c in cases[position : position + AHEAD])
        evaluation.evaluate(case, [backend], rules, directions=("forward",), operator=operator)
    return time.perf_counter() - began


def of_a_run(backend: Backend, count: int) -> float:
    """Seconds of a run with its draws, without starting the worker."""
    chosen = engine.configure(OPERATORS, [backend], ["float32"], ["forward"], count)
    began = 0.0
    for event in engine.run(chosen):
        if isinstance(event, Started):
            began = time.perf_counter()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7, help="how often both are timed, in turns")
    parser.add_argument("--cases", type=int, default=40, help="cases of each operator")
    options = parser.parse_args()
    cases = [
        (o, case)
        for o in map(operators.get, OPERATORS)
        for case in engine.draw(o, "float32", options.cases, 0)[0]
    ]
    inside, apart = backends.resolve(INSIDE), backends.resolve(APART)
    try:
        for backend in (inside, apart):
            seconds(backend, cases[:20])
        judged = [(seconds(inside, cases), seconds(apart, cases)) for _ in range(options.repeats)]
        runs = [
            (of_a_run(inside, options.cases), of_a_run(apart, options.cases))
            for _ in range(options.repeats)
        ]
    finally:
        apart.close()
    for what, pairs in (("a run", runs), ("judged only", judged)):
        here, there = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(b / a for a, b in pairs)
        each = f"{len(cases) / here:,.0f}/s in the process, {len(cases) / there:,.0f}/s in a worker"
        print(f"{what:<12} {len(cases)} cases: {each}; time x {ratio:.2f}")


if __name__ == "__main__":
    main()
