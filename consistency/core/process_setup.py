"""What makes a process of ours faster; this module does not import torch."""

from __future__ import annotations

import gc
import os
import sys

_postponed: list[tuple[int, int, int]] = []  # the thresholds to return to


def let_waiting_threads_sleep() -> None:
    """Idle threads of torch should not spin for milliseconds on a core that another process of ours
    could use.

    GNU OpenMP spins by default; other OpenMP libraries do not know the variable. Results do not
    depend on it. A value set by the user stays.
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def postpone_garbage() -> None:
    """Few garbage collections until :func:`resume_garbage`, in a process of our own that has not
    loaded torch.

    Loading makes a million objects that stay. The usual thresholds walk over all of them several
    times, which took a sixth of the processor time of a short command.
    """
    if "torch" not in sys.modules and not _postponed:
        _postponed.append(gc.get_threshold())
        gc.set_threshold(100_000, 20, 20)


def resume_garbage() -> None:
    """Usual collections, without what was loaded; does nothing if they were not postponed. Called
    before anything is computed: cycles may hold large tensors."""
    if _postponed:
        gc.freeze()
        gc.set_threshold(*_postponed.pop())


def freeze_garbage() -> None:
    """Exclude the million objects of torch's import from garbage collection, which took a twentieth
    of a run. To be called when torch is loaded."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
