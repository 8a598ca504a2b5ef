"""From the return values of a call, or its exception, to named outputs: shared by backends and the
reference.

Whatever a faulty backend returns must become an outcome: subclasses of Tensor, lists that contain
themselves, exceptions whose text cannot be read.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from ..core import dtypes
from ..core.bits import to_tensor
from ..core.model import Outcome, Output
from ..core.text import abridged, printable
from ..core.tiling import repeated
from ..core.trees import flatten
from ..core.verdict import OutcomeStatus
from ..errors import Unsupported
from ..generate.fill import fill
from ..generate.materialize import Arguments, Materials
from ..operators.declare import Operator
from ._contract import ContractObserver
from ._foreign_code import StateChanges, calls_foreign_code
from .process_state import StateGuard

MAX_OUTPUTS = 1 << 16  # no operator returns more; limits the memory of a faulty one
MAX_NAME = 200  # characters of the name of an exception's class
MAX_WARNINGS = 50  # texts per call
_UNSUPPORTED = re.compile(
    r"not implemented for|is not supported|not currently supported|(?:does not|doesn't) "
    r"support|unsupported (?:data ?)?type|"
    r"Could not run '|no kernel|has no [a-z_.]+$|only supports? float|does not have a "
    r"deterministic implementation",
    re.IGNORECASE,
)
_FALLBACK = re.compile(
    (
        r"will fall back to run on the CPU|fall(?:s|ing)? ?back (?:from \w+ )?to (?:run )?(?:on "
        r")?(?:the )?CPU"
    ),
    re.IGNORECASE,
)


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
    if "random" in operator.traits:
        with _seeded(arguments.materials.case.digest):
            return _collect(function, operator, arguments, backward, observer)
    return _collect(function, operator, arguments, backward, observer)


@contextlib.contextmanager
def _seeded(digest: str) -> Iterator[None]:
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
            result = list(_limited(result))
            observer.returned(result)
        outputs = [_output(f"out/{i}", item) for i, item in enumerate(_limited(result))]
        outputs += [
            _output(f"arg/{i}", arguments.bases[i])
            for i in operator.mutates
            if i < len(arguments.bases)
        ]
        return tuple(outputs)
    # A caller's no_grad() would silently leave no gradients to compare.
    with contextlib.nullcontext() if torch.is_grad_enabled() else torch.enable_grad():
        args = tuple(arguments.args)
        tensors: Sequence[torch.Tensor] = arguments.tensors
        if operator.mutates:
            args, tensors = _on_copies(arguments, operator.mutates)
        if observer is not None:
            observer.begin(tensors)
        result = function(args, arguments.kwargs)
        if observer is not None:
            result = list(_limited(result))
            observer.returned(result)
        pairs = _against(_limited(result), arguments)
        leaves = [tensor for tensor in arguments.tensors if tensor.requires_grad]
        gradients: Sequence[torch.Tensor | None] = [None] * len(leaves)
        if pairs:
            roots, cotangents = zip(*pairs, strict=True)
            gradients = torch.autograd.grad(roots, leaves, cotangents, allow_unused=True)
    return tuple(_output(f"grad/{i}", gradient) for i, gradient in enumerate(gradients))


def _against(
    result: Iterable[Any], arguments: Arguments
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The tensors that are differentiated, each with its cotangent: the case's literal one, or one
    from the bitstream."""
    case, cotangents = arguments.materials.case, []
    for position, root in enumerate(result):
        if not isinstance(root, torch.Tensor) or not root.requires_grad:
            continue
        if not case.cotangents:
            cotangents.append((root, _repeated_cotangent(root, position, arguments)))
            continue
        gradient = arguments.cotangent(position)
        if gradient is not None:
            if arguments.adjust is not None and (
                gradient.dtype.is_floating_point or gradient.is_complex()
            ):
                wide = torch.complex128 if gradient.is_complex() else torch.float64
                gradient = arguments.adjust(gradient.to(wide), len(arguments.tensors))
            cotangents.append((root, gradient.to(root.dtype).reshape(root.shape).to(root.device)))
    return cotangents


def _on_copies(
    arguments: Arguments, written: Sequence[int]
) -> tuple[tuple[Any, ...], list[torch.Tensor]]:
    """The arguments, and their tensors, with copies of those that are written: leaves cannot be
    written, and their gradient is the copy's."""
    tensors = [t.clone() if i in written else t for i, t in enumerate(arguments.tensors)]
    copies = {id(t): copy for t, copy in zip(arguments.tensors, tensors, strict=True)}
    return tuple(copies.get(id(arg), arg) for arg in arguments.args), tensors


def _repeated_cotangent(root: torch.Tensor, position: int, arguments: Arguments) -> torch.Tensor:
    """The drawn cotangent of a return value; in a tiled case that of one repetition, repeated."""
    case = arguments.materials.case
    tiling = case.tiling
    dim = tiling.outs[position] if tiling is not None and position < len(tiling.outs) else None
    if tiling is None or dim is None or dim >= root.ndim or root.shape[dim] % tiling.size:
        return cotangent(root, case.cotangent, arguments)
    period = root.shape[dim] // tiling.size * tiling.period
    tile = root.detach().narrow(dim, 0, period)
    return repeated(cotangent(tile, case.cotangent, arguments), dim, tiling)


