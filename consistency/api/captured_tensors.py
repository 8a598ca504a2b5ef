"""The tensors that a user's function takes from around it: parameters and buffers of modules,
closures, globals, defaults, attributes of objects.

For the time of a call they are replaced where they are, and put back afterwards, so that every
reference to one of them sees the same replacement.
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from ..errors import UsageError

PREFIX = "captured_"
MAX_OBJECTS = 100_000  # that are looked at: what a function reaches beyond is not found
# Whose globals and objects hold no tensors of the user's.
_OTHERS = frozenset({"torch", "torchgen", "functorch", "numpy", "triton", "pytest", "hypothesis"})
_Put = Callable[[Any], None]


@dataclass(eq=False)
class CapturedTensors:
    """The captured tensors by name (``0.weight``, ``W``); ``places`` are, per tensor, the functions
    that put another one in its place, and what they put back afterwards."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    places: list[tuple[str, _Put, _Put, Any]] = field(default_factory=list)

    @contextlib.contextmanager
    def replaced(self, values: Mapping[str, torch.Tensor]) -> Iterator[None]:
        """While active, ``values`` stand in the places of the tensors of these names."""
        done: list[tuple[_Put, Any]] = []
        try:
            for name, put, back, original in self.places:
                if name in values:
                    done.append((back, original))
                    put(values[name])
            yield
        finally:
            for back, original in reversed(done):
                back(original)


def keyword_of(name: str) -> str:
    """The keyword by which a case holds the captured tensor of this name: ``captured_0_weight``."""
    return PREFIX + re.sub(r"\W+", "_", name)


def captured_by(*functions: Any) -> CapturedTensors:
    """What ``functions`` capture, each tensor once. Raises UsageError where a tensor cannot be
    replaced."""
    search = _Search()
    for function in functions:
        if function is not None:
            search.visit(function, "", _not_replaced, (_not_replaced, function))
    return search.found


