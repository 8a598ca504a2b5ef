"""Load a user's own backend from ``module:attribute`` or ``path/to/file.py:attribute``; errors
become one clear line."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import ConsistencyError, UsageError, did_you_mean
from ._messages import told
from .base import Backend
from .process_state import StateGuard

_IMPORT_FRAMES = (
    __file__,
    "<frozen importlib._bootstrap>",
    "<frozen importlib._bootstrap_external>",
    importlib.__file__,
)
_EXPECTED = (
    "a consistency.Backend, a subclass of it, or a function without arguments that returns one"
)


def load(spec: str, *, here: bool = False) -> Backend:
    """The backend at ``module:attribute`` or ``file.py:attribute``. Raises UsageError.

    What importing and making it changes in global state is restored, unless this process was
    started for it (``here``): there it may set up what it needs.
    """
    what = f"backend {spec!r:.80}: {spec.rpartition(':')[2]}"
    if here:
        return made(imported(spec, "backend"), what)
    guard = StateGuard()
    try:
        backend = made(imported(spec, "backend"), what)
    finally:
        changes = guard.restore()
    backend.state_changes.add(changes)
    return backend


def imported(spec: str, kind: str) -> Any:
    """The attribute at ``module:attribute`` or ``file.py:attribute``; ``kind`` describes it. Raises
    UsageError."""
    place, _, attribute = spec.rpartition(":")
    isfile = place.endswith(".py") or "/" in place or "\\" in place
    label = f"{kind} {spec!r:.80}"
    value: Any = _guarded(
        lambda: _file(place, label) if isfile else _module(place, label),
        f"{label}: importing {place}",
    )
    for name in attribute.split("."):
        if not hasattr(value, name):
            public = [name_ for name_ in dir(value) if not name_.startswith("_")]
            raise UsageError(f"{label}: {place} has no {name!r:.80}{did_you_mean(name, public)}")
        value = getattr(value, name)
    return value


def made(value: Any, what: str) -> Backend:
    """A Backend from an instance, a subclass or a factory. Raises UsageError; ``what`` begins its
    line."""
    backend = value
    if not isinstance(value, Backend) and callable(value):
        if isinstance(value, type) and not issubclass(value, Backend):
            raise UsageError(f"{what} is the class {value.__name__}; expected {_EXPECTED}")
        backend = _guarded(
            value, f"{what}: {'its constructor' if isinstance(value, type) else 'calling it'}"
        )
        what = f"{what}: its result" if not isinstance(value, type) else what
    if not isinstance(backend, Backend):
        raise UsageError(f"{what} is {_article(backend)}; expected {_EXPECTED}")
    name = backend.name
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise UsageError(f"{what}: its name is {name!r:.80}; expected a short text such as 'mine'")
    if not isinstance(backend.device, str):
        backend.device = str(backend.device)
    return backend


def _file(place: str, label: str) -> ModuleType:
    path = Path(place).expanduser().absolute()
    if path.suffix != ".py":
        raise UsageError(f"{label}: {place} is not a .py file")
    if not path.is_file():
        raise UsageError(f"{label}: there is no file {place}")
    name = f"consistency_user_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    module_spec = importlib.util.spec_from_file_location(name, path)
    if module_spec is None or module_spec.loader is None:
        raise UsageError(f"{label}: Python cannot import {place}")
    if str(path.parent) not in sys.path:  # so that it can import its neighbors, as a script can
        sys.path.append(str(path.parent))
    module = importlib.util.module_from_spec(module_spec)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up here
    try:
        module_spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _module(place: str, label: str) -> ModuleType:
    directory = str(Path.cwd())
    if (
        directory not in sys.path and "" not in sys.path
    ):  # a console script starts without the current folder on its path
        sys.path.append(directory)
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name and (place == error.name or place.startswith(f"{error.name}.")):
            device = ", and no device of that name" if label.startswith("backend") else ""
            raise UsageError(f"{label}: there is no module {error.name!r:.80}{device}") from None
        raise


def _guarded(function: Callable[[], Any], what: str) -> Any:
    """``function()``; its exceptions become one line, except our own errors and
    KeyboardInterrupt."""
    try:
        return function()
    except (ConsistencyError, KeyboardInterrupt):
        raise
    except BaseException as error:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename not in _IMPORT_FRAMES
        ]
        last = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
        raise UsageError(f"{what} raised {told(error)}{last}") from None


def _article(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"
