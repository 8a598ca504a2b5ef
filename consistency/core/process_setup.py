"""What makes a process of ours faster; this module does not import torch."""

from __future__ import annotations

import gc
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


def freeze_garbage() -> None:
    """Exclude the million objects of torch's import from garbage collection, which took a twentieth
    of a run. To be called when torch is loaded."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