class _Search:
    def __init__(self) -> None:
        self.found = CapturedTensors()
        self._names: dict[int, str] = {}  # of tensors, by identity
        self._seen: dict[int, Any] = {}  # also keeps them alive, so that identities stay unique

    def visit(self, value: Any, name: str, put: _Put, undo: tuple[_Put, Any]) -> None:
        """``put`` replaces the value; ``undo`` puts back what was there (of a tuple's item, the
        tuple)."""
        if isinstance(value, torch.Tensor):
            known = self._names.get(id(value))
            if known is None:
                known = self._free_name(name or "tensor")
                self._names[id(value)] = known
                self.found.tensors[known] = value
            self.found.places.append((known, put, *undo))
            return
        if id(value) in self._seen or len(self._seen) >= MAX_OBJECTS:
            return
        if isinstance(value, (str, bytes, int, float, complex, torch.dtype)) or value is None:
            return
        self._seen[id(value)] = value
        if isinstance(value, tuple):
            self._tuple(value, name, put, undo)
        elif isinstance(value, list):
            for i, item in enumerate(value):
                self._item(functools.partial(value.__setitem__, i), item, f"{name}[{i}]")
        elif isinstance(value, dict):
            for key, item in list(value.items()):
                text = str(key) if not name else f"{name}[{key!r:.40}]"
                self._item(functools.partial(value.__setitem__, key), item, text)
        elif isinstance(value, FunctionType):
            self._function(value, name)
        elif isinstance(value, MethodType):
            self.visit(value.__self__, name, _not_replaced, (_not_replaced, value.__self__))
            self.visit(value.__func__, name, _not_replaced, (_not_replaced, value.__func__))
        elif isinstance(value, functools.partial):
            self._partial(value, name)
        elif isinstance(value, torch.nn.Module):
            self._module(value, name)
        elif isinstance(value, type) or not _is_others(type(value).__module__):
            self._object(value, name)
        elif hasattr(value, "__wrapped__"):
            self._item(_not_replaced, value.__wrapped__, name)

    def _item(self, put: _Put, value: Any, name: str) -> None:
        self.visit(value, name, put, (put, value))

    def _free_name(self, name: str) -> str:
        taken = {keyword_of(other) for other in self.found.tensors}
        free, number = name, 2
        while keyword_of(free) in taken:
            free, number = f"{name}_{number}", number + 1
        return free

    def _tuple(self, value: tuple[Any, ...], name: str, put: _Put, undo: tuple[_Put, Any]) -> None:
        items = list(value)

        def put_item(position: int, item: Any) -> None:
            items[position] = item
            fields = hasattr(value, "_fields")
            put(type(value)(*items) if fields else type(value)(items))

        def put_back(position: int, original: tuple[Any, ...]) -> None:
            items[position] = original[position]
            undo[0](undo[1])

        for i, item in enumerate(value):
            self.visit(
                item,
                f"{name}[{i}]",
                functools.partial(put_item, i),
                (functools.partial(put_back, i), value),
            )

    def _function(self, value: FunctionType, name: str) -> None:
        for variable, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # an empty cell
                self._item(functools.partial(setattr, cell, "cell_contents"), cell.cell_contents,
                           variable)  # fmt: skip
        defaults = functools.partial(setattr, value, "__defaults__")
        self._item(defaults, value.__defaults__, f"{value.__name__}.__defaults__")
        self._item(_not_replaced, value.__kwdefaults__, "")
        self._item(_not_replaced, vars(value), "")
        space = value.__globals__
        if not _is_others(str(space.get("__name__", ""))):
            names = set(_names_in(value.__code__))
            for variable in sorted(names & space.keys()):
                held = space[variable]
                if isinstance(held, ModuleType):
                    self._python_module(held, names)
                else:
                    put = functools.partial(space.__setitem__, variable)
                    self._item(put, held, variable)

    def _python_module(self, module: ModuleType, names: set[str]) -> None:
        """``settings.W``: what a function names of a module."""
        space = vars(module)
        if not _is_others(module.__name__):
            for variable in sorted(names & space.keys()):
                if not isinstance(space[variable], ModuleType):
                    put = functools.partial(space.__setitem__, variable)
                    self._item(put, space[variable], f"{module.__name__}.{variable}")

    def _partial(self, value: functools.partial[Any], name: str) -> None:
        def put_args(args: tuple[Any, ...]) -> None:
            value.__setstate__((value.func, args, value.keywords, vars(value)))  # type: ignore[attr-defined]

        self._item(_not_replaced, value.func, name)
        self._item(_not_replaced, value.keywords, "")
        self._item(put_args, value.args, f"{name}.args" if name else "args")

    def _module(self, value: torch.nn.Module, name: str) -> None:
        if isinstance(value, torch.jit.ScriptModule):
            text = "holds its weights outside of Python, where they cannot be made float64"
            raise UsageError(f"{name or type(value).__name__} is a scripted module: it {text}; "
                             "give the module that it was scripted from")  # fmt: skip
        prefix = f"{name}." if name else ""
        own = vars(value)
        for group in ("_parameters", "_buffers", "_modules"):
            for key, item in list(own.get(group, {}).items()):
                put = functools.partial(own[group].__setitem__, key)
                self._item(put, item, f"{prefix}{key}".replace("_orig_mod.", ""))
        self._object(value, name, frozenset({"_parameters", "_buffers", "_modules"}))

    def _object(self, value: Any, name: str, known: frozenset[str] = frozenset()) -> None:
        """Attributes, and the functions and attributes of the user's classes."""
        prefix = f"{name}." if name else ""
        if not isinstance(value, type):
            for key, item in list(getattr(value, "__dict__", {}).items()):
                if key not in known:
                    put = functools.partial(_set_attribute, value, key)
                    self._item(put, item, f"{prefix}{key}")
        for kind in (value if isinstance(value, type) else type(value)).__mro__:
            if _is_others(kind.__module__) or id(kind) in self._seen:
                continue
            self._seen[id(kind)] = kind
            for key, item in list(vars(kind).items()):
                if not isinstance(item, (property, staticmethod, classmethod)):
                    self._item(functools.partial(setattr, kind, key), item, f"{prefix}{key}")
                    continue
                function = item.fget if isinstance(item, property) else item.__func__
                self._item(_not_replaced, function, f"{prefix}{key}")


def _set_attribute(value: Any, key: str, item: Any) -> None:
    """In the object's dictionary: frozen dataclasses and modules refuse ``setattr``."""
    vars(value)[key] = item


def _not_replaced(value: Any) -> None:
    """For values that only contain tensors."""


def _names_in(code: CodeType) -> Sequence[str]:
    """The global and attribute names of a function and of those defined in it."""
    nested = [_names_in(item) for item in code.co_consts if isinstance(item, CodeType)]
    return [*code.co_names, *(name for names in nested for name in names)]


def _is_others(module: str) -> bool:
    root = module.partition(".")[0]
    return root in _OTHERS or root in sys.stdlib_module_names or root == "builtins"
