"""What must be set before torch is loaded, and so by what is loaded before torch."""

from __future__ import annotations

import os
import sys


def let_waiting_threads_sleep() -> None:
    """Idle threads of torch shall not spin for milliseconds on a core that another process of ours
    could use.

    GNU OpenMP's own default spins on; other OpenMP libraries do not know the variable. No result
    depends on it. What the user set stays.
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
