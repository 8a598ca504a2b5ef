"""A user's formula over the arguments of an operator, such as ``x @ W.T + b``. It is parsed, never
evaluated as Python."""

from __future__ import annotations

import ast
import math
import operator as python
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...errors import UsageError, did_you_mean
from ...operators.catalog.functions import function_named

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: python.add, ast.Sub: python.sub, ast.Mult: python.mul, ast.Div: python.truediv,
    ast.Pow: python.pow,
    ast.MatMult: python.matmul,
}  # fmt: skip
# Options of torch's functions that are texts.
_OPTIONS = frozenset(
    {
        "approximate", "interpolation", "mode", "norm", "ord", "padding", "padding_mode", "reduce",
        "reduction", "rounding_mode", "side",
    }
)  # fmt: skip
_PROPERTIES = ("T", "mT", "H", "mH")
_MODULES = ("torch", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft")
MAX_LENGTH = 500
MAX_POWER = 64.0

Compiled = Callable[[Mapping[str, Any]], Any]


def compiled(text: str, names: Sequence[str], spelled: Mapping[str, str] | None = None) -> Compiled:
    """The formula as a function of the arguments by name. ``spelled``: other names for some of
    them. Raises UsageError with the part that is not supported."""
    if len(text) > MAX_LENGTH:
        raise UsageError(f"a formula of {len(text)} characters; at most {MAX_LENGTH} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(
            f"the formula {text!r:.80} cannot be read: "
            f"{getattr(error, 'msg', None) or type(error).__name__}"
        ) from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in (spelled or {}) and node.id not in names:
            node.id = (spelled or {})[node.id]
    return _compile_node(tree, tuple(names), text)


def _compile_node(node: ast.AST, names: tuple[str, ...], text: str) -> Compiled:
    def inner(part: ast.AST) -> Compiled:
        return _compile_node(part, names, text)

    match node:
        case ast.Name(id=name):
            if name not in names:
                hint = did_you_mean(name, names) or f"; its arguments are {', '.join(names)}"
                raise UsageError(f"the formula {text!r:.80}: what is {name!r}?{hint}")
            return lambda values: values[name]
        case ast.Constant(value=value) if isinstance(value, (bool, int, float)) or value is None:
            return lambda values: value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            of = inner(operand)
            return lambda values: -of(values)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            a, b, function_ = inner(left), inner(right), _BINARY[type(op)]
            return lambda values: function_(*_bounded(function_, a(values), b(values)))
        case ast.Subscript(value=value, slice=index):
            of, place = inner(value), _index(index, names, text)
            return lambda values: of(values)[place(values)]
        case ast.Attribute(value=value, attr=attribute) if attribute in _PROPERTIES:
            of = inner(value)
            return lambda values: getattr(of(values), attribute)
        case ast.Tuple(elts=items) | ast.List(elts=items):
            parts = [inner(item) for item in items]
            return lambda values: [part(values) for part in parts]
        case ast.Call(func=function, args=arguments, keywords=keywords):
            called, first = _function(function, names, text)
            parts = [
                *([inner(first)] if first is not None else []),
                *(_equation(item, called) or inner(item) for item in arguments),
            ]
            named = {
                word.arg: _option(word) or inner(word.value)
                for word in keywords
                if word.arg is not None
            }
            if len(named) != len(keywords):
                source = ast.unparse(node)
                raise UsageError(f"the formula {text!r:.80}: {source!r:.60} is not understood")
            return lambda values: called(
                *[part(values) for part in parts], **{k: part(values) for k, part in named.items()}
            )
    raise UsageError(
        f"the formula {text!r:.80}: {ast.unparse(node)!r:.60} is not understood; numbers, + - * / "
        "** @, .T, [1:] and calls are"
    )


def _constant(value: Any) -> Compiled:
    return lambda values: value


def _equation(node: ast.AST, called: Callable[..., Any]) -> Compiled | None:
    """The text that says what einsum sums over; None for anything else. No other function gets a
    text by position: some would take it for the name of a file."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and called is torch.einsum:
        return _constant(node.value)
    return None


def _option(word: ast.keyword) -> Compiled | None:
    """The text of an option that chooses between ways to compute."""
    is_text = isinstance(word.value, ast.Constant) and isinstance(word.value.value, str)
    return _constant(word.value.value) if is_text and word.arg in _OPTIONS else None  # type: ignore[attr-defined]


def _index(node: ast.AST, names: tuple[str, ...], text: str) -> Compiled:
    """What stands between brackets: whole numbers, slices, sizes, ``None`` and ``...``, or several
    of them."""

    def part(item: ast.AST | None) -> Compiled:
        if item is None:
            return _constant(None)
        if isinstance(item, ast.Constant) and item.value is Ellipsis:
            return _constant(Ellipsis)
        if isinstance(item, ast.Slice):
            bounds = [part(bound) for bound in (item.lower, item.upper, item.step)]
            return lambda values: slice(*(bound(values) for bound in bounds))
        found = _compile_node(item, names, text)
        return lambda values: _whole(found(values), text)

    if isinstance(node, ast.Tuple):
        parts = [part(item) for item in node.elts]
        return lambda values: tuple(each(values) for each in parts)
    return part(node)


def _whole(value: Any, text: str) -> Any:
    """A position; a quotient of sizes, such as N / 2, is rounded down."""
    if value is None or isinstance(value, (int, torch.Tensor)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return math.floor(value)
    raise UsageError(f"the formula {text!r:.80}: {value!r:.40} is no position")


def _bounded(function: Callable[[Any, Any], Any], a: Any, b: Any) -> tuple[Any, Any]:
    """The operands, with an upper limit for the exponent of plain numbers, whose power could take
    forever."""
    if (
        function is python.pow
        and not isinstance(a, torch.Tensor)
        and not isinstance(b, torch.Tensor)
    ):
        return float(a), min(float(b), MAX_POWER)
    return a, b


def _function(
    node: ast.AST, names: tuple[str, ...], text: str
) -> tuple[Callable[..., Any], ast.AST | None]:
    """The called function: a method of a value (and that value), or a function of torch."""
    match node:
        case ast.Attribute(value=value, attr=name):
            dotted = ast.unparse(node)
            if dotted.startswith("F.") and "F" not in names:
                dotted = f"torch.nn.functional.{dotted.removeprefix('F.')}"
            if dotted.split(".")[0] not in (*names, "torch"):
                return _method(name, text), value
            if dotted.startswith("torch."):
                return _torch_function([dotted], dotted, text), None
            return _method(name, text), value
        case ast.Name(id=name):
            return _torch_function([f"{module}.{name}" for module in _MODULES], name, text), None
    raise UsageError(f"the formula {text!r:.80}: {ast.unparse(node)!r:.60} cannot be called")


def _method(name: str, text: str) -> Callable[..., Any]:
    return _torch_function([f"Tensor.{name}"], name, text)


def _torch_function(places: Sequence[str], name: str, text: str) -> Callable[..., Any]:
    for place in places:
        try:
            return function_named(place)
        except UsageError:
            continue
    raise UsageError(f"the formula {text!r:.80}: torch has no function {name!r:.40} of tensors")
