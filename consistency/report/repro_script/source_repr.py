"""Arguments, views and calls as Python source.

Values may come from an untrusted file: names become source only if they are identifiers, text only
as a literal.
"""

from __future__ import annotations

import functools
import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...core import dtypes
from ...core.recipe import Literal, Step, TensorRecipe
from .script_context import Sheet, UnscriptableError
from .tensor_literals import scalar

# Methods that Python writes as operators.
_INFIX = {
    "__add__": "+", "__sub__": "-", "__mul__": "*", "__truediv__": "/", "__floordiv__": "//",
    "__mod__": "%", "__pow__": "**",
    "__matmul__": "@", "__and__": "&", "__or__": "|", "__xor__": "^", "__lshift__": "<<",
    "__rshift__": ">>",
    "__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">=",
}  # fmt: skip
_REFLECTED = {f"__r{name[2:]}": sign for name, sign in _INFIX.items()} | {"__rdiv__": "/"}
ASSIGNED = {f"__i{name[2:]}": f"{sign}=" for name, sign in _INFIX.items()} | {"__idiv__": "/="}
_PREFIX = {"__neg__": "-", "__invert__": "~", "__pos__": "+"}
_HIDDEN = (
    "_nn",
    "_linalg",
    "_special",
    "_fft",
    "",
)  # modules of torch._C that hold what has no public name

Name = Callable[[torch.Tensor], str | None]


