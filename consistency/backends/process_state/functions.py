"""Functions and constants of torch, NumPy and Python that are replaced by others ("patched").

Everything that this package computes with them after that would be wrong, so the names in their
modules are compared around every call of a user's backend.
"""

from __future__ import annotations

import builtins
import cmath
import ctypes
import functools
import gc
import itertools
import math
import operator
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from .state import from_to

_C: Any = torch._C
_list, _dict, _isinstance, _getattr = list, dict, isinstance, getattr
_MISSING = object()


def _spaces() -> dict[str, Any]:
    """Modules and classes by the name under which users know them."""
    owners: dict[str, Any] = {
        "builtins": builtins, "math": math, "cmath": cmath, "operator": operator,
        "functools": functools, "itertools": itertools,
        "torch": torch, "torch.Tensor": torch.Tensor,
        "torch.nn.functional": torch.nn.functional, "torch.nn.Module": torch.nn.Module,
        "torch.linalg": torch.linalg, "torch.fft": torch.fft, "torch.special": torch.special,
        "torch.autograd": torch.autograd, "torch.autograd.Function": torch.autograd.Function,
        "torch.Generator": torch.Generator, "torch.ops.aten": torch.ops.aten,
        "torch._C._nn": _C._nn, "torch._C._linalg": _C._linalg, "torch._C._fft": _C._fft,
        "torch._C._special": _C._special, "torch._C._autograd": _C._autograd,
        "np": np, "np.linalg": np.linalg, "np.fft": np.fft,
    }  # fmt: skip
    return {name: owner for name, owner in owners.items() if hasattr(owner, "__dict__")}


def _tag(space: Any) -> Any:
    """The number that CPython gives a dictionary, and changes whenever its contents change."""
    return ctypes.c_uint64.from_address(id(space) + _TAG_OFFSET)


_TAG_OFFSET = 24  # bytes: after the object's header and the number of entries


@functools.cache
def has_tags() -> bool:
    """Whether this Python numbers the versions of dictionaries (CPython before 3.14)."""
    if sys.implementation.name != "cpython" or _dict.__sizeof__({}) < _TAG_OFFSET + 8:
        return False

    changes: tuple[Callable[[Any], None], ...] = (
        lambda owner: setattr(owner, "value", 2),
        lambda owner: delattr(owner, "value"),
        lambda owner: setattr(owner, "other", 2),
    )
    owners: tuple[Any, ...] = (type("Scratch", (), {}), ModuleType("scratch"))
    for owner in owners:
        owner.value = 1
        tag = _tag(_space(owner))
        for change in changes:
            before = tag.value
            if len(vars(owner)) == 0 or tag.value != before:  # reading changes nothing
                return False
            change(owner)
            if tag.value == before:
                return False
    return True


def _space(owner: Any) -> dict[str, Any]:
    """The dictionary itself of a module or class, whose ``__dict__`` may be a view of it."""
    space: Any = vars(owner)
    if not _isinstance(space, _dict):
        space = next(one for one in gc.get_referents(space) if _isinstance(one, _dict))
    found: dict[str, Any] = space
    return found


class PatchedFunctions:
    """The names of some modules and classes with their values, as last seen.

    Thousands of names take longer to compare than a small case to compute, so the versions of the
    dictionaries are compared first.
    """

    def __init__(self, *, tags: bool | None = None) -> None:
        self._owners = _spaces()
        self._spaces = [_space(owner) for owner in self._owners.values()]
        self._tags = [_tag(space) for space in self._spaces]
        self._tagged = has_tags() if tags is None else tags
        self._seen: list[dict[str, Any]] = []
        self._versions: list[int] = []
        self.look()

    def _unchanged(self) -> bool:
        if self._tagged:
            return [tag.value for tag in self._tags] == self._versions
        return [_list(space.values()) for space in self._spaces] == [
            _list(seen.values()) for seen in self._seen
        ]

    def look(self) -> None:
        """Take what is there as what it should be."""
        if not self._seen or not self._unchanged():
            self._seen = [_dict(space) for space in self._spaces]
            self._versions = [tag.value for tag in self._tags] if self._tagged else []

    def restore(self) -> list[str]:
        """Set back what was replaced since the last look, and say what it was."""
        if self._unchanged():
            return []
        told = []
        for (name, owner), space, before in zip(
            self._owners.items(), self._spaces, self._seen, strict=True
        ):
            for key in [key for key in before if space.get(key, _MISSING) is not before[key]]:
                old, new = before[key], space.get(key, _MISSING)
                if _counts(key, old) and not _by_its_library(name, key, new):
                    setattr(owner, key, old)
                    what = "removed" if new is _MISSING else "replaced"
                    told.append(f"{name}.{key} was {what}" if callable(old)
                                else f"{name}.{key}: {from_to(old, new)}")  # fmt: skip
            for key in [key for key in space if key not in before]:
                if _hides(owner, key, space[key]):
                    delattr(owner, key)
                    told.append(f"{name}.{key} was replaced")
        self.look()
        return told


def _counts(key: str, value: Any) -> bool:
    """Whether a name stands for a function, a class or a constant; modules are loaded late,
    private variables hold the state of their modules, and ``torch.Storage`` is set with the default
    dtype."""
    if _isinstance(value, ModuleType) or key == "Storage":
        return False
    return callable(value) or not key.startswith("_")


def _by_its_library(name: str, key: str, new: Any) -> bool:
    """Whether torch or NumPy replaced a function of its own: torch wraps ``manual_seed`` and
    ``nn.Module.__init__`` when it loads its compiler. A function's globals show where it
    was written, whatever its name says."""
    while _isinstance(new, functools.partial):
        new = new.func
    root = name.partition(".")[0].replace("np", "numpy")
    if not _isinstance(new, FunctionType) or root not in ("torch", "numpy"):
        return False
    written = str(new.__globals__.get("__name__", "")).partition(".")[0]
    return written == root and (new.__name__ == key or "<locals>" in new.__qualname__)


def _hides(owner: Any, key: str, value: Any) -> bool:
    """Whether a new name hides a method of a base class, or is no operator where only operators
    are loaded late."""
    if owner is torch.ops.aten:
        return _isinstance(value, (FunctionType, functools.partial))
    return _isinstance(owner, type) and any(key in vars(base) for base in owner.__mro__[1:])


@functools.cache
def patched() -> PatchedFunctions:
    """The functions of this process. The first call should come before any user's code."""
    return PatchedFunctions()


# Modules that other code imports by name: another module in their place would be used instead.
_MODULES = ("torch", "numpy", "builtins", "math", "operator", "functools", "torch.nn.functional")
_modules = sys.modules


def modules() -> list[Any]:
    """What ``import torch`` and the like give."""
    return [_modules.get(name) for name in _MODULES]


def write_modules(before: list[Any]) -> None:
    """Set them back."""
    for name, module in zip(_MODULES, before, strict=True):
        _modules[name] = module
