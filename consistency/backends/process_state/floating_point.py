"""The floating-point environment of the C library: rounding mode, subnormal numbers, traps.

It belongs to a thread. Arithmetic shows how this thread rounds; the C library's ``fegetenv`` and
``fesetenv`` set everything back, also what arithmetic does not show.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import platform
import sys
from typing import Any

from .state import State

_SIZE = 512  # bytes; every platform's fenv_t is smaller
_TINY, _LEAST = 2.0**-1022, 2.0**-1074  # the smallest normal and the smallest subnormal number
_ONE, _EPSILON, _HALF = 1.0, 2.0**-53, 0.5
_X86_64 = platform.machine().lower() in ("x86_64", "amd64") and sys.platform.startswith("linux")
# In glibc's fenv_t of x86-64: the control word of the x87, and MXCSR with six bits of past events.
_X87_CONTROL, _MXCSR, _EVENTS = 0, 28, 0x3F
_Environment = tuple[bool, bool, float, float, int, int]


@functools.cache
def _library() -> Any:
    """The C library's ``fegetenv`` and ``fesetenv``; None where it does not offer them."""
    for name in (None, "ucrtbase", ctypes.util.find_library("m")):
        try:
            library = ctypes.CDLL(name)
            return library.fegetenv, library.fesetenv
        except (OSError, AttributeError, TypeError):
            continue
    return None


_buffer = ctypes.create_string_buffer(_SIZE)
_x87 = ctypes.c_uint16.from_buffer(_buffer, _X87_CONTROL)
_mxcsr = ctypes.c_uint32.from_buffer(_buffer, _MXCSR)
_saved: dict[_Environment, bytes] = {}


def _read() -> _Environment:
    """Whether results and operands are flushed, how this thread rounds, and its control words."""
    x87 = mxcsr = 0
    if _X86_64 and (functions := _library()) is not None:
        functions[0](_buffer)
        x87, mxcsr = _x87.value, _mxcsr.value & ~_EVENTS
    arithmetic = (_TINY * _HALF == 0.0, _LEAST * _ONE == 0.0, _ONE + _EPSILON, -_ONE - _EPSILON)
    environment = (*arithmetic, x87, mxcsr)
    if environment not in _saved and len(_saved) < _MOST:
        functions = _library()
        if functions is not None:
            functions[0](_buffer)
            _saved[environment] = _buffer.raw
    return environment


_MOST = 64  # environments that are remembered


def _write(environment: _Environment) -> None:
    import torch

    functions = _library()
    if functions is not None and environment in _saved:
        functions[1](ctypes.create_string_buffer(_saved[environment], _SIZE))
    elif environment[0] != _read()[0]:
        torch.set_flush_denormal(environment[0])


def _told(before: _Environment, after: _Environment) -> str:
    return f"{_words(before)} → {_words(after)}"


def _words(environment: _Environment) -> str:
    flushed, ignored, up, down, x87, mxcsr = environment
    rounding = {
        (False, False): "to nearest",
        (True, False): "upward",
        (False, True): "downward",
    }.get((up > 1.0, down < -1.0), "as it should not")
    subnormals = "kept" if not flushed and not ignored else "flushed to zero"
    control = f", control words {x87:#x} and {mxcsr:#x}" if mxcsr else ""
    return f"rounding {rounding}, subnormal numbers {subnormals}{control}"


STATES = (State("the floating-point environment", _read,
                _write, _told),)  # fmt: skip
