"""What reading a bundle costs: python benchmarks/report.py [RESULTS…]  (default: 20,000, 100,000
and 1,000,000)

Writes synthetic bundles of that many results into a temporary folder (some 1.1 GB for a million):
two nights of the same cases. ``report``, ``diff`` and ``matrix`` of them run in processes of their
own; CPU seconds, memory and the page's size are printed. Operators, dtypes, directions and backends
are as many as in a nightly; errors grow with n, one backend in six fails for some operators.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.storage.bundle import FORMAT

BACKENDS = ("cpu", "cpu+onednn=off", "numpy", "cuda", "cuda+tf32", "directml")
DTYPES = ("float32", "float64", "float16", "bfloat16")
OPERATORS, FAMILIES = 700, 40
LIMITS = {100_000: (20.0, 400), 1_000_000: (60.0, 400)}  # CPU s, MB of memory: what must hold
SIZES = {20_000: 1.5, 1_000_000: 3.0}  # MB of the page


def synthetic(folder: Path, results: int, night: int = 0, seed: int = 0) -> None:
    """Write a bundle of about ``results`` results: every backend and direction of a case, as a run
    does. Another ``night`` has other results of the same cases."""
    draw, results_of = random.Random(seed), random.Random(seed + (night << 32))
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
        "created": f"2026-01-{night + 1:02d}T00:00:00+00:00",
        "settings": settings,
        "id": f"synthetic-{night:08d}",
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
                for row in _rows(case, operator, n, results_of):
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


def spent(*arguments: object) -> tuple[float, float]:
    """CPU seconds of a command and MB at its peak."""
    words = [sys.executable, "-m", "consistency", *map(str, arguments)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):  # 1: something differs
        raise SystemExit(f"{' '.join(words)} ended with {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / 1e6


def measured(folder: Path, results: int, commands: Sequence[str]) -> bool:
    """Print what each of ``commands`` costs for so many results; whether all limits hold."""
    nights = [folder / f"night-{night}" for night in range(2)]
    for night, path in enumerate(nights):
        if not path.exists():
            synthetic(path, results, night)
    stored = sum(path.stat().st_size for path in nights[0].iterdir()) / 1e6
    print(f"{results:,} results ({stored:,.0f} MB)", flush=True)
    longest, largest = LIMITS.get(results, (math.inf, math.inf))
    arguments: dict[str, tuple[object, ...]] = {
        "report": ("report", nights[0]),
        "diff": ("diff", *nights),
        "matrix": ("matrix", folder, "--out", folder / "site"),
    }
    good = True
    for command in commands:
        seconds, memory = spent(*arguments[command])
        held = seconds < longest and memory < largest
        page = ""
        if command == "report":
            size = (nights[0] / "report.html").stat().st_size / 1e6
            held, page = held and size <= SIZES.get(results, 3.0), f", page {size:.2f} MB"
        print(f"  {command:<8}{seconds:7.1f} s CPU, {memory:5.0f} MB of memory{page}"
              f"{'' if held else '   OVER THE LIMIT'}", flush=True)  # fmt: skip
        good = good and held
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="*", type=int, default=[20_000, 100_000, 1_000_000])
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="write the bundles there and keep them"
    )
    parser.add_argument("--commands", default="report,diff,matrix", help="which to measure")
    arguments = parser.parse_args()
    commands = arguments.commands.split(",")
    with tempfile.TemporaryDirectory() as scratch:
        held = [
            measured((arguments.keep or Path(scratch)) / f"synthetic-{many}", many, commands)
            for many in sorted(arguments.results)
        ]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
