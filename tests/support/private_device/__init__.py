"""A stand-in for a DirectML device: a PrivateUse1 device in ordinary memory, written in C++, behind
a package with the interface of torch_directml.

As the real one it exists only after its package is imported, its default adapter is not number 0
(whoever takes that gets every number doubled), and it has the vices that a test names
(``device.cpp`` lists them): ``exp=crash``, ``lost-cast`` …
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

FOLDER = Path(__file__).parent
PACKAGE = FOLDER / "package"
SOURCE = FOLDER / "device.cpp"
_COMPILERS = ("c++", "g++", "clang++")
_BUILD = """
import sys
from torch.utils import cpp_extension
cpp_extension.load("stand_in", sys.argv[1:2], build_directory=sys.argv[2], is_python_module=False,
                   extra_cflags=["-O0"])
"""


def why_impossible() -> str:
    """Why the device cannot be built here; empty if it can."""
    if os.name == "nt":
        return "the stand-in device is built with the flags of GCC and Clang"
    if not any(map(shutil.which, _COMPILERS)):
        return f"no C++ compiler is on the path ({', '.join(_COMPILERS)})"
    if not shutil.which("ninja"):
        return "torch builds C++ extensions with ninja, which is not on the path"
    return ""


def library(cache: Path) -> Path:
    """The device's library, built below ``cache`` unless it is there (15 s of processor time)."""
    key = hashlib.sha256(SOURCE.read_bytes() + torch.__version__.encode()).hexdigest()[:12]
    folder = cache / key
    done = folder / "stand_in.so"
    if not done.exists():
        making = cache / f"{key}-{os.getpid()}"
        making.mkdir(parents=True)
        # in a process of its own: loading it makes the device
        subprocess.run(
            [sys.executable, "-c", _BUILD, str(SOURCE), str(making)],
            check=True, capture_output=True, timeout=600.0,
        )  # fmt: skip
        try:
            making.rename(folder)
        except OSError:  # another process was faster
            shutil.rmtree(making)
    return done


def variables(built: Path, vices: str = "", seconds: float = 0.0) -> dict[str, str]:
    """The environment that gives a process the device with these vices, whose import takes
    ``seconds``."""
    return {
        "STAND_IN_LIBRARY": str(built),
        "STAND_IN_VICES": vices,
        "STAND_IN_IMPORT_SECONDS": f"{seconds:g}",
    }
