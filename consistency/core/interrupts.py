"""Whether Ctrl-C was pressed: what a backend raises by that name is its own failure, and ends no
run."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn


class _Interrupts:
    watched = pressed = False


def was_pressed() -> bool:
    """Whether a KeyboardInterrupt comes from the user; true, too, where nobody watches."""
    return _Interrupts.pressed or not _Interrupts.watched


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Note interrupts meanwhile. They raise KeyboardInterrupt as ever. Nothing changes in other
    threads than the main one, and where somebody else handles the signal."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    _Interrupts.watched, _Interrupts.pressed = True, False
    signal.signal(signal.SIGINT, _interrupted)
    try:
        yield
    finally:
        _Interrupts.watched = False
        if signal.getsignal(signal.SIGINT) is _interrupted:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _interrupted(number: int, frame: FrameType | None) -> NoReturn:
    _Interrupts.pressed = True
    raise KeyboardInterrupt
