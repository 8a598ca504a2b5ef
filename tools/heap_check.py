"""Runs the cases of every operator under glibc's checked allocator, to find kernels that write past
their memory: those end a process at some later allocation, far from their cause.

    python tools/heap_check.py                        # shipped cases: an hour on one core
    python tools/heap_check.py 'fft.*' --fresh 60     # and 60 fresh ones in each dtype
    python tools/heap_check.py --dtype float32 --part 1/2

Linux with glibc's ``libc_malloc_debug.so.0`` only. Each operator × dtype runs in a forked process,
whose end is reported with the case that it had begun; a block that was overrun may be freed some
cases later, so that the cause is that case or one before it. Exit status 1 if there is one.
"""

from __future__ import annotations

import argparse
import ctypes.util
import fnmatch
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
LIBRARY = "libc_malloc_debug.so.0"
CHECKED = "glibc.malloc.check=3"


def pairs(patterns: list[str], dtypes: str, part: str) -> Iterator[tuple[Any, str]]:
    """Operators × dtypes that are asked for; of ``n/m`` every m-th, beginning with the n-th."""
    from consistency import operators

    first, _, step = part.partition("/")
    found = [
        (operator, dtype)
        for name, operator in sorted(operators.registry().items())
        if operator.callable is not None and any(fnmatch.fnmatchcase(name, p) for p in patterns)
        for dtype in operator.dtypes
        if fnmatch.fnmatchcase(dtype, dtypes)
    ]
    yield from found[int(first) - 1 :: int(step)]


def run(operator: Any, dtype: str, fresh: int, begun: Path) -> None:
    """Runs the cases on the CPU and in float64, forward and, where there are gradients, backward;
    notes each one before it begins."""
    from consistency.backends import resolve
    from consistency.diagnose.evaluation import differentiates
    from consistency.generate import search
    from consistency.generate.materialize import prepare
    from consistency.generate.shipped import cases as shipped
    from consistency.reference import Reference

    cpu = resolve("cpu")
    begun.write_text("while cases were drawn", encoding="utf-8")
    drawn = search.batch(operator, dtype, fresh, 0) if fresh else []
    directions = ("forward", "backward") if differentiates(operator, dtype) else ("forward",)
    for case in (*shipped.cases(operator, dtype), *drawn):
        begun.write_text(case.line, encoding="utf-8")
        for direction in directions:
            cpu.run(operator, prepare(case), direction)
            Reference(operator, prepare(case), direction)
        gc.collect(0)
    gc.collect()


def ended(operator: Any, dtype: str, fresh: int, begun: Path) -> str:
    """What ended the forked process that ran the cases; empty if it came to its end."""
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        status = 1
        try:
            run(operator, dtype, fresh, begun)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return signal.Signals(os.WTERMSIG(status)).name
    return "raised an error" if status else ""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "operators", nargs="*", default=["*"], help="names or patterns of operators"
    )
    parser.add_argument("--dtype", default="*", help="a pattern of dtypes")
    parser.add_argument("--fresh", type=int, default=0, help="fresh cases beside the shipped ones")
    parser.add_argument("--part", default="1/1", metavar="N/M", help="the N-th of M parts")
    asked = parser.parse_args()
    if "glibc.malloc.check" not in os.environ.get("GLIBC_TUNABLES", ""):
        if ctypes.util.find_library("c_malloc_debug") is None:
            sys.exit(f"heap_check: {LIBRARY} is not here; it is part of glibc 2.34 and later")
        checked = {**os.environ, "LD_PRELOAD": LIBRARY, "GLIBC_TUNABLES": CHECKED}
        os.execve(sys.executable, [sys.executable, *sys.argv], checked)

    import torch

    torch.set_num_threads(1)  # a forked process has no others
    count, faults = 0, 0
    begun = Path(tempfile.mkdtemp()) / "case.json"
    for operator, dtype in pairs(asked.operators, asked.dtype, asked.part):
        how = ended(operator, dtype, asked.fresh, begun)
        count += 1
        if how:
            faults += 1
            print(f"{operator.name} {dtype}  {how}: {begun.read_text('utf-8')}", flush=True)
    shutil.rmtree(begun.parent)
    print(f"{count} operators × dtypes, {faults} of them ended their process")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
