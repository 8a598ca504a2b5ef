"""What makes a process of ours faster; this module does not import torch."""

from __future__ import annotations

import gc
import os
import sys

_USUAL_THRESHOLDS = (700, 2000)  # of Python up to 3.11, and later


def let_waiting_threads_sleep() -> None:
    """Idle threads of torch should not spin for milliseconds on a core that another process of ours
    could use.

    GNU OpenMP spins by default; other OpenMP libraries do not know the variable. Results do not
    depend on it. A value set by the user stays.
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def postpone_garbage() -> None:
    """Few garbage collections while torch and this package load.

    Loading makes a million objects that stay; the usual thresholds walk all of them several times,
    which took a sixth of the processor time of a short command. Only for processes of our own, and
    before torch is loaded; thresholds that someone has chosen stay.
    """
    if "torch" not in sys.modules and gc.get_threshold()[0] in _USUAL_THRESHOLDS:
        gc.set_threshold(100_000, 20, 20)


def freeze_garbage() -> None:
    """Exclude the million objects of torch's import from garbage collection, which took a twentieth
    of a run. To be called when torch is loaded."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
