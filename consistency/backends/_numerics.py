"""Influences on numbers besides the device: torch's build, process-wide switches, environment
variables."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
from pathlib import Path

import torch

LONGEST = 200  # characters of a variable's value
# Variables that are known to change which kernel runs, or how it rounds and splits its work.
_VARIABLES = re.compile(
    r"ATEN_CPU_CAPABILITY|NVIDIA_TF32_OVERRIDE|TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"
    r"|OMP_(NUM_THREADS|DYNAMIC|SCHEDULE)"
    r"|MKL_(CBWR|NUM_THREADS|DYNAMIC|ENABLE_INSTRUCTIONS|DEBUG_CPU_TYPE)"
    r"|NPY_(DISABLE|ENABLE)_CPU_FEATURES|OPENBLAS_\w+"
    r"|(ONEDNN|DNNL|CUBLAS|CUBLASLT|CUDNN|TORCH_CUDNN|TORCH_BLAS|ROCBLAS|HIPBLASLT)_\w+"
    r"|(MIOPEN|PYTORCH)_\w+"
)
# Folders and logs change no number, and the name of a folder may be private.
_UNRELATED = re.compile(r"PATH|DIR|HOME|CACHE|FILE|LOG|VERBOSE|TOKEN|KEY|SECRET|PASSWORD|URL|DUMP")


@functools.cache
def build() -> dict[str, str]:
    """torch's build: its commit, compiler, BLAS, LAPACK, MKL and oneDNN, from
    ``torch.__config__``."""
    text = torch.__config__.show()

    def first(pattern: str) -> str:
        match = re.search(pattern, text)
        return match[1].strip() if match else ""

    result = {
        "torch commit": str(torch.version.git_version or "")[:12],
        "compiler": first(r"- ((?:GCC|clang|MSVC|LLVM)[^\n]*)"),
        "built for": first(r"CUDA_VERSION=([^,\s]+)") and f"CUDA {first(r'CUDA_VERSION=([^,]+)')}",
        "lapack": first(r"LAPACK_INFO=([^,\s]+)"),
        "mkl": first(r"Math Kernel Library Version ([\d.]+)"),
        "onednn version": first(r"MKL-DNN v(\S+)"), "build type": first(r"BUILD_TYPE=([^,\s]+)"),
    }  # fmt: skip
    result["build type"] = "debug" if torch.version.debug else result["build type"].lower()
    return {key: value for key, value in result.items() if value and value != "release"}


# What MKL calls its branches (mkl.h, MKL_CBWR_*). On CPUs of other makers it chooses by itself, and
# says so ("auto").
_BRANCHES = {
    2: "auto", 3: "compatible", 4: "SSE2", 6: "SSSE3", 7: "SSE4.1", 8: "SSE4.2", 9: "AVX",
    10: "AVX2", 12: "AVX-512",
    14: "AVX-512 with VNNI",
}  # fmt: skip


@functools.cache
def mkl_instructions() -> str:
    """The instruction set of MKL's kernels in this process; empty if torch was built without
    MKL."""
    if not torch._C.has_mkl:
        return ""
    for name in ("libtorch_cpu.so", "torch_cpu.dll"):
        with contextlib.suppress(OSError, AttributeError):
            branch = ctypes.CDLL(
                str(Path(torch.__file__).parent / "lib" / name)
            ).mkl_serv_cbwr_get_auto_branch()
            return _BRANCHES.get(branch, f"branch {branch}")
    return ""


@functools.cache
def instructions() -> str:
    """As :func:`mkl_instructions`, and whether oneDNN multiplies in the tiles of AMX: "AVX-512 with
    VNNI and AMX"."""
    # Private, but there is no other; torch 2.4 lacks it.
    has_tiles = getattr(torch.cpu, "_is_amx_tile_supported", _linux_knows_tiles)
    tiles = not os.environ.get("ONEDNN_MAX_CPU_ISA") and has_tiles()
    return " and ".join(filter(None, (mkl_instructions(), "AMX" if tiles else "")))


def _linux_knows_tiles(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether Linux lists the tiles of AMX among what the processor has."""
    with contextlib.suppress(OSError):
        return " amx_tile" in cpuinfo.read_text(encoding="utf-8")
    return False


def switches() -> dict[str, str]:
    """Process-wide switches that differ from torch's defaults."""
    result = {}
    if torch.are_deterministic_algorithms_enabled():
        result["deterministic"] = "True"
    tiny = torch.full((1,), 1e-40) * 1.0  # no function returns it
    if not bool(tiny.item()):
        result["flush_denormal"] = "True"
    return result


def numeric(name: str) -> bool:
    """Whether an environment variable changes numbers, and nothing else."""
    return _VARIABLES.fullmatch(name) is not None and not _UNRELATED.search(name)


def variables() -> dict[str, str]:
    """The environment variables that change numbers, as far as they are set."""
    environment = {name.upper(): value for name, value in os.environ.items()}
    chosen = {name: value[:LONGEST] for name, value in environment.items() if numeric(name)}
    return dict(sorted(chosen.items()))
