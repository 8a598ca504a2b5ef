"""What a report costs: python benchmarks/report.py [RESULTS…]  (default: 20,000, 100,000 and
1,000,000)

Writes synthetic bundles of that many results into a temporary folder (some 0.8 GB for a million),
reports each in a process of its own, and prints seconds, memory and the page's size. Operators,
dtypes, directions and backends are as many as in a nightly; errors grow with n, one backend in six
fails for some operators.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.storage.bundle import FORMAT

BACKENDS = ("cpu", "cpu+onednn=off", "numpy", "cuda", "cuda+tf32", "directml")
DTYPES = ("float32", "float64", "float16", "bfloat16")
OPERATORS, FAMILIES = 700, 40
LIMITS = {100_000: (20.0, 600), 1_000_000: (180.0, 600)}  # seconds, MB of memory: what must hold
SIZES = {20_000: 1.5, 1_000_000: 3.0}  # MB of the page


def synthetic(folder: Path, results: int, seed: int = 0) -> None:
    """Write a bundle of about ``results`` results: every backend and direction of a case, as a run
    does."""
    draw = random.Random(seed)
    folder.mkdir(parents=True)
    settings = {
        "operators": [],
        "backends": list(BACKENDS),
        "examples": 200,
        "seed": seed,
        "dtypes": None,
    }
    header = {
        "format": FORMAT,
        "consistency": "synthetic",
        "created": "2026-01-01T00:00:00+00:00",
        "settings": settings,
        "id": f"synthetic-{seed:08d}",
        "label": "synthetic",
        "machine": {"os": "none"},
        "corpus": None,
        "unavailable": {"mps": "not on this machine"},
        "seconds": 3600.0,
        "complete": True,
    }
    environment = {
        name: {"device": name, "torch": "2.13.0", "threads": "2", "driver": f"{i}.0"}
        for i, name in enumerate(BACKENDS)
    }
    (folder / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
    (folder / "environment.json").write_text(json.dumps(environment), encoding="utf-8")
    with (
        (folder / "cases.jsonl").open("w", encoding="utf-8") as cases,
        (folder / "results.jsonl").open("w", encoding="utf-8") as out,
    ):
        written = 0
        while written < results:
            for operator in range(OPERATORS):
                dtype = DTYPES[draw.choices(range(4), (6, 3, 2, 2))[0]]
                n = int(2.0 ** draw.uniform(0.0, 20.0))
                case = _case(f"family{operator % FAMILIES}.operator_{operator}", dtype, n, draw)
                cases.write(json.dumps({"id": case.id, "case": case.to_json()}) + "\n")
                for row in _rows(case, operator, n, draw):
                    out.write(json.dumps(row) + "\n")
                    written += 1
                if written >= results:
                    break


def _case(operator: str, dtype: str, n: int, draw: random.Random) -> Case:
    values = ("uniform", -1.0, 1.0)
    tensors = (
        TensorRecipe((n, 3), dtype, values, draw.randrange(1 << 20)),
        TensorRecipe((3, n), dtype, values, n),
    )
    return Case(operator, dtype, tensors, {}, draw.randrange(1 << 20))


def _rows(case: Case, operator: int, n: int, draw: random.Random) -> Iterator[dict[str, Any]]:
    for direction in ("forward", "backward") if operator % 3 else ("forward",):
        for backend in BACKENDS:
            yield _row(case, operator, direction, backend, n, draw)


def _row(
    case: Case, operator: int, direction: str, backend: str, n: int, draw: random.Random
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "operator": case.operator, "dtype": case.dtype, "direction": direction, "backend": backend,
        "fails": False,
        "case_id": case.id, "family": f"family{operator % FAMILIES}", "output": "out/0",
        "sha256": "0" * 64,
        "shapes": [f"[{n}, 3]", f"[3, {n}]"], "metrics": {},
    }  # fmt: skip
    if backend == "numpy" and direction == "backward":
        return row | {"verdict": "unsupported", "explanation": "numpy computes no gradients"}
    ulp = 0.5 * math.sqrt(n) * draw.lognormvariate(0.0, 0.7)
    rho = ulp / (2.0 + 2.0 * math.sqrt(n))
    wrong = backend == "directml" and operator % 6 == 0 and draw.random() < 0.3
    if wrong:
        ulp, rho = ulp * 1e4, rho * 1e4
    index = [draw.randrange(n), 1]
    worst = {"index": index, "actual": draw.random(), "expected": draw.random()}
    span = {
        "ulp_max": ulp,
        "scaled_max": rho * 3,
        "abs_max": ulp * 1e-7,
        "hull": [[1 / ulp, 2 / ulp]],
        "worst": [worst],
    }
    measured = {
        "name": "out/0", "dtype": case.dtype, "shape": [n, n], "elements": n * n, "spans": [span],
        "differing": n,
        "rms": 1e-7 * draw.random(), "positive": n // 2, "negative": n // 3, "outward": n // 4,
        "terms": float(n),
    }  # fmt: skip
    metrics = {
        "rho_max": rho,
        "ulp_max": ulp,
        "scaled_max": rho * 3,
        "abs_max": ulp * 1e-7,
        "differing": float(n),
        "rmse_ratio": 1.0,
    }
    row |= {
        "metrics": metrics,
        "worst": worst,
        "comparison": {"status": "ok", "outputs": [measured]},
    }
    if wrong:
        cause = {"name": "float16-inputs", "words": "float16 inputs", "share": 0.99}
        evidence = {
            "first": "divergent",
            "repeats": 3,
            "trials": {"float32 inputs": 0.4},
            "cause": cause,
        }
        sentence = f"{rho:,.0f} × budget: float16 inputs explain 99%"
        return row | {
            "verdict": "divergent",
            "fails": True,
            "explanation": sentence,
            "evidence": evidence,
        }
    return row | {
        "verdict": "rounding" if rho <= 1.0 else "ill-conditioned",
        "explanation": f"{rho:.2g} × budget: rounding",
    }


def reported(folder: Path) -> tuple[float, float, float]:
    """Seconds, MB at the peak, and MB of the page."""
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "consistency", "report", str(folder)],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - began
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit
    return seconds, peak / 1e6, (folder / "report.html").stat().st_size / 1e6


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="*", type=int, default=[20_000, 100_000, 1_000_000])
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="write the bundles there and keep them"
    )
    arguments = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as scratch:
        for results in sorted(arguments.results):
            folder = (arguments.keep or Path(scratch)) / f"synthetic-{results}"
            synthetic(folder, results)
            stored = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
            seconds, memory, size = reported(folder)
            longest, largest = LIMITS.get(results, (math.inf, math.inf))
            held = seconds < longest and memory < largest and size <= SIZES.get(results, 3.0)
            good = good and held
            print(f"{results:>9,} results ({stored:,.0f} MB): {seconds:.1f} s, {memory:.0f} MB of "
            f"memory, page {size:.2f} MB"
                  f"{'' if held else '   OVER THE LIMIT'}", flush=True)  # fmt: skip
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
