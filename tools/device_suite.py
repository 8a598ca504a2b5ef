"""Everything that a borrowed machine with a device should do, in one command and a few minutes.

    python tools/device_suite.py --backend cuda --minutes 6 --jobs 12 -o out

It runs the backend's tests, its fingerprint, large cases, the programs of docs/cuda, and a run of
all operators; then it records the failing cases, so that they can be judged elsewhere, again and
again: `consistency judge out/recorded`. In the folder: texts of each step, rows.jsonl.xz (all
results that are not right), recorded.tar.xz. Words behind `--` go to `consistency run` (`-- --fills
8`). Needs torch, NumPy and the packages of pyproject.toml.
"""

from __future__ import annotations

import argparse
import json
import lzma
import subprocess
import sys
import tarfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
RIGHT = ("exact", "rounding")


def started(out: Path, name: str, seconds: float, *command: str) -> subprocess.Popen[bytes]:
    """A Python process whose output goes to ``name``.txt, ended after ``seconds``."""
    guard = (
        "import subprocess, sys; "
        "sys.exit(subprocess.run([sys.executable, *sys.argv[2:]], timeout=float(sys.argv[1]))"
        ".returncode)"
    )
    with (out / f"{name}.txt").open("wb") as text:
        return subprocess.Popen(
            [sys.executable, "-c", guard, str(seconds), *command],
            cwd=ROOT,
            stdout=text,
            stderr=subprocess.STDOUT,
        )


def consistency(*words: str) -> tuple[str, ...]:
    return "-m", "consistency", *words


def beside(out: Path, backend: str, seconds: float) -> list[subprocess.Popen[bytes]]:
    """The short steps, all at once."""
    plain = backend.partition("+")[0].partition(":")[0]
    steps = {
        "fingerprint": consistency("fingerprint", "-b", backend, "--json"),
        "large": consistency(
            "run", "--profile", "large", "--memory", "8G", "-b", backend,
            "--time-budget", f"{seconds / 2:.0f}s", "--no-bundle",
        ),
        "findings": (f"docs/{plain}/findings.py",),
        "tests": (
            "-m", "pytest", "-q", "-p", "no:cacheprovider", f"tests/backends/test_{plain}.py",
        ),
    }  # fmt: skip
    wanted = {
        name: command
        for name, command in steps.items()
        if not command[-1].endswith(".py") or (ROOT / command[-1]).is_file()
    }
    return [started(out, name, seconds, *command) for name, command in wanted.items()]


def kept_rows(bundle: Path, to: Path) -> Counter[str]:
    """Writes the results that are not right, and counts all by verdict."""
    verdicts: Counter[str] = Counter()
    lines = (bundle / "results.jsonl").open(encoding="utf-8")
    with lines, lzma.open(to, "wt", encoding="utf-8") as kept:
        for line in lines:
            verdict = json.loads(line)["verdict"]
            verdicts[verdict] += 1
            if verdict not in RIGHT:
                kept.write(line)
    return verdicts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--minutes", type=float, default=6.0, help="of the whole [default: 6]")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("words", nargs="*", help="options of `consistency run`, behind --")
    chosen = parser.parse_args()
    out: Path = chosen.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    began, whole = time.monotonic(), chosen.minutes * 60
    short = beside(out, chosen.backend, whole * 0.6)
    bundle, corpus, recorded = (out / name for name in ("bundle", "failing", "recorded"))
    run = started(
        out, "run", whole * 0.75, *consistency(
            "run", "-b", chosen.backend, "--seed", str(chosen.seed), "--jobs", str(chosen.jobs),
            "--time-budget", f"{whole * 0.5:.0f}s", "--no-shrink", "--no-fingerprint",
            "-o", str(bundle), *chosen.words,
        ),
    )  # fmt: skip
    run.wait()
    print(*kept_rows(bundle, out / "rows.jsonl.xz").most_common(), sep="\n", flush=True)
    started(
        out, "merge", 60, *consistency("corpus", "merge", str(bundle), "-o", str(corpus))
    ).wait()
    left = max(whole - (time.monotonic() - began), 10.0)
    record = consistency(
        "record", "-b", chosen.backend, "--corpus", str(corpus), "-o", str(recorded)
    )
    started(out, "record", left, *record).wait()
    for process in short:
        process.wait()
    with tarfile.open(out / "recorded.tar.xz", "w:xz", preset=3) as archive:
        for folder in (corpus, recorded):
            if folder.is_dir():
                archive.add(folder, folder.name)
    print(f"{time.monotonic() - began:.0f} s; look into {out}")


if __name__ == "__main__":
    main()
