"""Start a Python process of ours; needs neither torch nor NumPy."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parents[1]
# The package is loaded from its own folder only: what lies beside it belongs to another
# interpreter.
LOAD = """
import importlib.util, sys
root = sys.argv[1]
spec = importlib.util.spec_from_file_location(
    "consistency", root + "/__init__.py", submodule_search_locations=[root])
module = importlib.util.module_from_spec(spec)
sys.modules["consistency"] = module
spec.loader.exec_module(module)
from consistency.core.process_setup import postpone_garbage
postpone_garbage()
"""


def changed_environment(changes: Mapping[str, str | None]) -> dict[str, str]:
    """The variables of a process of ours: this one's with ``changes`` (None removes one)."""
    # Waiting threads of torch should sleep: spinning, they take the cores from the process that
    # judges meanwhile.
    variables = {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, **changes}
    # What pytest writes there several times a test would tell processes apart that are alike.
    variables.pop("PYTEST_CURRENT_TEST", None)
    return {key: value for key, value in variables.items() if value is not None}


def command(python: str, program: str) -> list[str]:
    """The command line of ``python`` with ``program`` (:data:`LOAD` and the code after it)."""
    return [python, "-X", "utf8", "-c", program, str(_PACKAGE)]


def start(python: str, program: str, environment: Mapping[str, str]) -> Any:
    """A new process with pipes, apart from the terminal's signals. Raises OSError."""
    options: dict[str, Any] = {
        "start_new_session": True
    }  # Ctrl-C goes to the run, which then ends its workers
    if os.name == "nt":
        flags = ("CREATE_NEW_PROCESS_GROUP", "CREATE_NO_WINDOW")
        options = {"creationflags": sum(getattr(subprocess, flag, 0) for flag in flags)}
    return subprocess.Popen(
        command(python, program), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=environment,
        **options,
    )  # fmt: skip
