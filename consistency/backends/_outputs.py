"""From the return values of a call, or its exception, to named outputs: shared by backends and the
reference.

Whatever a faulty backend returns must become an outcome: subclasses of Tensor, lists that contain
themselves, exceptions whose text cannot be read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch

from ..core import dtypes
from ..core.gradients import vector_jacobian_product
from ..core.model import Output
from ..core.trees import flatten
from ..core.zero_tensors import with_memory
from ..generate.materialize import Arguments, Materials
from ..operators.declare import Operator
from ._contract import ContractObserver
from ._cotangents import differentiated
from ._foreign_code import StateChanges, calls_foreign_code
from .batched_factors import one_thread
from .process_state import StateGuard

MAX_OUTPUTS = 1 << 16  # no operator returns more; limits the memory of a faulty one


def collect(
    function: Callable[[tuple[Any, ...], dict[str, Any]], Any],
    operator: Operator,
    arguments: Arguments,
    backward: bool,
    changes: StateChanges | None = None,
    observer: ContractObserver | None = None,
) -> tuple[Output, ...]:
    """Call ``function(args, kwargs)`` and name the outputs: return values, arguments written in
    place, or gradients. ``observer`` is told what is called and what it returns.

    What a user's function changes in global state is restored, and added to ``changes``.
    """
    if calls_foreign_code(operator):
        guard = StateGuard()
        try:
            return _seeded_or_not(function, operator, arguments, backward, observer)
        finally:
            found = guard.restore()
            if changes is not None:
                changes.add(found, again=True)
    return _seeded_or_not(function, operator, arguments, backward, observer)


def _seeded_or_not(
    function: Callable[[tuple[Any, ...], dict[str, Any]], Any],
    operator: Operator,
    arguments: Arguments,
    backward: bool,
    observer: ContractObserver | None,
) -> tuple[Output, ...]:
    random = "random" in operator.traits
    seed = seeded(arguments.materials.case.digest) if random else contextlib.nullcontext()
    with seed, one_thread(operator, arguments):
        return _collect(function, operator, arguments, backward, observer)


@contextlib.contextmanager
def seeded(digest: str) -> Iterator[None]:
    """torch's CPU generator in a state determined by the case, restored afterwards; other devices'
    generators are untouched."""
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(int(digest[:15], 16))
    try:
        yield
    finally:
        torch.set_rng_state(before)


def _collect(
    function: Callable[[tuple[Any, ...], dict[str, Any]], Any],
    operator: Operator,
    arguments: Arguments,
    backward: bool,
    observer: ContractObserver | None,
) -> tuple[Output, ...]:
    if not backward:
        if observer is not None:
            observer.begin(arguments.tensors)
        result = function(tuple(arguments.args), arguments.kwargs)
        if observer is not None:
            result = list(limited(result))
            observer.returned(result)
        outputs = [_output(f"out/{i}", item) for i, item in enumerate(limited(result))]
        outputs += [
            _output(f"arg/{i}", arguments.bases[i])
            for i in operator.mutates
            if i < len(arguments.bases)
        ]
        return tuple(outputs)
    # A caller's no_grad() would silently leave no gradients to compare.
    with contextlib.nullcontext() if torch.is_grad_enabled() else torch.enable_grad():
        args, kwargs = tuple(arguments.args), arguments.kwargs
        tensors: Sequence[torch.Tensor] = arguments.tensors
        if operator.mutates:
            args, kwargs, tensors = on_copies(arguments, operator.mutates)
        if observer is not None:
            observer.begin(tensors)
        result = function(args, kwargs)
        if observer is not None:
            result = list(limited(result))
            observer.returned(result)
        pairs = differentiated(limited(result), arguments)
        leaves = [arguments.tensors[i] for i in arguments.leaves]
        gradients: Sequence[torch.Tensor | None] = [None] * len(leaves)
        if pairs:
            roots, cotangents = zip(*pairs, strict=True)
            gradients = vector_jacobian_product(roots, leaves, cotangents, allow_unused=True)
    return tuple(_output(f"grad/{i}", _dense(gradient)) for i, gradient in enumerate(gradients))


def _dense(gradient: torch.Tensor | None) -> torch.Tensor | None:
    """The gradient as a dense tensor: with ``sparse=True`` embeddings list its rows, some twice."""
    if gradient is None or gradient.layout is not torch.sparse_coo:
        return gradient
    return gradient.to_dense()


def on_copies(
    arguments: Arguments, written: Sequence[int]
) -> tuple[tuple[Any, ...], dict[str, Any], list[torch.Tensor]]:
    """The arguments, by position and by name, and their tensors, with copies of those that are
    written: leaves cannot be written, and their gradient is the copy's."""
    tensors = [t.clone() if i in written else t for i, t in enumerate(arguments.tensors)]
    copies = {id(t): copy for t, copy in zip(arguments.tensors, tensors, strict=True)}
    named = {name: copies.get(id(arg), arg) for name, arg in arguments.kwargs.items()}
    return tuple(copies.get(id(arg), arg) for arg in arguments.args), named, tensors


def limited(result: Any) -> Iterable[Any]:
    return (result,) if isinstance(result, torch.Tensor) else _counted(result)


def _counted(result: Any) -> Iterator[Any]:
    for count, item in enumerate(flatten(result)):
        if count == MAX_OUTPUTS:
            raise ValueError(f"returned more than {MAX_OUTPUTS} values")
        yield item


def _output(name: str, item: Any) -> Output:
    if not isinstance(item, torch.Tensor):
        if item is NotImplemented:  # for `x *= y` Python makes this error of it
            raise TypeError("returned NotImplemented: it does not take these arguments")
        return Output(name, None, value=item)
    if type(item) is not torch.Tensor:
        item = _plain(item)
    item = with_memory(item)
    device = "cpu" if item.is_cpu else str(item.device)  # torch takes a microsecond to write it
    return Output(name, item, dtypes.name_of(item.dtype), device)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers of a tensor subclass, which may override any operation, as an ordinary tensor."""
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(
            f"returned a {type(tensor).__name__}, whose numbers cannot be read like an ordinary "
            "tensor's"
        )
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.detach().as_subclass(torch.Tensor)


def to_cpu(output: Output) -> Output:
    """The output on the CPU, without gradient history; the copy from the device happens first."""
    tensor = output.tensor
    if tensor is None:
        return output
    if output.device != "cpu":
        if tensor.is_meta:
            raise TypeError(f"{output.name} is a meta tensor: it holds no numbers")
        tensor = tensor.cpu()
    tensor = tensor.detach()
    if tensor.is_nested or tensor.is_quantized:
        raise TypeError(
            f"{output.name} is a {'nested' if tensor.is_nested else 'quantized'} tensor"
        )
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    return Output(output.name, tensor, output.dtype, output.device)


def elsewhere(outputs: Sequence[Output], device: str) -> list[Output]:
    """The outputs on another kind of device, or another device of its kind, than requested."""
    elements = []
    for output in outputs:
        if output.tensor is not None and output.device != device:
            kind, _, index = str(device).partition(":")
            got, _, number = output.device.partition(":")
            if got != kind or (number or "0") != (index or number or "0"):
                elements.append(output)
    return elements


def changed(arguments: Arguments, materials: Materials) -> tuple[int, ...]:
    """The positions of tensors whose contents have changed."""
    try:
        return arguments.changed(materials)
    except KeyError:  # a dtype that cannot be compared bit by bit
        return ()
    except (
        Exception
    ):  # a storage that was resized, freed or given another dtype: it is not what was given
        return tuple(range(len(arguments.bases)))
