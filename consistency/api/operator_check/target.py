"""What is checked: a custom operator by its schema, or a callable; and an example of its call."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...core.trees import flatten, tensors_in
from ...errors import UsageError

# Shapes that a schema's tensors are tried with, in turn: the same for all; a row and vectors for
# its last dimension; the factors of a product.
_SHAPES: tuple[tuple[tuple[int, ...], ...], ...] = (
    ((6, 40),),
    ((6, 40), (40,)),
    ((6, 40), (40, 24)),
    ((200,),),
    ((2, 6, 40), (2, 40, 24)),
)


@dataclass(frozen=True)
class Target:
    """``call`` is what is called; ``overload`` and ``schema`` are None for a plain callable."""

    name: str
    call: Callable[..., Any]
    overload: Any = None

    @property
    def schema(self) -> Any:
        return None if self.overload is None else self.overload._schema

    def argument_names(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[str]:
        """Of every tensor among the arguments, in the order of a case."""
        names: list[str] = []
        declared = [a.name for a in self.schema.arguments] if self.schema is not None else []
        for i, value in enumerate(args):
            name = declared[i] if i < len(declared) else f"argument {i}"
            names += [name] * len(list(tensors_in(value)))
        for key, value in sorted(kwargs.items()):
            names += [key] * len(list(tensors_in(value)))
        return names

    def written(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, ...]:
        """The positions of the tensors that the schema says are written."""
        if self.schema is None:
            return ()
        writes = {
            a.name for a in self.schema.arguments if a.alias_info is not None
            and a.alias_info.is_write
        }  # fmt: skip
        names = self.argument_names(args, kwargs)
        return tuple(i for i, name in enumerate(names) if name in writes)


def target_of(op: Any) -> Target:
    """The target of a custom operator, an overload or packet of ``torch.ops``, or a callable.
    Raises UsageError."""
    overload = getattr(op, "_opoverload", op)
    if isinstance(overload, torch._ops.OpOverloadPacket):
        names: list[str] = overload.overloads()  # type: ignore[no-untyped-call]
        overload = getattr(overload, "default" if "default" in names else names[0])
    if isinstance(overload, torch._ops.OpOverload):
        name = overload._schema.name.replace("::", ".")
        return Target(name, op if callable(op) else overload, overload)
    if not callable(op):
        text = "give a function, a custom operator or torch.ops.NAMESPACE.NAME"
        raise UsageError(f"{type(op).__name__} {op!r:.60} cannot be called; {text}")
    return Target(getattr(op, "__qualname__", type(op).__name__), op)


def examples_of(target: Target, inputs: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The example calls: one tensor, a tuple of arguments, a dictionary of keyword arguments, or a
    list of any of these; without ``inputs``, from the schema. Raises UsageError."""
    if inputs is None:
        return [_from_schema(target)]
    several = inputs if isinstance(inputs, list) else [inputs]
    examples: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    for given in several:
        if isinstance(given, Mapping):
            examples.append(_by_position(target, dict(given)))
        else:
            examples.append((tuple(given) if isinstance(given, tuple) else (given,), {}))
    if not examples or not any(list(tensors_in(e)) for e in examples):
        text = f"inputs holds no tensor: {inputs!r:.60}"
        raise UsageError(f"{text}; give the arguments of one call, such as inputs=(x, weight, 0.5)")
    return examples


def _by_position(target: Target, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments that the schema allows by position so: a reference may call them otherwise."""
    args = []
    for argument in target.schema.arguments if target.schema is not None else ():
        if argument.kwarg_only or argument.name not in kwargs:
            break
        args.append(kwargs.pop(argument.name))
    return tuple(args), kwargs


def _from_schema(target: Target) -> tuple[tuple[Any, ...], dict[str, Any]]:
    remedy = "give an example call: inputs=(x, …)"
    if target.schema is None:
        raise UsageError(f"{target.name} has no schema that its arguments could be made from; "
                         f"{remedy}")  # fmt: skip
    problem = ""
    for args in _tried(target):
        if not args:
            problem = "an argument of it is of a type that no example can be made of"
            break
        try:
            target.call(*args)
        except Exception as error:
            problem = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
            continue
        return tuple(args), {}
    raise UsageError(f"no call of {target.name} could be made from its schema ({problem}); "
                     f"{remedy}")  # fmt: skip


def _tried(target: Target) -> Iterator[list[Any]]:
    generator = torch.Generator().manual_seed(0)
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for device, shapes in itertools.product(devices, _SHAPES):
        remaining = itertools.chain(shapes, itertools.repeat(shapes[-1]))
        args: list[Any] = []
        for argument in target.schema.arguments:
            made = _argument(argument, remaining, generator, device)
            if made is None:
                yield []
                return
            if made is not _DEFAULT:
                args.append(made)
        yield args


_DEFAULT = object()


def _argument(
    argument: Any, shapes: Iterator[tuple[int, ...]], generator: torch.Generator, device: str
) -> Any:
    kind = str(argument.type)
    if argument.has_default_value() and kind != "Tensor":
        return _DEFAULT
    if kind == "Tensor":
        return torch.randn(next(shapes), generator=generator).to(device)
    return {"int": 2, "float": 0.5, "bool": False, "number": 0.5, "Optional[Tensor]": _DEFAULT}.get(
        kind
    )


def device_of(args: Any) -> str:
    """The device of the tensors among ``args``. Raises UsageError where there are several."""
    devices = {str(t.device) for t in flatten(args) if isinstance(t, torch.Tensor)}
    if len(devices) > 1:
        names = " and ".join(sorted(devices))
        raise UsageError(f"the example's tensors lie on {names}; give them on one device")
    return devices.pop() if devices else "cpu"
