"""The environment of a result: versions, device, driver, operating system, switches."""

from __future__ import annotations

import platform
from collections.abc import Mapping

import numpy as np
import torch

from ...core.model import Result
from ...core.version import __version__

_FIRST = (
    "torch",
    "torch_directml",
    "device",
    "driver",
    "cuda",
    "cudnn",
    "hip",
    "compute capability",
    "os",
    "python",
    "numpy",
    "processor",
)
_BUILD = (
    "torch commit",
    "compiler",
    "built for",
    "build type",
    "blas",
    "lapack",
    "mkl",
    "onednn version",
)
_NAMED = {
    "os": "OS",
    "python": "Python",
    "numpy": "NumPy",
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "hip": "HIP",
}
_TOLD = (
    "backend",
    "adapter_name",
    "driver_version",
    "recorded",
    "description",
)  # of recordings: said elsewhere, or no switch
_LONG = 400  # characters of one value


def here() -> dict[str, str]:
    """The environment of this process, which judged the result, and on the CPU also computed it."""
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    return {
        "os": system, "python": platform.python_version(), "torch": torch.__version__,
        "numpy": np.__version__,
        "consistency": __version__,
    }  # fmt: skip


def of_backend(result: Result, identity: Mapping[str, str]) -> dict[str, str]:
    """The environment of the backend. If it ran in this process, missing entries are this
    process's."""
    given = {str(key): str(value)[:_LONG] for key, value in identity.items() if str(value)}
    if result.recorded_id:
        return given
    ours = here()
    return {
        "torch": ours["torch"],
        "numpy": ours["numpy"],
        "os": ours["os"],
        "python": ours["python"],
    } | given


def rows(result: Result, identity: Mapping[str, str]) -> list[tuple[str, str]]:
    """The rows of a table of versions: the well-known entries, and all others in a last row."""
    found = of_backend(result, identity)
    known = [
        (_NAMED.get(key, key), found[key])
        for key in _FIRST
        if found.get(key) and (key, found[key]) != ("device", "cpu")
    ]
    built = [
        value if key in ("compiler", "built for") else f"{key} {value}"
        for key in _BUILD
        if (value := found.get(key))
    ]
    if built:
        known.append(("build", "; ".join(built)))
    others = [
        f"{key} {value}"
        for key, value in sorted(found.items())
        if key not in (*_FIRST, *_TOLD, *_BUILD)
    ]
    if others:
        known.append(("switches", "; ".join(others)))
    if result.recorded_id:
        known.append(("judged with", f"torch {torch.__version__}, where the outputs were not made"))
    return known
