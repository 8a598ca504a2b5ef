"""Recipes: the small, exact data that a case's arguments are rebuilt from, and their JSON form.

An argument is a JSON scalar, None, a list or tuple of arguments, or one of the small types below.
Canonical JSON (sorted keys, no spaces, ``repr`` floats) makes a case one line, and its hash the
case's identity.
"""

from __future__ import annotations

import hashlib
import json
import math
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import RecipeError
from .text import shown

MAX_ELEMENTS = (
    1 << 28
)  # 2 GiB of float64: a pasted recipe must not be able to fill the machine's memory
MAX_DEPTH = 8
MAX_STOP = 1 << 40
INLINE_BYTES = 512  # literal tensors up to this size travel inside the case's own line

Step = tuple[Any, ...]
Arg = Any  # see the module's docstring: nested tuples of scalars and the classes below


@dataclass(frozen=True, slots=True)
class TensorRecipe:
    """A tensor drawn from the bitstream.

    ``base`` is the shape of a contiguous tensor filled from the window that ends at ``stop``;
    ``view`` is the chain of ordinary views that leads from it to the argument, e.g. ``(("slice", 0,
    1, None, 2), ("transpose", 0, 1))``. ``values`` names the value class and its parameters (see
    :mod:`consistency.generate.value_classes`), ``special`` puts single tokens such as ``"nan"`` or
    ``"-0"`` at flat positions of the base. ``leaf=False``: its gradient is not asked for, as that
    of a model's input is not. ``shared``: it lies in the memory of an earlier tensor of the same
    numbers (:func:`owner`), of which it is a view, and through which its gradient goes; literal
    copies of a case give it memory of its own.
    """

    base: tuple[int, ...]
    dtype: str
    values: tuple[Any, ...] = ("uniform", -1.0, 1.0)
    stop: int = 0
    view: tuple[Step, ...] = ()
    special: tuple[tuple[int, str], ...] = ()
    leaf: bool = True
    shared: bool = False

    def again(self, *further: Step) -> TensorRecipe:
        """The same memory once more, with further views."""
        return replace(self, view=(*self.view, *further), leaf=False, shared=True)