class Speller:
    """Values as source. ``name`` returns a tensor's variable; ``types`` are the script's names for
    converted dtypes."""

    def __init__(self, sheet: Sheet, name: Name, types: Mapping[torch.dtype, str]) -> None:
        self.sheet, self.name, self.types = sheet, name, types

    def value(self, value: Any) -> str:
        """Raises UnscriptableError for what has no source."""
        match value:
            case torch.Tensor():
                return self._tensor(value)
            case torch.dtype():
                return self.types.get(value) or str(value)
            case torch.device():
                return "device"
            case torch.memory_format() | torch.layout():
                return str(value)
            case slice():
                return (
                    f"slice({self.value(value.start)}, {self.value(value.stop)}, "
                    f"{self.value(value.step)})"
                )
            case torch.Size() | tuple():
                items = [self.value(item) for item in value]
                return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
            case list():
                return f"[{', '.join(map(self.value, value))}]"
            case dict():
                return (
                    "{"
                    + ", ".join(f"{key!r}: {self.value(item)}" for key, item in value.items())
                    + "}"
                )
            case _ if value is Ellipsis:
                return "..."
            case None | bool() | int() | float() | complex() | str():
                return scalar(value, self.sheet)
        raise UnscriptableError(f"an argument of type {type(value).__name__} has no source")

    def _tensor(self, tensor: torch.Tensor) -> str:
        variable = self.name(tensor)
        if variable is not None:
            return variable
        if tensor.ndim == 0 and not tensor.requires_grad:
            return (
                f"torch.tensor({scalar(tensor.item(), self.sheet)}, "
                f"dtype={self.value(tensor.dtype)})"
            )
        raise UnscriptableError("a tensor comes from somewhere that cannot be followed")

    def call(self, function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The expression for ``function(*args, **kwargs)``, where ``function`` is a dotted name
        such as ``torch.Tensor.add``."""
        kind, _, last = function.rpartition(".")
        arguments = [
            *map(self.value, args),
            *(f"{identifier(key)}={self.value(value)}" for key, value in kwargs.items()),
        ]
        if kind != "torch.Tensor" or not args:
            return f"{function}({', '.join(arguments)})"
        first, *others = arguments
        receiver = first if first.isidentifier() or first.endswith(("]", ")")) else f"({first})"
        if last == "__getitem__":
            return f"{receiver}[{self.index(args[1])}]"
        if last in _INFIX and len(arguments) == 2:
            return f"{operand(first)} {_INFIX[last]} {operand(arguments[1])}"
        if last in _REFLECTED and len(arguments) == 2:
            return f"{operand(arguments[1])} {_REFLECTED[last]} {operand(first)}"
        if last in _PREFIX:
            return f"{_PREFIX[last]}{operand(first)}"
        return f"{receiver}.{last}({', '.join(others)})"

    def statement(self, function: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """A call for its effect as a statement: ``x[0] = y``, ``x += y``."""
        _, _, last = function.rpartition(".")
        if last == "__setitem__":
            return f"{self.value(args[0])}[{self.index(args[1])}] = {self.value(args[2])}"
        if last in ASSIGNED and len(args) == 2:
            return f"{self.value(args[0])} {ASSIGNED[last]} {self.value(args[1])}"
        return self.call(function, args, kwargs)

    def index(self, key: Any) -> str:
        """The source of an index, without brackets."""
        items = list(key) if isinstance(key, tuple) else [key]
        text = ", ".join(
            _slice(item, self.value) if isinstance(item, slice) else self.value(item)
            for item in items
        )
        return text + "," if isinstance(key, tuple) and len(items) == 1 else text or "()"


def operand(text: str) -> str:
    """The text, in parentheses if an adjacent operator could change its meaning."""
    called = text.endswith((")", "]")) and " " not in text.split("(")[0]
    simple = text.isidentifier() or text.replace(".", "", 1).isdigit() or called
    return text if simple and not text.startswith("-") else f"({text})"


def _slice(item: slice, value: Callable[[Any], str]) -> str:
    start, stop, step = (
        "" if part is None else value(part) for part in (item.start, item.stop, item.step)
    )
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def identifier(name: str) -> str:
    """An untrusted ``name``. Raises UnscriptableError if it is not the name of an argument."""
    if not name.isidentifier() or keyword.iskeyword(name) or not name.isascii():
        raise UnscriptableError(f"{name!r:.40} is no name of an argument")
    return name


def qualified_name(function: Any) -> str | None:
    """The public name of a torch function: ``torch.nn.functional.gelu``, ``torch.Tensor.add``,
    ``torch.Tensor.T.__get__``."""
    name = torch.overrides.resolve_name(function)
    if name is None:
        name = _index().get(id(function))
    if name is None:
        last = getattr(function, "__name__", "")
        return next(
            (f"torch.{last}" for _ in [0] if last and getattr(torch, last, None) == function), None
        )
    if name.startswith("aten"):
        return f"torch.ops.{name.replace('::', '.')}"
    return (
        "torch." + name.removeprefix("torch.functional.")
        if name.startswith("torch.functional.")
        else str(name)
    )


@functools.cache
def _index() -> dict[int, str]:
    """Functions without a public name, by identity."""
    names: dict[int, str] = {}
    for hidden in _HIDDEN:
        path = f"torch._C.{hidden}" if hidden else "torch"
        module: Any = getattr(torch._C, hidden, None) if hidden else torch
        for name in dir(module):
            if not name.startswith("__"):
                names[id(getattr(module, name, None))] = f"{path}.{name}"
    return names


def chain(arg: TensorRecipe | Literal) -> str:
    """The views from the flat base to the argument: ``.view(2, 4)[:, ::2].transpose(0, 1)``."""
    if isinstance(arg, Literal) and not arg.view:
        return _view_call(arg)
    text = "" if len(arg.base) == 1 else f".view({', '.join(map(str, arg.base)) or '()'})"
    return text + "".join(map(_step, arg.view))


def _view_call(arg: Literal) -> str:
    elements = len(arg.data) // dtypes.TORCH[arg.dtype].itemsize
    expected, contiguous = 1, not arg.offset and math.prod(arg.shape) == elements
    for size, stride in zip(reversed(arg.shape), reversed(arg.stride), strict=True):
        contiguous &= stride == expected
        expected *= size
    if contiguous:
        return "" if len(arg.shape) == 1 else f".view({', '.join(map(str, arg.shape)) or '()'})"
    return f".as_strided({tuple(arg.shape)}, {tuple(arg.stride)}, {arg.offset})"


def _step(step: Step) -> str:
    name, *numbers = step
    if name == "slice":
        dim, start, stop, stride = numbers
        return f"[{':, ' * dim}{_slice(slice(start, stop, stride), str)}]"
    if name == "as_strided":
        n = len(numbers) // 2
        return f".as_strided({tuple(numbers[:n])}, {tuple(numbers[n:-1])}, {numbers[-1]})"
    return f".{name}({', '.join(map(str, numbers))})"