def cotangent(root: torch.Tensor, stop: int, arguments: Arguments) -> torch.Tensor:
    """The cotangent of a gradient: uniform in [-1, 1), exactly representable in the case's dtype,
    shaped like ``root``, in the layout that the case asks for.

    Where ``adjust`` changes its numbers it is contiguous: then each element has its own."""
    layout = arguments.materials.case.cotangent_layout
    whole = _contiguous_cotangent(root, stop, arguments, layout in ("expanded", "constant"))
    if arguments.adjust is not None or not whole.numel():
        return whole
    if layout == "expanded":
        return whole.reshape(-1)[:1].reshape((1,) * root.ndim).expand(root.shape)
    return _outermost_last(whole) if layout == "transposed" else whole


def _outermost_last(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers, the last dimension outermost in memory."""
    reverse = tuple(reversed(range(tensor.ndim)))
    return tensor.permute(reverse).contiguous().permute(reverse)


def _contiguous_cotangent(
    root: torch.Tensor, stop: int, arguments: Arguments, constant: bool
) -> torch.Tensor:
    """The cotangent's numbers, or the last one for all elements: the first may be blank."""
    dtype = arguments.materials.case.dtype
    if dtype in dtypes.PARTS:
        return _complex_cotangent(root, dtype, stop, arguments, constant)
    kind = dtypes.name_of(root.dtype)
    format_name = dtype if dtype in dtypes.FORMATS else "float32"
    if (
        kind in dtypes.FORMATS
        and dtypes.FORMATS[kind].precision < dtypes.FORMATS[format_name].precision
    ):
        format_name = kind
    parts = 2 if root.is_complex() else 1
    raw = fill(root.numel() * parts, format_name, ("uniform", -1.0, 1.0), stop)
    if constant:
        raw = np.tile(raw[-parts:], root.numel())
    flat = to_tensor(raw, format_name)
    if arguments.adjust is not None:
        flat = arguments.adjust(flat.to(torch.float64), len(arguments.tensors))
    if root.is_complex():
        flat = torch.view_as_complex(flat.to(torch.float64).reshape(-1, 2))
    return flat.to(root.dtype).reshape(root.shape).to(root.device)


def _complex_cotangent(
    root: torch.Tensor, dtype: str, stop: int, arguments: Arguments, constant: bool
) -> torch.Tensor:
    """The same for a complex case. A real result takes the real parts; real moduli take the
    moduli."""
    raw = fill(root.numel(), dtype, ("uniform", -1.0, 1.0), stop)
    flat = torch.from_numpy(np.tile(raw[-1:], root.numel()) if constant else raw)
    if arguments.adjust is not None:
        flat = arguments.adjust(flat.to(torch.complex128), len(arguments.tensors))
    if flat.is_complex() and not root.is_complex():
        flat = flat.real
    return flat.to(root.dtype).reshape(root.shape).to(root.device)


def _limited(result: Any) -> Iterable[Any]:
    return (result,) if isinstance(result, torch.Tensor) else _counted(result)


def _counted(result: Any) -> Iterator[Any]:
    for count, item in enumerate(flatten(result)):
        if count == MAX_OUTPUTS:
            raise ValueError(f"returned more than {MAX_OUTPUTS} values")
        yield item


def _output(name: str, item: Any) -> Output:
    if not isinstance(item, torch.Tensor):
        return Output(name, None, value=item)
    if type(item) is not torch.Tensor:
        item = _plain(item)
    return Output(name, item, dtypes.name_of(item.dtype), str(item.device))


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


def failed(error: BaseException) -> Outcome:
    """The outcome of a call that raised: ``unsupported`` if the message says so, else
    ``raised``."""
    refused = isinstance(error, (Unsupported, NotImplementedError))
    return raised(type(error).__name__, text_of(error), refused)


def raised(exception: str, text: str, refused: bool = False) -> Outcome:
    """The outcome of a call that raised ``exception`` with this text; ``refused``: its type alone
    means unsupported."""
    text = abridged(text)
    unsupported = refused or exception == "NotImplementedError" or _UNSUPPORTED.search(text)
    return Outcome(
        OutcomeStatus.UNSUPPORTED if unsupported else OutcomeStatus.RAISED,
        (),
        exception[:MAX_NAME],
        first_line(text),
    )


def fallback_in(texts: Iterable[str]) -> str:
    """The first warning about an operator that ran on the CPU instead; empty if there is none."""
    return next((text for text in texts if _FALLBACK.search(text)), "")


def text_of(error: object) -> str:
    """``str(error)``, even if that raises; of a long one the beginning and the end."""
    try:
        return abridged(str(error))
    except Exception:
        return f"(the text of this {type(error).__name__} cannot be had)"


def first_line(text: str) -> str:
    """The first nonempty line, at most 300 characters, without control characters."""
    return printable(next((line.strip() for line in text.splitlines() if line.strip()), "")[:300])


def told(error: BaseException) -> str:
    """``RuntimeError: its first line``: an exception in one line."""
    line = first_line(text_of(error))
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def texts_of(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    """The distinct texts of warnings, in order, each at most 300 characters."""
    if not caught:
        return ()
    return tuple(dict.fromkeys(text_of(warning.message)[:300] for warning in caught))[:MAX_WARNINGS]


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
