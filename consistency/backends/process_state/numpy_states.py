"""NumPy's global state."""

from __future__ import annotations

from typing import Any

import numpy as np

from .state import State, from_to

_geterr, _seterr = np.geterr, np.seterr
_geterrcall, _seterrcall = np.geterrcall, np.seterrcall
_getbufsize, _setbufsize = np.getbufsize, np.setbufsize
_get_printoptions, _set_printoptions = np.get_printoptions, np.set_printoptions
# NumPy 2 keeps errors and buffer size in one variable, which is read ten times as fast.
_variable: Any = getattr(getattr(np, "_core", None), "umath", None)
_variable = getattr(_variable, "_extobj_contextvar", None)


def _errors() -> Any:
    if _variable is not None:
        return _variable.get()
    return (_geterr(), _geterrcall(), _getbufsize())


def _write_errors(before: Any) -> None:
    if _variable is not None:
        _variable.set(before)
        return
    _seterr(**before[0])
    _seterrcall(before[1])
    _setbufsize(before[2])


def _told_errors(before: Any, _: Any) -> str:
    now = _settings()
    _write_errors(before)
    return "; ".join(
        f"{name}: {from_to(old, now[name])}"
        for name, old in _settings().items()
        if old != now[name]
    )


def _settings() -> dict[str, Any]:
    return {**_geterr(), "call": _geterrcall(), "bufsize": _getbufsize()}


def _write_printing(before: dict[str, Any]) -> None:
    _set_printoptions(**{key: value for key, value in before.items() if key != "override_repr"})


STATES = (
    State("np.geterr()", _errors, _write_errors, _told_errors),
    State("np.get_printoptions()", _get_printoptions, _write_printing),
)