@dataclass(frozen=True, slots=True)
class Literal:
    """A tensor given by its bits: storage (little-endian bytes), dtype, and the shape, strides and
    offset over it.

    ``leaf=False``: its gradient is not needed, as for class weights or a target. ``view`` is the
    chain of ordinary views that leads from a contiguous tensor of shape ``base`` to the same
    strides, if known: a backend may treat it differently.
    """

    data: bytes
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int = 0
    leaf: bool = True
    base: tuple[int, ...] = ()
    view: tuple[Step, ...] = ()

    def __repr__(self) -> str:  # without the bytes, which may be millions
        told = [f"{name}={getattr(self, name)!r}" for name in self.__slots__ if name != "data"]
        return f"Literal(sha256={self.digest}, {', '.join(told)})"

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def strided(self) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Shape, strides and offset over the storage."""
        return self.shape, self.stride, self.offset


@dataclass(frozen=True, slots=True)
class DType:
    """A dtype given as an argument, such as ``softmax(x, dim, dtype=torch.float32)``."""

    name: str


@dataclass(frozen=True, slots=True)
class Index:
    """``slice(start, stop, step)``, an argument of ``getitem`` and ``setitem``."""

    start: int | None = None
    stop: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryFormat:
    """A ``torch.memory_format`` given as an argument."""

    name: str


TENSORS = (TensorRecipe, Literal)
MEMORY_FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


def tensors(args: Any) -> Iterator[TensorRecipe | Literal]:
    """Every tensor in ``args``, depth first, in the order in which they are materialized."""
    if isinstance(args, TENSORS):
        yield args
    elif isinstance(args, (list, tuple)):
        for item in args:
            yield from tensors(item)
    elif isinstance(args, Mapping):
        for item in args.values():
            yield from tensors(item)


def owner(recipes: Sequence[TensorRecipe | Literal], position: int) -> int | None:
    """The position of the tensor in whose memory the one at ``position`` lies; None for its own."""
    tensor = recipes[position]
    if not isinstance(tensor, TensorRecipe) or not tensor.shared:
        return None
    for earlier, other in enumerate(recipes[:position]):
        if not isinstance(other, TensorRecipe) or other.shared:
            continue
        same = replace(other, view=tensor.view, leaf=tensor.leaf, shared=True) == tensor
        if same and tensor.view[: len(other.view)] == other.view:
            return earlier
    return None


def encode(arg: Arg) -> Any:
    """An argument as JSON data."""
    match arg:
        case TensorRecipe():
            body: dict[str, Any] = {"base": list(arg.base), "dtype": arg.dtype}
            body |= {"values": [encode(v) for v in arg.values], "stop": arg.stop}
            if arg.view:
                body["view"] = [list(step) for step in arg.view]
            if arg.special:
                body["special"] = [list(pair) for pair in arg.special]
            if not arg.leaf:
                body["leaf"] = False
            if arg.shared:
                body["shared"] = True
            return {"tensor": body}
        case Literal():
            body = {"sha256": arg.digest, "dtype": arg.dtype, "bytes": len(arg.data)}
            body |= {"shape": list(arg.shape), "stride": list(arg.stride), "offset": arg.offset}
            if not arg.leaf:
                body["leaf"] = False
            if arg.view:
                body |= {"base": list(arg.base), "view": [list(step) for step in arg.view]}
            if len(arg.data) <= INLINE_BYTES:
                body["hex"] = arg.data.hex()
            return {"literal": body}
        case DType():
            return {"dtype": arg.name}
        case Index():
            return {"slice": [arg.start, arg.stop, arg.step]}
        case MemoryFormat():
            return {"memory_format": arg.name}
        case float() if not math.isfinite(arg):
            return {"float": repr(arg)}
        case complex():
            return {"complex": [encode(arg.real), encode(arg.imag)]}
        case tuple():
            return {"tuple": [encode(item) for item in arg]}
        case list():
            return [encode(item) for item in arg]
        case _ if arg is Ellipsis:
            return {"ellipsis": True}
        case None | bool() | int() | float() | str():
            return arg
    raise RecipeError(
        f"an argument of type {type(arg).__name__} cannot be part of a recipe: {arg!r:.80}"
    )


def decode(data: Any, literals: Mapping[str, bytes] | None = None, *, depth: int = 0) -> Arg:
    """The argument that ``data`` (parsed JSON) describes; ``literals`` maps SHA-256 to bytes.
    Raises RecipeError."""
    if depth > MAX_DEPTH:
        raise RecipeError(f"arguments are nested more than {MAX_DEPTH} deep")
    if data is None or isinstance(data, (bool, int, float, str)):
        return data
    if isinstance(data, list):
        return [decode(item, literals, depth=depth + 1) for item in data]
    if not isinstance(data, dict) or len(data) != 1:
        raise RecipeError(f"expected a value, a list or an object with one key, not {_brief(data)}")
    ((key, body),) = data.items()
    try:
        match key:
            case "tensor":
                return _decode_tensor(body)
            case "literal":
                return _decode_literal(body, literals or {})
            case "dtype":
                return DType(_text(body))
            case "memory_format":
                return MemoryFormat(_memory_format(body))
            case "slice":
                start, stop, step = (None if v is None else _integer(v) for v in _items(body))
                return Index(start, stop, step)
            case "float":
                return float(_text(body))
            case "complex":
                real, imaginary = (float(_parameter(part)) for part in _items(body))
                return complex(real, imaginary)
            case "ellipsis":
                return Ellipsis
            case "tuple":
                return tuple(decode(item, literals, depth=depth + 1) for item in _items(body))
    except (TypeError, ValueError, KeyError) as error:
        if isinstance(error, RecipeError):
            raise
        wrong = f"{error} is missing" if isinstance(error, KeyError) else error
        raise RecipeError(f"malformed {key!r:.80} in a recipe: {wrong}") from None
    raise RecipeError(
        f"{key!r:.40} is not a kind of argument; known: tensor, literal, dtype, slice, float, "
        f"tuple, …"
    )


def _decode_tensor(body: Any) -> TensorRecipe:
    _check_keys(
        body,
        ("base", "dtype", "values", "stop", "view", "special", "leaf", "shared"),
        "a tensor recipe",
    )
    base = sizes(body["base"])
    values = tuple(_parameter(v) for v in _items(body.get("values", ["uniform", -1.0, 1.0])))
    view = _chain(body)
    special = tuple(
        (_integer(i), _text(token)) for i, token in map(_items, _items(body.get("special", [])))
    )
    stop, leaf, shared = position(body.get("stop", 0)), _leaf(body), body.get("shared", False)
    return TensorRecipe(
        base, _text(body["dtype"]), values, stop, view, special, leaf, _boolean(shared)
    )


def _leaf(body: Any) -> bool:
    return _boolean(body.get("leaf", True))


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise RecipeError(f"expected true or false, not {_brief(value)}")
    return value


def _chain(body: Any) -> tuple[Step, ...]:
    return tuple(_step(*_items(step)) for step in _items(body.get("view", [])))


def _step(name: Any = None, *parameters: Any) -> Step:
    return _text(name), *(None if value is None else _integer(value) for value in parameters)


def _parameter(value: Any) -> Any:
    """A number or a name; numbers that JSON lacks are written ``{"float": "inf"}``."""
    if isinstance(value, dict) and set(value) == {"float"}:
        return float(_text(value["float"]))
    if not isinstance(value, (int, float, str)):
        raise RecipeError(f"expected a number or a name, not {_brief(value)}")
    return value


def position(value: Any) -> int:
    """A position in the bitstream. Raises RecipeError."""
    if abs(_integer(value)) > MAX_STOP:
        raise RecipeError(f"position {shown(value)} is beyond the end of the bitstream (2**40)")
    return int(value)


def _decode_literal(body: Any, literals: Mapping[str, bytes]) -> Literal:
    _check_keys(
        body,
        ("sha256", "dtype", "bytes", "shape", "stride", "offset", "leaf", "hex", "base", "view"),
        "a literal tensor",
    )
    # What a case's own line holds needs no name; shipped cases leave it out.
    named = "sha256" in body or "hex" not in body
    digest = _text(body["sha256"]) if named else ""
    data = bytes.fromhex(body["hex"]) if "hex" in body else literals.get(digest)
    if data is None:
        raise RecipeError(
            f"the literal tensor {digest[:12]}… is not beside this case; give the folder it came in"
        )
    if named and hashlib.sha256(data).hexdigest() != digest:
        raise RecipeError(
            f"the literal tensor {digest[:12]}… does not match its SHA-256: damaged or replaced"
        )
    stride = tuple(_integer(v) for v in _items(body["stride"]))
    leaf = _leaf(body)
    dtype, shape, offset = (
        _text(body["dtype"]),
        sizes(body["shape"]),
        _integer(body.get("offset", 0)),
    )
    return Literal(
        data, dtype, shape, stride, offset, leaf, sizes(body.get("base", [])), _chain(body)
    )


def sizes(values: Any) -> tuple[int, ...]:
    """A shape of at most 16 dimensions and MAX_ELEMENTS elements. Raises RecipeError."""
    shape = tuple(_integer(v) for v in _items(values))
    if any(size < 0 for size in shape):
        raise RecipeError(f"negative size in shape {_brief(list(shape))}")
    # Check each size, too: the product with a 0 would hide a huge one.
    if len(shape) > 16 or max(math.prod(shape), *shape, 0) > MAX_ELEMENTS:
        text = f"is larger than a recipe may be ({MAX_ELEMENTS} elements, 16 dimensions)"
        raise RecipeError(f"shape {_brief(list(shape))} {text}")
    return shape


def _check_keys(body: Any, allowed: tuple[str, ...], what: str) -> None:
    if not isinstance(body, dict):
        raise RecipeError(f"{what} is an object, not {_brief(body)}")
    unknown = sorted(set(body) - set(allowed))
    if unknown:
        raise RecipeError(f"{unknown[0]!r:.40} is not a key of {what}")


def _brief(value: Any) -> str:
    return reprlib.repr(value)[:80]


def _items(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise RecipeError(f"expected a list, not {_brief(value)}")
    return value


def _integer(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise RecipeError(f"expected a whole number, not {_brief(value)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise RecipeError(f"expected text, not {_brief(value)}")
    return value


def _memory_format(value: Any) -> str:
    if _text(value) not in MEMORY_FORMATS:
        raise RecipeError(
            f"unknown memory format {value!r:.40}; known: {', '.join(MEMORY_FORMATS)}"
        )
    return str(value)


def canonical(data: Any) -> str:
    """The canonical JSON of ``data``: sorted keys, no spaces, ASCII."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
