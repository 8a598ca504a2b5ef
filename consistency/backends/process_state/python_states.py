"""Python's own global state: the interpreter, the process, and what the standard library keeps."""

from __future__ import annotations

import decimal
import gc
import locale
import logging
import os
import signal
import sys
import threading
import warnings
from typing import Any

from .._numerics import numeric
from .state import State, from_to

_NO_FOLDER = ""


# The recursion limit comes first: with a low one nothing else can be read.
def _attribute(module: Any, name: str, label: str) -> State:
    space = vars(module)
    return State(label, lambda: space[name], lambda before: space.__setitem__(name, before))


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - pathlib's takes longer
    except OSError:  # it was deleted
        return _NO_FOLDER


def _write_folder(before: str) -> None:
    if before:
        os.chdir(before)


_environ: Any = getattr(os.environ, "_data", None)


def _environment() -> dict[Any, Any]:
    return dict(_environ if _environ is not None else os.environ)


def _write_environment(before: dict[Any, Any]) -> None:
    """Set back what changed. Variables that were added and change no number stay: libraries that
    are loaded in a call set such variables for themselves."""
    decode: Any = getattr(os.environ, "decodekey", str)
    value_of: Any = getattr(os.environ, "decodevalue", str)
    now = _environment()
    for key, value in before.items():
        if now.get(key) != value:
            os.environ[decode(key)] = value_of(value)
    for key in now.keys() - before.keys():
        if numeric(decode(key)):
            del os.environ[decode(key)]


def _told_environment(before: dict[Any, Any], after: dict[Any, Any]) -> str:
    decode: Any = getattr(os.environ, "decodekey", str)
    changed = [key for key, value in before.items() if after.get(key) != value]
    changed += [key for key in after.keys() - before.keys() if numeric(decode(key))]
    return "; ".join(
        f"{decode(key)}: {from_to(before.get(key), after.get(key))}" for key in sorted(changed)
    )


_context = decimal.getcontext


def _decimal() -> tuple[int, str]:
    context = _context()
    return (context.prec, context.rounding)


def _write_decimal(before: tuple[int, str]) -> None:
    context = _context()
    context.prec, context.rounding = before


# The C function, without making an enumeration of each answer.
_getsignal: Any = getattr(sys.modules.get("_signal"), "getsignal", signal.getsignal)
_SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGFPE", "SIGSEGV", "SIGABRT", "SIGALRM", "SIGUSR1",
                 "SIGUSR2", "SIGCHLD", "SIGPIPE", "SIGHUP")
    if hasattr(signal, name)
)  # fmt: skip


def _handlers() -> list[Any]:
    return [_getsignal(number) for number in _SIGNALS]


def _write_handlers(before: list[Any]) -> None:
    for number, handler in zip(_SIGNALS, before, strict=True):
        if handler is not None and _getsignal(number) is not handler:
            signal.signal(number, handler)  # raises outside of the main thread


def _told_handlers(before: list[Any], after: list[Any]) -> str:
    return "; ".join(
        f"{number.name}: {from_to(old, new)}"
        for number, old, new in zip(_SIGNALS, before, after, strict=True)
        if old is not new
    )


def _timer() -> bool:
    getitimer: Any = getattr(signal, "getitimer", None)
    return bool(getitimer is not None and getitimer(getattr(signal, "ITIMER_REAL", 0))[0])


def _write_timer(before: bool) -> None:
    setitimer: Any = getattr(signal, "setitimer", None)
    if not before and setitimer is not None:
        setitimer(getattr(signal, "ITIMER_REAL", 0), 0.0)


def _filters() -> list[Any]:
    return list(warnings.filters)


def _write_filters(before: list[Any]) -> None:
    filters: Any = warnings.filters
    filters[:] = before
    vars(warnings).get("_filters_mutated", lambda: None)()


def _told_filters(before: list[Any], after: list[Any]) -> str:
    """Libraries that are loaded in a call add filters of their own: only filters for everything
    are told."""
    old, new = (
        next((entry[0] for entry in entries if entry[1:] == _EVERYTHING), "none")
        for entries in (before, after)
    )
    return f"{old} → {new} for all warnings" if old != new else ""


_EVERYTHING = (None, Warning, None, 0)


def _affinity() -> Any:
    return _sched_getaffinity(0)


_sched_getaffinity: Any = getattr(os, "sched_getaffinity", None)
_LOCALE = locale.LC_ALL
_setlocale: Any = locale._setlocale  # type: ignore[attr-defined]
_root = logging.getLogger()


def _logging() -> tuple[int, int, int]:
    return (logging.root.manager.disable, _root.level, len(_root.handlers))


def _write_logging(before: tuple[int, int, int]) -> None:
    logging.disable(before[0])
    _root.setLevel(before[1])
    del _root.handlers[before[2] :]


FIRST = (State("sys.getrecursionlimit()", sys.getrecursionlimit, sys.setrecursionlimit),)
STATES = (
    _attribute(sys, "stdout", "sys.stdout"),
    _attribute(sys, "stderr", "sys.stderr"),
    _attribute(sys, "stdin", "sys.stdin"),
    _attribute(sys, "excepthook", "sys.excepthook"),
    _attribute(sys, "displayhook", "sys.displayhook"),
    _attribute(sys, "unraisablehook", "sys.unraisablehook"),
    _attribute(threading, "excepthook", "threading.excepthook"),
    State("sys.getswitchinterval()", sys.getswitchinterval, sys.setswitchinterval),
    State("sys.get_int_max_str_digits()", sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    State("sys.gettrace()", sys.gettrace, sys.settrace),
    State("sys.getprofile()", sys.getprofile, sys.setprofile),
    State("gc.isenabled()", gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    State("gc.get_threshold()", gc.get_threshold, lambda before: gc.set_threshold(*before)),
    State("os.getcwd()", _folder, _write_folder),
    State("os.environ", _environment, _write_environment, _told_environment),
    State("signal.getsignal()", _handlers, _write_handlers, _told_handlers),
    State("signal.getitimer()", _timer, _write_timer),
    State("the locale", lambda: _setlocale(_LOCALE), lambda before: _setlocale(_LOCALE, before)),
    State("decimal.getcontext()", _decimal, _write_decimal),
    State("warnings.filters", _filters, _write_filters, _told_filters),
    _attribute(warnings, "showwarning", "warnings.showwarning"),
    State("logging", _logging, _write_logging),
    *(
        [
            State(
                "os.sched_getaffinity(0)", _affinity, lambda before: os.sched_setaffinity(0, before)
            )
        ]
        if _sched_getaffinity is not None
        else []
    ),
)
