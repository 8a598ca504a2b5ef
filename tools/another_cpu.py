"""Run a command as if on another CPU: ``python tools/another_cpu.py VARIANT|all COMMAND …``;
without one it lists the variants.

    python tools/another_cpu.py intel-avx512 python -m pytest -q tests/probes/test_sweep.py
    python tools/another_cpu.py all python -m consistency run 'family:fft' --examples 5

Which kernels MKL and torch choose depends on the CPU. Environment variables choose among those for
this one; on other makers' CPUs MKL keeps its best kernels back, unless the function that asks for
the maker answers otherwise (Linux, x86, a C compiler). What the CPU cannot do it cannot be made to
do: ``intel-avx512`` needs AVX-512.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

_INTEL = (
    "int mkl_serv_intel_cpu(void) { return 1; }\nint mkl_serv_intel_cpu_true(void) { return 1; }\n"
)
# By name: whether MKL takes the CPU for Intel's, and the environment.
VARIANTS: dict[str, tuple[bool, dict[str, str]]] = {
    "as-it-is": (False, {}),
    "mkl-compatible": (False, {"MKL_CBWR": "COMPATIBLE"}),
    "aten-default": (False, {"ATEN_CPU_CAPABILITY": "default"}),
    "aten-avx2": (False, {"ATEN_CPU_CAPABILITY": "avx2"}),
    "one-thread": (False, {"OMP_NUM_THREADS": "1"}),
    "intel-avx512": (True, {}),
    "intel-avx2": (True, {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}),
    "intel-sse4.2": (True, {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ATEN_CPU_CAPABILITY": "default"}),
}


def pretence(folder: Path) -> Path:
    """A library that, loaded before torch's, says that this CPU is Intel's."""
    source, library = folder / "intel.c", folder / "intel.so"
    source.write_text(_INTEL, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return library


def main(arguments: list[str]) -> int:
    names = list(VARIANTS) if arguments[:1] == ["all"] else arguments[:1]
    if len(arguments) < 2 or not set(names) <= set(VARIANTS):
        print(
            (
                f"usage: python tools/another_cpu.py VARIANT|all COMMAND …\nvariants: "
                f"{', '.join(VARIANTS)}"
            ),
            file=sys.stderr,
        )
        return 2
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            intel, variables = VARIANTS[name]
            before = {"LD_PRELOAD": str(pretence(Path(folder)))} if intel else {}
            print(f"== {name}", flush=True)
            worst = max(
                worst,
                subprocess.run(arguments[1:], env={**os.environ, **before, **variables}).returncode,
            )
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
