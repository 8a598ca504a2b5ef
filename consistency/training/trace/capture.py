"""Capture: makes a case from a call of the running program, with tensors as literals copied
before the call can change them."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from ...core import dtypes, recipe
from ...core.model import Case, Outcome, Output
from ...core.trees import tensors_in
from ...core.verdict import OutcomeStatus
from ...core.views import view_of
from ...errors import RecipeError
from ...generate.calls import aten
from ...generate.calls.kernels import kernel_of
from ...generate.materialize import KEPT_BEFORE_VIEW, from_python, literal
from ...operators.catalog.aten import base_name
from ...operators.catalog.signature import draws_numbers
from . import kinds
from .modules import Modules

MOST_CALLS = 100_000  # with a record; further ones are only counted
# Arguments that the backend determines, or that change no number.
WITHOUT = ("device", "pin_memory", "layout", "non_blocking")


@dataclass(frozen=True, slots=True)
class CapturedCall:
    """One call of the program: number (from 1), operator, module, and its case.

    ``case`` is None if the call was left out for the reason ``left_out``. ``own`` is the program's
    own result.
    """

    number: int
    operator: str
    module: str
    case: Case | None = None
    left_out: str = ""
    own: Outcome | None = None
    device: str = "cpu"

    def __str__(self) -> str:
        where = f", in {self.module}" if self.module else ""
        return f"{self.operator} (call {self.number:,}{where})"


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """Limits: the first ``keep`` calls of a kind (0: all), tensors of up to ``tensors`` bytes,
    ``memory`` bytes in all."""

    keep: int
    tensors: int
    memory: int
    own: bool | None


class CallCapture:
    """Records the calls of a program, with counts and memory use. Thread-safe."""

    def __init__(self, bounds: CaptureLimits, taken: Callable[[CapturedCall], None]) -> None:
        self.bounds, self._on_case = bounds, taken
        self.modules = Modules()
        self.records: list[CapturedCall] = []
        self.count = 0
        self.held = 0
        self.left_out: Counter[str] = Counter()
        self._kinds: Counter[tuple[Any, ...]] = Counter()
        self._unique_data: dict[bytes, bytes] = {}
        self._lock = threading.RLock()
        self._process = os.getpid()

    def call(self, overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Execute the call unchanged, and record it. Not in a process that the program forked,
        such as a DataLoader's worker, which inherits the mode."""
        if os.getpid() != self._process:
            return overload(*args, **kwargs)
        with self._lock, _without_other_modes():
            self.count += 1
            record = CapturedCall(self.count, str(overload), self.modules.name())
            try:
                record = self._case(record, overload, args, kwargs)
            except LeftOutError as reason:
                record = replace(record, left_out=str(reason))
            except Exception as error:
                # an error of ours must not stop the program
                record = replace(record, left_out=f"{kinds.NOT_CAPTURED} ({type(error).__name__})")
        try:
            result = overload(*args, **kwargs)
        except BaseException:
            self._record(replace(record, case=None, left_out=kinds.RAISED))
            raise
        if (
            record.case is not None
            and self.bounds.own is not False
            and (self.bounds.own or record.device != "cpu")
        ):
            with _without_other_modes():
                record = replace(
                    record, own=own_outcome(record.case, overload, args, kwargs, result)
                )
        self._record(record)
        return result

    def _record(self, record: CapturedCall) -> None:
        with self._lock:
            if record.left_out:
                self.left_out[record.left_out] += 1
            if record.case is not None or len(self.records) < MOST_CALLS:
                self.records.append(record)
        if record.case is not None:
            self._on_case(record)

    def _case(
        self, record: CapturedCall, overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> CapturedCall:
        reason = kinds.left_out(overload)
        if reason:
            raise LeftOutError(reason)
        if draws_numbers(overload, args, kwargs):
            raise LeftOutError(kinds.RANDOM)
        tensors = list(tensors_in((args, kwargs)))
        if not tensors:
            raise LeftOutError(kinds.FACTORY)
        _check_supported(tensors, kwargs)
        device = _device(tensors, kwargs)
        self._count(kinds.kind_of(overload, args, kwargs), tensors)
        self._within_bounds(overload, tensors)
        try:
            case_args = tuple(self._argument(value) for value in args)
            case_kwargs = {
                name: self._argument(value) for name, value in kwargs.items() if name not in WITHOUT
            }
        except RecipeError:
            raise LeftOutError(kinds.ARGUMENT) from None
        case = Case(
            aten.title_of(overload),
            dtype_of(tensors),
            case_args,
            case_kwargs,
            source=aten.source_of(overload),
        )
        return replace(record, case=case, device=device)

    def _within_bounds(self, overload: Any, tensors: Sequence[torch.Tensor]) -> None:
        """Leave out a call that is too large, by itself or with all captured so far."""
        sizes = [bytes_of(tensor) for tensor in tensors]
        if max(sizes) > self.bounds.tensors:
            raise LeftOutError(f"a tensor larger than {megabytes(self.bounds.tensors)}")
        if self.held + sum(sizes) > self.bounds.memory:
            raise LeftOutError(f"more than {megabytes(self.bounds.memory)} would be held")

    def _count(self, kind: tuple[Any, ...], tensors: Sequence[torch.Tensor]) -> None:
        """Accept the call if it is among the first of its kind. Calls with an all-zero tensor,
        such as the initial state of an optimizer, show little and are counted separately."""
        if self.bounds.keep and self._kinds[kind] >= self.bounds.keep:
            raise LeftOutError(kinds.REPEATED)
        if any(t.is_floating_point() and t.numel() and not bool(t.any()) for t in tensors):
            kind = (kind, "zeros")
            if self.bounds.keep and self._kinds[kind] >= self.bounds.keep:
                raise LeftOutError(kinds.REPEATED)
        self._kinds[kind] += 1

    def _argument(self, value: Any) -> recipe.Arg:
        return argument(value, self._tensor)

    def _tensor(self, value: torch.Tensor) -> recipe.TensorRecipe | recipe.Literal:
        return self._deduplicate(literal(value, before=KEPT_BEFORE_VIEW))

    def _deduplicate(self, tensor: recipe.Literal) -> recipe.Literal:
        """The tensor with its bytes shared with equal ones of other calls."""
        data = self._unique_data.setdefault(tensor.data, tensor.data)
        if data is tensor.data:
            self.held += len(data)
        return replace(tensor, data=data)


def _as_literal(tensor: torch.Tensor) -> recipe.TensorRecipe | recipe.Literal:
    return literal(tensor, before=KEPT_BEFORE_VIEW)


def argument(
    value: Any, taken: Callable[[torch.Tensor], recipe.TensorRecipe | recipe.Literal] = _as_literal
) -> recipe.Arg:
    """An argument as part of a case; ``taken`` converts tensors. Raises RecipeError for what no
    case can hold."""
    if isinstance(value, torch.Tensor):
        return taken(value)
    if isinstance(value, (list, tuple)):
        return [argument(item, taken) for item in value]
    result = from_python(value)
    recipe.encode(result)  # raises
    return result


class LeftOutError(Exception):
    """The reason why a call does not become a case."""


class CaptureMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Passes every call below autograd to ``calls``."""

    def __init__(self, calls: CallCapture) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._calls = calls

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._calls.call(func, args, kwargs or {})


def _without_other_modes() -> AbstractContextManager[Any]:
    """Hide our own copies of tensors from other dispatch modes of the program."""
    known: Any = torch._C
    return (
        _disable_current_modes() if known._len_torch_dispatch_stack() else contextlib.nullcontext()
    )


def _check_supported(tensors: Sequence[torch.Tensor], kwargs: Mapping[str, Any]) -> None:
    if kwargs.get("layout") not in (None, torch.strided):
        raise LeftOutError(kinds.UNUSUAL)
    for tensor in tensors:
        if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            raise LeftOutError(kinds.SUBCLASS)
        unsupported = (
            tensor.layout != torch.strided
            or tensor.is_quantized
            or tensor.is_nested
            or tensor.is_meta
        )
        if unsupported or tensor.dtype not in dtypes.NAMES:
            raise LeftOutError(kinds.UNUSUAL)


def _device(tensors: Sequence[torch.Tensor], kwargs: Mapping[str, Any]) -> str:
    """The one device that the call is about; numbers may stand beside it as tensors without
    dimensions on the CPU."""
    devices = {str(t.device) for t in tensors}
    requested = kwargs.get("device")
    devices |= {str(torch.device(requested))} if requested is not None else set()
    if len(devices) > 1:
        devices = {str(t.device) for t in tensors if t.ndim or t.device.type != "cpu"}
        devices |= {str(torch.device(requested))} if requested is not None else set()
    if len(devices) != 1:
        raise LeftOutError(kinds.DEVICES)
    return devices.pop()


def bytes_of(tensor: torch.Tensor) -> int:
    """The size of its literal: from its first to its last element."""
    if not tensor.numel():
        return 0
    extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return int(extent) * tensor.element_size()


def dtype_of(given: Sequence[torch.Tensor]) -> str:
    """The case's dtype: the first floating one among its tensors, else the first; 0-d tensors
    count last, as in torch."""
    names = [dtypes.name_of(t.dtype) for t in sorted(given, key=lambda t: t.ndim == 0)]
    return next((name for name in names if dtypes.floats(name)), names[0])


def megabytes(size: int) -> str:
    return f"{size / (1 << 20):,.4g} MiB"


def own_outcome(
    case: Case, overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any
) -> Outcome | None:
    """The results of the program's own call, and its mutated tensors; None if unsupported."""
    kernel = kernel_of(base_name(overload), case)
    returned = [result] if not isinstance(result, (list, tuple)) else list(result)
    flat = [
        item
        for value in returned
        for item in (value if isinstance(value, (list, tuple)) else [value])
    ]
    flat = flat[: kernel.kept] if kernel is not None and kernel.kept is not None else flat
    try:
        outputs = [_own_output(f"out/{i}", item) for i, item in enumerate(flat)]
        tensors = list(
            tensors_in(
                (
                    args,
                    {name: value for name, value in sorted(kwargs.items()) if name not in WITHOUT},
                )
            )
        )
        for position in aten.written(overload, case.args, case.kwargs):
            tensor = tensors[position]
            after = literal(tensor, before=KEPT_BEFORE_VIEW)
            storage = recipe.Literal(after.data, after.dtype, (_elements(after),), (1,))
            outputs.append(
                Output(f"arg/{position}", _tensor(storage), after.dtype, str(tensor.device))
            )
    except Exception:  # an unsupported result: the call is judged on the backends only
        return None
    return Outcome(OutcomeStatus.OK, tuple(outputs))


def _own_output(name: str, item: Any) -> Output:
    if not isinstance(item, torch.Tensor):
        return Output(name, None, value=item)
    copy = item.detach().resolve_conj().resolve_neg().cpu().clone()
    return Output(name, copy, dtypes.name_of(item.dtype), str(item.device))


def _elements(tensor: recipe.Literal) -> int:
    return len(tensor.data) // torch.empty(0, dtype=dtypes.TORCH[tensor.dtype]).element_size()


def _tensor(flat: recipe.Literal) -> torch.Tensor:
    if not flat.data:
        return torch.empty(0, dtype=dtypes.TORCH[flat.dtype])
    return view_of(torch.frombuffer(bytearray(flat.data), dtype=dtypes.TORCH[flat.dtype]), flat)
