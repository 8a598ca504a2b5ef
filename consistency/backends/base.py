"""The backend protocol: take a case's materials, call the operator, return the outputs.

Users subclass :class:`Backend` and override :meth:`Backend.call`. Like everything a worker process
needs, this module imports only torch and NumPy.
"""

from __future__ import annotations

import contextlib
import functools
import platform
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import FunctionType, MappingProxyType
from typing import Any

import numpy as np
import torch

from ..core import interrupts
from ..core.contract import Contract
from ..core.model import Case, Outcome, Output
from ..core.trees import flatten
from ..core.verdict import OutcomeStatus
from ..errors import RecipeError
from ..generate.materialize import Adjust, Materials
from ..operators.declare import Operator
from . import _numerics
from ._contract import ContractObserver
from ._cotangents import cotangent, differentiated
from ._folding import folded
from ._foreign_code import StateChanges, guarded, is_own
from ._guarded_calls import attempt, availability, prepared, refusal
from ._messages import failed, fallback_in, texts_of, told
from ._outputs import changed, collect, elsewhere, limited, to_cpu
from .process_state import StateGuard

__all__ = [
    "Backend",
    "TorchBackend",
    "attempt",
    "availability",
    "collect",
    "cotangent",
    "differentiated",
    "failed",
    "flatten",
    "limited",
    "prepared",
    "refusal",
]

_COPIED_BACK = 1 << 18  # bytes of a case's inputs that are copied from a device and compared


# Methods that users override and that this package calls, besides `call`, `switches` and `finish`,
# which `run` calls.
_GUARDED = (
    "run", "why_unavailable", "unsupported", "has_float64", "environment", "variants", "prefetch",
    "discard_prefetched", "memory_growth", "recover", "close",
)  # fmt: skip


