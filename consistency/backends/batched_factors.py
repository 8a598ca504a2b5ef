"""Factors of a batch of matrices on the CPU, computed in one thread.

torch factors the matrices of a batch in several threads at once, which MKL does not allow
(pytorch#142815, pytorch#141358): from 151 x 151 on the results are wrong, those of float64, too, or
the call never returns. A call that does not return cannot be stopped in this process; in a worker
process it can, so the defect is left to happen there (``cpu+isolated``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager

import torch

from ..generate.materialize import Arguments
from ..operators.declare import Operator

SAFE_SIZE = 150  # pytorch#142815: right up to 150 x 150

_can_be_stopped = False


def leave_threads() -> None:
    """From now on this process, which another one can stop, factors as torch does."""
    global _can_be_stopped
    _can_be_stopped = True


def needs_one_thread(operator: Operator, arguments: Arguments) -> bool:
    """Whether the call factors matrices that MKL may factor wrongly, or forever."""
    return (
        (operator.form_of or operator).family == "linalg"
        and not _can_be_stopped
        and any(
            t.ndim > 2 and min(t.shape[-2:]) > SAFE_SIZE and t.device.type == "cpu"
            for t in arguments.tensors
        )
    )


def one_thread(operator: Operator, arguments: Arguments) -> AbstractContextManager[None]:
    """Within it torch computes in one thread, if :func:`needs_one_thread`."""
    return _one_thread() if needs_one_thread(operator, arguments) else contextlib.nullcontext()


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
