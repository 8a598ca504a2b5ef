"""How many processes of this machine a run gets if the user names no number."""

from __future__ import annotations

import psutil

from ...backends.subprocess.backend import SubprocessBackend
from ..config import RunConfig, examples_of, operator_dtypes
from ..unit_cases import shipped_count
from .judging_program import MEMORY_OF_ONE, usable_cores

# A process takes three seconds to load torch: with fewer cases for each, it would not pay.
CASES = 1_000


def process_count(config: RunConfig) -> int:
    """One process per core, as far as memory allows and the cases keep them busy.

    One for backends in processes of their own (accelerators), which every judging process would
    start again, and for large cases, which use all cores by themselves.
    """
    owned = any(isinstance(backend, SubprocessBackend) for backend in config.backends)
    if owned or not config.examples:
        return 1
    memory = psutil.virtual_memory().available // MEMORY_OF_ONE
    cases = sum(
        examples_of(config, dtype) + shipped_count(config, operator, dtype)
        for operator, dtype in operator_dtypes(config)
    )
    return max(1, min(usable_cores(), memory, cases // CASES))