class Backend:
    """Runs operators somewhere. The base class runs them with torch on the CPU.

    ``name`` identifies it in results. ``call(operator, args, kwargs)`` receives tensors already on
    ``device``, which track gradients when the backward direction is tested, and returns what the
    operator returns; call ``super().call(...)`` for torch's own result. Raise
    :class:`consistency.Unsupported` for what is not offered.

    Results are expected on ``device``: where all of them lie on the CPU instead, the operator
    counts as one that fell back.
    """

    name: str = "backend"
    device: str = "cpu"
    differentiable: bool = True
    keeps_contract: bool = (
        True  # torch's views, identities, strides and gradient tracking hold here
    )
    tolerance_key: str = ""  # the spec under which tolerances know it, if its name is invented
    is_recorded: bool = False  # outcomes were recorded elsewhere: nothing can be run again
    fingerprint: Mapping[str, str] = MappingProxyType(
        {}
    )  # recorded backends: the summary of the fingerprint

    def __init_subclass__(cls, **options: Any) -> None:
        """Guard the methods of users' classes: what they change in global state is restored."""
        super().__init_subclass__(**options)
        if not is_own(cls.__module__):
            for name in _GUARDED:
                method = cls.__dict__.get(name)
                if isinstance(method, FunctionType):
                    setattr(cls, name, guarded(method))

    @property
    def is_foreign(self) -> bool:
        """Whether a user wrote it, so that its calls are guarded."""
        return not is_own(type(self).__module__)

    @functools.cached_property
    def state_changes(self) -> StateChanges:
        """The changes to global state that this backend made and no verdict has told yet."""
        return StateChanges()

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The operator's result on tensors that already lie on the device."""
        return operator(*args, **kwargs)

    def why_unavailable(self) -> str | None:
        """Why this backend cannot run here; None if it can."""
        return None

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        """Why a kind of case is not offered (no float64, no gradients …); None if it may be
        tried."""
        if direction == "backward" and not self.differentiable:
            return f"{self.name} computes no gradients"
        return None

    def has_float64(self) -> bool | None:
        """Whether float64 can be tried here; None if unknown."""
        return None

    def environment(self) -> dict[str, str]:
        """Device, driver, library versions and numeric switches, as text."""
        identity = {
            "device": "cpu",
            "torch": torch.__version__,
            "numpy": np.__version__,
            "processor": _processor(),
        }
        identity |= {"mkl instructions": text} if (text := _numerics.instructions()) else {}
        return identity | _numerics.build() | _numerics.switches() | _numerics.variables()

    @functools.cached_property
    def identity(self) -> dict[str, str]:
        """The environment, cached. Never raises: errors are reported under ``error``."""
        try:
            return {str(key): str(value) for key, value in self.environment().items()}
        except Exception as error:
            return {"device": str(self.device), "error": told(error)}

    def switches(self) -> AbstractContextManager[Any]:
        """A context that sets this backend's numeric switches and restores what was there
        before."""
        return contextlib.nullcontext()

    def variants(self) -> Mapping[str, Backend]:
        """This backend with one switch changed, by description: tried to make a divergence
        vanish."""
        return {}

    def prepare(self) -> None:
        """Slow preparation that no case should be charged for: once per process, before the first
        case."""

    def with_decomposition(self, words: str, how: Callable[..., Any]) -> Backend:
        """This backend with one operator decomposed into others
        (:mod:`consistency.operators.formulas`), described by ``words``."""
        from .with_decomposition import DecomposedBackend

        return DecomposedBackend(self, how)

    def prefetch(self, coming: Iterable[tuple[Operator, Case, str]]) -> None:
        """Announce the next cases (operator, case, direction); a worker process begins with
        them."""

    def discard_prefetched(self) -> None:
        """Cancel everything that was announced."""

    def retry_scope(self, case_seconds: float | None = None) -> AbstractContextManager[Any]:
        """A context in which one failing case may be repeated without quarantine for its operator.

        ``case_seconds``: the time limit per case, if limits apply at all; the context's value is
        the limit in effect, or None.
        """
        return contextlib.nullcontext()

    def memory_growth(self) -> tuple[str, float] | None:
        """An operator that leaks memory on every call, and how many bytes; None if there is none or
        it is unknown."""
        return None

    def close(self) -> None:
        """The run is over: release resources (processes). They are acquired again on further
        use."""

    def finish(self) -> None:
        """Synchronize with the device, so that its errors belong to the case that caused them."""

    def recover(self, exception: str, message: str) -> None:
        """Called after a case raised, with the exception's type and text: make the device usable
        again."""

    def run(
        self,
        operator: Operator,
        materials: Materials,
        direction: str = "forward",
        dtype: str | None = None,
        adjust: Adjust | None = None,
    ) -> Outcome:
        """Build the case's tensors (as ``dtype``, after ``adjust``, if given), call, collect.

        Never raises for a fault of the backend; raises RecipeError if the recipe itself cannot be
        built.
        """
        if operator.callable is None:
            return Outcome(
                OutcomeStatus.UNSUPPORTED,
                message=f"torch {torch.__version__} has no {operator.name}",
            )
        backward = direction == "backward"
        tiling = materials.case.tiling
        large = tiling is not None and tiling.is_large
        observer = ContractObserver() if self._has_contract(dtype, adjust) and not large else None
        contract: Contract | None = None
        outputs: tuple[Output, ...] = ()
        failure: Outcome | None = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                arguments = materials.build(
                    dtype, device=self.device, gradients=backward and operator.leaves, adjust=adjust
                )
            except Exception as error:
                return self._not_built(error, materials, dtype, adjust)
            quiet = len(caught)  # warnings about copying inputs do not concern the operator
            started = time.perf_counter()
            guard = StateGuard() if self.is_foreign else None
            try:
                with self.switches():
                    outputs = collect(
                        functools.partial(self.call, operator),
                        operator,
                        arguments,
                        backward,
                        self.state_changes,
                        observer,
                    )
                    self.finish()
                    if tiling is not None and large:
                        outputs = folded(outputs, tiling, arguments, backward)
                        self.finish()
                    contract = observer.contract() if observer is not None else None
                    outputs = tuple([to_cpu(output) for output in outputs])
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and interrupts.was_pressed():
                    raise
                # even sys.exit or a Rust panic is a result of this backend
                outputs, failure = (), failed(error)
            finally:
                if guard is not None:  # before anything else is computed
                    self.state_changes.add(guard.restore())
            seconds = time.perf_counter() - started
        texts, message = texts_of(caught), ""
        if failure is not None:
            with contextlib.suppress(Exception):
                self.recover(failure.exception, failure.message)
            return replace(failure, warnings=texts, seconds=seconds)
        status = OutcomeStatus.OK
        if texts:
            message = fallback_in(texts_of(caught[quiet:]))
        strangers = elsewhere(outputs, self.device)
        if strangers:
            text = f"{strangers[0].name} came back on {strangers[0].device}, not on {self.device}"
            texts = (*texts, text)
            if not message and all(output.device == "cpu" for output in outputs):
                message = text
        if message:
            status = OutcomeStatus.FALLBACK
        modified: tuple[int, ...] = ()
        if dtype is None and adjust is None and not message and self._can_look_at(materials):
            modified = tuple(
                [i for i in changed(arguments, materials) if backward or i not in operator.mutates]
            )
        contract = None if message else contract
        return Outcome(status, outputs, "", message, texts, modified, seconds, contract=contract)

    def _has_contract(self, dtype: str | None, adjust: Adjust | None) -> bool:
        """Whether a call is the case itself, on a backend that keeps torch's contract."""
        return self.keeps_contract and dtype is None and adjust is None

    def _can_look_at(self, materials: Materials) -> bool:
        """Whether the inputs may be compared afterwards: large ones are not copied from a
        device."""
        return self.device == "cpu" or sum(b.nbytes for b in materials.bases) <= _COPIED_BACK

    def _not_built(
        self, error: Exception, materials: Materials, dtype: str | None, adjust: Adjust | None
    ) -> Outcome:
        """The inputs could not be made: a fault of the recipe if the CPU cannot make them either,
        else of the device."""
        if isinstance(error, RecipeError):
            if self.device == "cpu":
                raise error
            materials.build(dtype, adjust=adjust)
        cause = (
            error.__context__
            if isinstance(error, RecipeError) and error.__context__ is not None
            else error
        )
        reason = availability(self)
        if reason:
            return Outcome(OutcomeStatus.UNAVAILABLE, message=reason)
        failure = failed(cause)
        with contextlib.suppress(Exception):
            self.recover(failure.exception, failure.message)
        return replace(
            failure, message=f"the inputs could not be made on {self.device}: {failure.message}"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class TorchBackend(Backend):
    """Any torch device: subclass it (or pass ``name`` and ``device``) with ``device = "cuda"``,
    ``"mps"``, ``"cpu"`` …"""

    def __init__(self, name: str | None = None, device: str | None = None) -> None:
        self.device = str(device or type(self).device)
        self.name = name or (type(self).name if type(self).name != "backend" else self.device)

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """As Backend.call. Without tensor arguments (arange, full …), torch creates the tensors on
        the device."""
        if self.device != "cpu" and not any(
            isinstance(item, torch.Tensor) for item in flatten((args, kwargs))
        ):
            return self.create(operator, args, kwargs)
        return self.invoke(operator, args, kwargs)

    def create(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """A call without tensors, whose results are to be made on the device."""
        with torch.device(self.device):
            return self.invoke(operator, args, kwargs)

    def invoke(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The call itself, where :meth:`call` has chosen the device."""
        return operator(*args, **kwargs)

    def why_unavailable(self) -> str | None:
        if self.device == "cpu":
            return None
        from .devices import why_absent

        return why_absent(self.device)

    def switches(self) -> AbstractContextManager[Any]:
        return contextlib.nullcontext() if self.device == "cpu" else every_warning()

    def environment(self) -> dict[str, str]:
        return super().environment() | {"device": self.device}


@contextlib.contextmanager
def every_warning() -> Iterator[None]:
    """Repeat torch's once-per-process warnings: each case needs to know of a CPU fallback."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def _processor() -> str:
    capability = torch.backends.cpu.get_cpu_capability() if hasattr(torch.backends, "cpu") else ""
    return f"{platform.processor() or platform.machine()} {capability}".strip()
