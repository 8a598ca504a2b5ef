"""What judging costs beside what people use today, in one run: medians and ratios, single thread.

    python benchmarks/judging.py [--quick] [--json FILE]

Per operator and size: the raw pair (the operator in float32 and in float64), the pair +
torch.testing.assert_close, the pair + torch.allclose, and ours: the pair + S + the measurements +
the verdict. ``whole case`` is our complete pipeline from prepared numbers to a verdict on one
backend (building tensors, recording warnings, checking that inputs were not modified …). Then: how
many cases a second are drawn and materialized, and what importing the package adds to importing
torch.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.evaluation import evaluate
from consistency.generate import search
from consistency.generate.materialize import prepare
from consistency.judge import tolerances
from consistency.judge.compare import compare
from consistency.judge.judge import judge
from consistency.reference import Reference, quiet

SIZES = {"small": 64, "64 K": 1 << 16, "4 M": 1 << 22}


def tensor(
    *shape: int, stop: int = 1 << 23, values: tuple[Any, ...] = ("uniform", -1.0, 1.0)
) -> TensorRecipe:
    return TensorRecipe(shape, "float32", values, stop)


def cases(elements: int) -> dict[str, Case]:
    """One case per kind of operator, with about ``elements`` elements in the result (the matrix
    product's in its operands)."""
    side = max(int(elements**0.5), 1)
    image = (1, 4, max(int((elements / 4) ** 0.5), 1), max(int((elements / 4) ** 0.5), 1))
    made = {
        "add": (tensor(elements), tensor(elements, stop=1 << 22)),
        "exp": (tensor(elements),),
        "sum": (tensor(side, side), 1),
        "softmax": (tensor(side, side), 1),
        "nn.functional.layer_norm": (tensor(side, side), [side]),
        "nn.functional.conv2d": (tensor(*image), tensor(4, 4, 3, 3, stop=1 << 20)),
    }
    if elements <= 1 << 16:  # a 2048 × 2048 product measures the BLAS, not the judge
        made["matmul"] = (tensor(side, side), tensor(side, side, stop=1 << 22))
    return {name: Case(name, "float32", args) for name, args in made.items()}


def microseconds(functions: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Median time of one call of each function. They take turns, so that a machine that slows down
    slows all of them."""
    batches: dict[str, int] = {}
    for name, function in functions.items():
        function()
        start = time.process_time()
        function()
        batches[name] = max(int(seconds / 15 / max(time.process_time() - start, 1e-7)), 1)
    samples: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(15):
        for name, function in functions.items():
            start = time.process_time()
            for _ in range(batches[name]):
                function()
            samples[name].append((time.process_time() - start) / batches[name])
    return {name: statistics.median(times) * 1e6 for name, times in samples.items()}


def measure(case: Case, seconds: float) -> dict[str, float]:
    operator, rules = operators.get(case.operator), tolerances.load()
    materials = prepare(case)
    single, double = materials.build(), materials.build("float64")
    backend = Cpu()
    outcome = backend.run(operator, materials)
    x, y = operator(*single.args), operator(*double.args)
    rule, policy = rules.rule(operator.name, "float32", family=operator.family), rules.policy("cpu")
    reference = Reference(operator, materials, "forward")

    def pair() -> None:
        operator(*single.args)
        operator(*double.args)

    def with_assert_close() -> None:
        pair()
        torch.testing.assert_close(x, y.to(torch.float32))

    def with_allclose() -> None:
        pair()
        torch.allclose(x, y.to(torch.float32), rtol=1e-5, atol=1e-5)

    def ours() -> None:
        pair()
        reference.__dict__.pop("magnitudes", None)  # S is computed anew each time
        reference.__dict__.pop("magnitude_below", None)
        comparison = compare(outcome, reference)
        judge(comparison, comparison, rule, policy)

    def whole() -> None:
        evaluate(case, [backend], rules, directions=("forward",), operator=operator)

    try:
        torch.testing.assert_close(x, y.to(torch.float32))
    except AssertionError:
        # Raising and formatting is not what is timed here; a looser call does the same work without
        # it.
        def with_assert_close() -> None:
            pair()
            torch.testing.assert_close(x, y.to(torch.float32), rtol=1.0, atol=1.0)

    timed = {
        "pair": pair, "pair + assert_close": with_assert_close, "pair + allclose": with_allclose,
        "ours": ours, "whole case": whole,
    }  # fmt: skip
    with quiet():
        return microseconds(timed, seconds)


def drawing() -> dict[str, float]:
    """Cases drawn a second, and 64 × 64 float32 cases materialized a second."""
    names = ("matmul", "softmax", "nn.functional.conv2d", "add")
    start = time.process_time()
    drawn = sum(len(search.batch(operators.get(name), "float32", 200)) for name in names)
    rate = drawn / (time.process_time() - start)
    case = Case("exp", "float32", (tensor(64, 64, stop=9000),))
    return {
        "drawn": rate,
        "materialized": 1e6 / microseconds({"build": lambda: prepare(case).build()}, 0.3)["build"],
    }


def imports() -> dict[str, float]:
    """Seconds that importing the package, and all that a run needs, add to importing torch (best of
    5)."""
    program = (
        "import time, torch; a = time.perf_counter(); import consistency; b = time.perf_counter(); "
        "import consistency.api.runs, consistency.operators; "
        "consistency.operators.registry(); "
        "print(b - a, time.perf_counter() - a)"
    )
    samples = []
    for _ in range(5):
        command = [sys.executable, "-c", program]
        output = subprocess.run(
            command, capture_output=True, text=True, check=True, encoding="utf-8"
        ).stdout
        samples.append(tuple(map(float, output.split())))
    return {
        "import consistency": min(a for a, _ in samples),
        "all that a run needs": min(b for _, b in samples),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the time, noisier")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    seconds = 0.05 if options.quick else 0.5
    figures: dict[str, Any] = {}
    columns = ("pair", "pair + assert_close", "pair + allclose", "ours", "whole case")
    for size, elements in SIZES.items():
        print(
            f"\n{size} elements{'':<18}"
            + "".join(f"{c:>21}" for c in columns)
            + f"{'ours / (pair + assert_close)':>32}"
        )
        ratios = []
        for name, case in cases(elements).items():
            row = measure(case, seconds)
            figures[f"{name} {size}"] = row
            ratios.append(row["ours"] / row["pair + assert_close"])
            print(
                f"  {name:<30}"
                + "".join(f"{row[c]:>18,.1f} µs" for c in columns)
                + f"{ratios[-1]:>31.2f}×"
            )
        figures[f"median ratio {size}"] = statistics.median(ratios)
        print(f"  {'median ratio':<30}{figures[f'median ratio {size}']:>136.2f}×")
    rates, added = drawing(), imports()
    figures |= {"rates": rates, "imports": added}
    print(
        f"\ndrawn {rates['drawn']:,.0f} cases/s · materialized {rates['materialized']:,.0f} "
        f"cases/s (64 × 64)"
    )
    print(f"import adds to torch's own: {added['import consistency']:.3f} s", end="; ")
    print(f"with all that a run needs {added['all that a run needs']:.3f} s")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
