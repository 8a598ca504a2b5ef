"""Functions and constants of torch, NumPy and Python that are replaced by others ("patched").

Everything that this package computes with them after that would be wrong, so the names in their
modules are compared around every call of a user's backend.
"""

from __future__ import annotations

import builtins
import cmath
import contextlib
import functools
import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
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


class PatchedFunctions:
    """The names of some modules and classes with their values, as last seen."""

    def __init__(self) -> None:
        self._owners = _spaces()
        self._spaces: list[Mapping[str, Any]] = [vars(owner) for owner in self._owners.values()]
        self._values: list[Callable[[], Any]] = [space.values for space in self._spaces]
        self._seen: list[list[Any]] = []
        self._named: list[dict[str, Any]] = []
        self._undisturbed = 0
        self.look()

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Within it only this package runs between guarded calls: what was there after one is
        there before the next, and is not looked at again."""
        self.look()
        self._undisturbed += 1
        try:
            yield
        finally:
            self._undisturbed -= 1

    def look(self) -> None:
        """Take what is there as what it should be."""
        if self._undisturbed:
            return
        self.take()

    def take(self) -> None:
        """As ``look``, also while undisturbed: this package has just set them back."""
        if [_list(values()) for values in self._values] != self._seen:
            self._seen = [_list(values()) for values in self._values]
            self._named = [_dict(space) for space in self._spaces]

    def restore(self) -> list[str]:
        """Set back what was replaced since the last look, and say what it was."""
        if [_list(values()) for values in self._values] == self._seen:
            return []
        told = []
        for (name, owner), space, before in zip(
            self._owners.items(), self._spaces, self._named, strict=True
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
        self.take()
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
