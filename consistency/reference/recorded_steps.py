"""The steps of a function, recorded in the tested dtype and replayed in float64.

They are recorded below autograd, where each step is a torch operator whose result shows its format.
For a replay (:mod:`.step_replay`), one flat float64 tensor stands for each storage, with the
recorded memory layout, so that views and in-place writes need no special treatment. Tensors that
are not floating-point (indices, masks) keep their recorded values.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch

from ..backends.base import collect
from ..core import dtypes
from ..core.dispatch_mode import PlainDispatchMode
from ..core.trees import flatten, map_leaves
from ..core.zero_tensors import with_memory
from ..generate.materialize import Arguments, Materials
from ..operators.catalog.aten import moves_numbers
from ..operators.catalog.signature import signature
from ..operators.declare import Operator
from .perturbation import ulp
from .step_replay import (
    RecordedStep,
    ReplayedStep,
    SlotRegion,
    StepChange,
    in_float64,
    replayed,
    results_of,
    storage_of,
)

_ROUNDED_ONCE = 0.6  # ulp; with a smaller error, a result counts as correctly rounded
_FEW = 32  # numbers below which all may be exact by chance


class UntraceableError(Exception):
    """The steps of a function cannot be recorded or replayed in float64."""


class RecordedSteps:
    """The steps of a function on the arguments of a case, in the case's dtype on the CPU, forward
    or backward.

    Raises UntraceableError if it draws random numbers or cannot be traced.
    """

    def __init__(self, operator: Operator, materials: Materials, direction: str) -> None:
        backward = direction == "backward"
        arguments = materials.build(gradients=backward and operator.leaves)
        self._inputs = {
            storage_of(base): i
            for i, base in enumerate(arguments.bases)
            if base.is_floating_point()
        }
        recorder = _Recorder(set(self._inputs))
        try:
            with warnings.catch_warnings(), recorder:
                warnings.simplefilter("ignore")
                outputs = collect(
                    lambda args, kwargs: operator(*args, **kwargs), operator, arguments, backward
                )
        except UntraceableError:
            raise
        except Exception as error:  # a user's function may not work under a dispatch mode
            raise UntraceableError(f"{type(error).__name__}: {str(error)[:100]}") from error
        self.steps, self._constants = recorder.steps, recorder.constants
        self.outputs = [output.tensor for output in outputs]
        self._replayed = [ReplayedStep(step) for step in self.steps]
        self._places = [
            SlotRegion.of(t) if isinstance(t, torch.Tensor) and t.is_floating_point() else None
            for t in self.outputs
        ]
        self._alive = arguments  # because storages are identified by their address

    @property
    def rounding(self) -> int:
        """The number of steps that round their result."""
        return sum(step.rounds for step in self.steps)

    @property
    def elements(self) -> int:
        """The number of intermediate numbers."""
        return sum(r.numel() for step in self.steps for r in step.results if r is not None)

    def replay(
        self, arguments: Arguments, change: StepChange | None = None
    ) -> list[torch.Tensor | None]:
        """The outputs in float64 on ``arguments``, with ``change`` applied to the result of each
        rounding step."""
        slots = {
            storage: arguments.bases[i].detach().clone() for storage, i in self._inputs.items()
        }
        slots |= {storage: numbers.clone() for storage, numbers in self._constants.items()}
        try:
            return replayed(self._replayed, slots, change, self._places)
        except Exception as error:  # an operator without float64, or that rejects these numbers
            raise UntraceableError(f"{type(error).__name__}: {str(error)[:100]}") from error


class _Recorder(PlainDispatchMode):
    """Records each step that computes numbers, and tensors that no step computed (constants)."""

    def __init__(self, storages: set[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.known, self.steps = storages, list[RecordedStep]()
        self.constants: dict[int, torch.Tensor] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        operands = [t for t in flatten((args, kwargs)) if isinstance(t, torch.Tensor)]
        for tensor in operands:
            self._note_constant(tensor)
        schema = signature(func)
        if schema.is_random:
            raise UntraceableError(f"{func} draws random numbers")
        # What is written has other numbers afterwards; of what is not, most calls are views.
        before = _in_float64(args, kwargs) if schema.all_written else None
        result = func(*args, **kwargs)
        if (zeros := with_memory(result)) is not result:
            return zeros
        results = results_of(func, result, args, kwargs)
        theirs = {storage_of(tensor) for tensor in operands}
        tensors = tuple(r if isinstance(r, torch.Tensor) else None for r in results)
        step = RecordedStep(func, args, kwargs, tensors)
        if (
            not step.writes
            and tensors
            and all(r is None or storage_of(r) in theirs for r in tensors)
        ):
            return result  # a view
        if any(
            r is not None and (r.is_complex() or (step.writes and not r.is_floating_point()))
            for r in tensors
        ):
            raise UntraceableError(f"{func} makes complex numbers, or writes whole ones in place")
        _measure_rounding(step, *(before or _in_float64(args, kwargs)))
        self.steps.append(step)
        self.known |= {storage_of(r) for r in tensors if r is not None and r.is_floating_point()}
        return result

    def _note_constant(self, tensor: torch.Tensor) -> None:
        if not tensor.is_floating_point() or storage_of(tensor) in self.known:
            return
        if type(tensor) is not torch.Tensor and not isinstance(tensor, torch.nn.Parameter):
            raise UntraceableError(f"a {type(tensor).__name__} takes steps of its own")
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            raise UntraceableError("a constant of another kind or on another device")
        self.known.add(storage_of(tensor))
        storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
        self.constants[storage_of(tensor)] = storage.to(torch.float64)


def _measure_rounding(step: RecordedStep, args: Any, kwargs: Any) -> None:
    """Set whether a step's results differ from float64 on the same numbers, and by how much. With
    few numbers, the step counts as rounding even if all are exact by chance."""
    floating = [r for r in step.results if r is not None and r.is_floating_point()]
    if not floating:
        return
    returned = step.call(*args, **kwargs)
    # What no floating-point number goes into, as zeros, is of the default dtype again.
    exact = [
        r.to(torch.float64) if isinstance(r, torch.Tensor) and r.is_floating_point() else r
        for r in results_of(step.call, returned, args, kwargs)
    ]
    moves = moves_numbers(step.name) or step.name == "arange"
    few_values = not moves and sum(r.numel() for r in floating) < _FEW
    step.rounds = few_values and any(bool((r != 0).any()) for r in floating)
    off = []
    for actual, expected in zip(step.results, exact, strict=True):
        off.append(0.0)
        if actual is None or not actual.is_floating_point() or not actual.numel():
            continue
        error = torch.nan_to_num((actual.to(torch.float64) - expected).abs_(), nan=0.0, posinf=0.0)
        step.rounds = step.rounds or bool(error.any())
        if bool(
            (
                error > _ROUNDED_ONCE * ulp(expected, dtypes.FORMATS[dtypes.name_of(actual.dtype)])
            ).any()
        ):
            off[-1] = float(error.square().mean().sqrt())
    step.off = tuple(off)


def _in_float64(args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Copies of the arguments of a call in float64."""
    with torch.no_grad():
        return map_leaves(_copy_to_float64, args), map_leaves(_copy_to_float64, kwargs)


def _copy_to_float64(value: Any) -> Any:
    """A copy in float64 with the same memory layout; floating-point dtypes become float64."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(torch.float64, copy=True) if value.is_floating_point() else value
    return in_float64(value)


class CastsToFloat64(PlainDispatchMode):  # type: ignore[no-untyped-call]
    """Replaces casts to any floating-point format by float64: ``x.float()``,
    ``dtype=torch.float16``."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*map_leaves(in_float64, args), **map_leaves(in_float64, kwargs or {}))
