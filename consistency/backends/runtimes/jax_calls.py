"""Calls of operators as programs of JAX: translated by torchax, compiled once per signature.

torchax replaces torch's operators by JAX's functions while a call is traced; what it has no
function of is decomposed by torch. Nothing of the translation is written here.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...core.trees import flatten, map_leaves
from ...errors import Unsupported
from ...operators.declare import Operator
from .._messages import first_line, text_of, told
from .translation import Signatures, raise_as_torch, tensors_of

_TENSOR = object()
MAX_PROGRAMS = 1024  # compiled programs, some 100 KB each


@functools.cache
def start(device: str, precision: str | None) -> None:
    """Import torchax, with JAX on ``device`` and with 64-bit numbers, as torch has them."""
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    # Before JAX looks for devices: afterwards it has no effect.
    jax.config.update("jax_platforms", {"gpu": "cuda,rocm"}.get(device, device))
    if precision is not None:
        jax.config.update("jax_default_matmul_precision", precision)
    with _removed_overloads():
        importlib.import_module("torchax").default_env()


@contextlib.contextmanager
def _removed_overloads() -> Iterator[None]:
    """While torchax is imported, overloads with named dimensions exist.

    Newer versions of torch removed them, and torchax 0.0.13 names some in its tables. Nothing can
    call the placeholders.
    """
    packet: Any = torch._ops.OpOverloadPacket
    look_up = packet.__getattr__

    def found(self: Any, key: str) -> Any:
        try:
            return look_up(self, key)
        except AttributeError:
            if not _NAMED_DIMENSION.search(key):
                raise
            return f"{self}.{key}"

    packet.__getattr__ = found
    try:
        yield
    finally:
        packet.__getattr__ = look_up


_NAMED_DIMENSION = re.compile(r"Dimname|dimname|names")


@dataclass(slots=True)
class _Program:
    """A function of arrays; ``leaves`` are what a call returns, :data:`_TENSOR` for each tensor,
    known once it was traced."""

    run: Callable[..., Any]
    leaves: list[Any]
    written: tuple[int, ...]


class JaxCalls:
    """The programs of one process; ``jit``: a call is one program of XLA."""

    def __init__(self, *, jit: bool) -> None:
        self._jit = jit
        self._signatures = Signatures()
        self._known: OrderedDict[str, _Program | Exception] = OrderedDict()

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the call returns; what it writes is written.

        Raises Unsupported for what torchax or JAX cannot trace, what torch raises for a call that
        torch refuses, and RuntimeError if the program fails.
        """
        tensors = tensors_of(args, kwargs)
        arrays = [to_jax(tensor) for tensor in tensors]
        key = self._signatures.of(operator, args, kwargs)
        program = self._known.get(key)
        if isinstance(program, Exception):
            raise program
        if program is None:
            try:
                program = self._translated(operator, args, kwargs, arrays)
            except Exception as error:
                self._keep(key, error.with_traceback(None))
                raise
            self._keep(key, program)
        self._known.move_to_end(key)
        try:
            outputs = [to_torch(array) for array in program.run(arrays)]
        except Unsupported:
            raise
        except Exception as error:  # of the compiler or of the program
            raise RuntimeError(f"JAX: {first_line(text_of(error))}") from None
        remaining = iter(outputs)
        returned = [next(remaining) if leaf is _TENSOR else leaf for leaf in program.leaves]
        for position, result in zip(program.written, remaining, strict=True):
            try:
                tensors[position].copy_(result)
            except RuntimeError as error:  # its elements share memory
                raise Unsupported(f"what it writes cannot be put back: {told(error)}") from None
        return returned

    def _keep(self, key: str, program: _Program | Exception) -> None:
        self._known[key] = program
        if len(self._known) > MAX_PROGRAMS:
            self._known.popitem(last=False)

    def _translated(
        self,
        operator: Operator,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        arrays: Sequence[Any],
    ) -> _Program:
        jax: Any = importlib.import_module("jax")
        written = tuple(i for i in operator.mutates if i < len(arrays))
        leaves: list[Any] = []
        traced = functools.partial(_traced, operator, args, kwargs, written, leaves)
        run: Any = traced
        try:
            if self._jit:
                run = jax.jit(traced).lower(arrays).compile()
            else:  # nothing can be known of a call without running it
                run(arrays)
        except Exception as error:
            raise_as_torch(operator, args, kwargs)
            raise _untranslated(error) from None
        if not written and not any(leaf is _TENSOR for leaf in leaves):
            raise Unsupported("it returns no tensor: nothing of it is in the program")
        return _Program(run, leaves, written)


def _traced(
    operator: Operator,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    written: Sequence[int],
    leaves: list[Any],
    arrays: Sequence[Any],
) -> list[Any]:
    """The arrays that a call returns, then those that it writes; ``leaves`` is filled."""
    torchax: Any = importlib.import_module("torchax")
    jax: Any = importlib.import_module("jax")
    environment = torchax.default_env()
    given = [torchax.tensor.Tensor(array, environment) for array in arrays]
    remaining = iter(given)

    def placed(leaf: Any) -> Any:
        return next(remaining) if isinstance(leaf, torch.Tensor) else leaf

    # Without tensors among the arguments, torch would create the result on the CPU itself.
    created = contextlib.nullcontext() if arrays else torch.device("jax")
    with environment, created:
        result = operator(*map_leaves(placed, tuple(args)), **map_leaves(placed, dict(kwargs)))
    returned = []
    leaves.clear()
    for leaf in flatten(result):
        if isinstance(leaf, (torchax.tensor.Tensor, torchax.view.View)):
            returned.append(leaf.jax())
        elif isinstance(leaf, jax.Array):
            returned.append(leaf)
        elif isinstance(leaf, torch.Tensor):
            raise Unsupported("torchax leaves it to torch on the CPU")
        leaves.append(_TENSOR if isinstance(leaf, (torch.Tensor, jax.Array)) else leaf)
    return returned + [given[position].jax() for position in written]


def _untranslated(error: Exception) -> Unsupported:
    """Why a call cannot be traced, in a few words."""
    if isinstance(error, Unsupported):
        return error
    text = first_line(text_of(error))[:160]
    if type(error).__name__ == "OperatorNotFound":
        return Unsupported(f"torchax: {text}")
    if type(error).__module__.startswith("jax"):
        return Unsupported(f"JAX cannot trace it: {text}")
    return Unsupported(f"torchax cannot translate it: {type(error).__name__}: {text}")


def to_jax(tensor: torch.Tensor) -> Any:
    """A tensor's numbers as an array of JAX, bit by bit, in memory of its own."""
    jax: Any = importlib.import_module("jax")
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if plain.dtype == torch.bfloat16:
        bits = plain.view(torch.uint16).numpy()
        return jax.numpy.array(bits.view(jax.numpy.bfloat16), copy=True)
    return jax.numpy.array(plain.numpy(), copy=True)


def to_torch(array: Any) -> torch.Tensor:
    """An array as a tensor with memory of its own."""
    numbers = np.array(array, copy=True)
    if numbers.dtype.name == "bfloat16":
        return torch.from_numpy(numbers.view(np.uint16)).view(torch.bfloat16)
    return torch.from_numpy(numbers)
