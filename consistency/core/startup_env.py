"""Environment variables that must be set before torch is loaded; this module does not import
torch."""

from __future__ import annotations

import os
import sys


def let_waiting_threads_sleep() -> None:
    """Idle threads of torch should not spin for milliseconds on a core that another process of ours
    could use.

    GNU OpenMP spins by default; other OpenMP libraries do not know the variable. Results do not
    depend on it. A value set by the user stays.
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
