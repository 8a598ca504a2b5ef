"""Read all global state before foreign code runs, and set back afterwards what it changed."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from . import (
    floating_point,
    functions,
    kernels,
    numpy_states,
    python_states,
    torch_modes,
    torch_switches,
)
from .state import State, shown

STATES: tuple[State, ...] = (
    *python_states.FIRST,
    *torch_modes.STATES,
    *torch_switches.STATES,
    *torch_modes.KEYS,
    *floating_point.STATES,
    *numpy_states.STATES,
    *python_states.STATES,
    State("sys.modules", functions.modules, functions.write_modules),
    *kernels.STATES,
)
_READS = tuple(state.read for state in STATES)
_UNREADABLE = "unreadable"
_generator = torch.default_generator


class StateGuard:
    """Global state as it was when this was made.

    It holds for the thread that made it: modes, autocast and rounding belong to a thread.
    """

    __slots__ = ("_before", "_numbers", "_patched")

    def __init__(self) -> None:
        self._patched = functions.patched()
        self._patched.look()
        self._before = [read() for read in _READS]
        self._numbers = _generator.get_state()

    def restore(self) -> tuple[str, ...]:
        """Set back what has changed, and say what it was, such as
        ``torch.get_default_dtype(): torch.float32 → torch.float64``.

        Empty if nothing has changed, apart from random numbers that were drawn.
        """
        told = self._patched.restore()
        try:
            same = [read() for read in _READS] == self._before
        except Exception:  # a state that cannot be read has changed
            same = False
        if not same:
            told += self._set_back()
            self._patched.look()  # torch.Storage is set with the default dtype
        _generator.set_state(self._numbers)
        return tuple(told)

    def _set_back(self) -> list[str]:
        told: list[str] = []
        implied: list[str] = []
        for state, before in zip(STATES, self._before, strict=True):
            after = _read(state)
            if _equal(before, after):
                continue
            try:
                words = shown(after) if after is _UNREADABLE else state.told(before, after)
            except Exception:
                words = f"{shown(before)} → {shown(after)}"
            failed = _write(state, before)
            if words:
                (implied if state.implied else told).append(f"{state.name}: {words}{failed}")
        return told or implied


def _read(state: State) -> Any:
    try:
        return state.read()
    except Exception:
        return _UNREADABLE


def _equal(before: Any, after: Any) -> bool:
    try:
        return bool(before == after)
    except Exception:
        return before is after


def _write(state: State, before: Any) -> str:
    """Set a state; the text that says that it could not be set, empty if it could."""
    with contextlib.suppress(Exception):
        state.write(before)
        return ""
    return " (and could not be restored)"
