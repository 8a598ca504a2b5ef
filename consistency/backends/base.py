"""The backend protocol: take a case's materials, call the operator, bring back what came out.

Users subclass :class:`Backend` and override :meth:`Backend.call`. This module imports torch and
numpy only, as everything does that a worker process needs.
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
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from ..core.model import Case, Outcome, Output
from ..core.trees import flatten
from ..core.verdict import OutcomeStatus
from ..errors import RecipeError
from ..generate.materialize import Adjust, Materials
from ..operators.declare import Operator
from . import _numerics
from ._guarded_calls import availability, refusal
from ._outputs import (
    changed,
    collect,
    cotangent,
    elsewhere,
    failed,
    fallback_in,
    texts_of,
    to_cpu,
    told,
)

__all__ = [
    "Backend",
    "TorchBackend",
    "availability",
    "collect",
    "cotangent",
    "failed",
    "flatten",
    "refusal",
]


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
    tolerance_key: str = (
        ""  # the spec that tolerances know it by, where its name is one that somebody made up
    )
    is_recorded: bool = False  # its outcomes were recorded elsewhere: nothing can be run again
    fingerprint: Mapping[str, str] = MappingProxyType(
        {}
    )  # of a recorded one: the summary of its fingerprint

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The operator's result on tensors that already lie on the device."""
        return operator(*args, **kwargs)

    def why_unavailable(self) -> str | None:
        """Why this backend cannot run here, in words for a person; None when it can."""
        return None

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        """Why a kind of case is not offered (no float64, no gradients …); None when it may be
        tried."""
        if direction == "backward" and not self.differentiable:
            return f"{self.name} computes no gradients"
        return None

    def has_float64(self) -> bool | None:
        """Whether float64 can be tried here; None when nobody knows."""
        return None

    def environment(self) -> dict[str, str]:
        """Device, driver, library versions and numeric switches, as text."""
        identity = {
            "device": "cpu",
            "torch": torch.__version__,
            "numpy": np.__version__,
            "processor": _processor(),
        }
        identity |= {"mkl instructions": text} if (text := _numerics.mkl_instructions()) else {}
        return identity | _numerics.build() | _numerics.switches() | _numerics.variables()

    @functools.cached_property
    def identity(self) -> dict[str, str]:
        """The environment, asked for once. Never raises: what went wrong is told under
        ``error``."""
        try:
            return {str(key): str(value) for key, value in self.environment().items()}
        except Exception as error:
            return {"device": str(self.device), "error": told(error)}

    def switches(self) -> AbstractContextManager[Any]:
        """A context that sets this backend's numeric switches and restores what was there
        before."""
        return contextlib.nullcontext()

    def variants(self) -> Mapping[str, Backend]:
        """This backend with one of its switches the other way, by words for it: what is tried to
        make a divergence vanish."""
        return {}

    def prepare(self) -> None:
        """Once in a process of its own, before the first case: what takes long and is no case's
        fault."""

    def with_decomposition(self, words: str, how: Callable[..., Any]) -> Backend:
        """This backend with one operator composed of others
        (:mod:`consistency.operators.formulas`), which ``words`` describe.
        """
        from .with_decomposition import DecomposedBackend

        return DecomposedBackend(self, how)

    def prefetch(self, coming: Iterable[tuple[Operator, Case, str]]) -> None:
        """Told which cases (operator, case, direction) will be asked for next; a worker process
        begins with them."""

    def discard_prefetched(self) -> None:
        """Nothing that was announced will be asked for any more."""

    def retry_scope(self, case_seconds: float | None = None) -> AbstractContextManager[Any]:
        """A context in which one failing case may be tried again and again: no operator is put in
        quarantine for it.

        ``case_seconds``: the most that a case may take meanwhile, where there is a limit at all;
        the context's value is the limit that holds then, or None.
        """
        return contextlib.nullcontext()

    def memory_growth(self) -> tuple[str, float] | None:
        """An operator that leaves memory behind on every call, and how many bytes; None where none
        does, or nobody can tell."""
        return None

    def close(self) -> None:
        """The run is over: let go of what is held (processes). A backend that is used again
        afterwards begins anew."""

    def finish(self) -> None:
        """Waits until the device has done what it was asked, so that its errors belong to the case
        that caused them."""

    def recover(self, exception: str, message: str) -> None:
        """Called after a case raised, with the exception's type and text: leave the device usable
        for the next one."""

    def run(
        self,
        operator: Operator,
        materials: Materials,
        direction: str = "forward",
        dtype: str | None = None,
        adjust: Adjust | None = None,
    ) -> Outcome:
        """Build the case's tensors (as ``dtype``, after ``adjust``, if given), call, collect.

        Never raises for what the backend did; raises RecipeError when the recipe itself cannot be
        built.
        """
        if operator.callable is None:
            return Outcome(
                OutcomeStatus.UNSUPPORTED,
                message=f"torch {torch.__version__} has no {operator.name}",
            )
        backward = direction == "backward"
        before = (torch.is_grad_enabled(), torch.get_default_dtype())
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
            quiet = len(
                caught
            )  # copying the inputs may warn, too, which says nothing about the operator
            started = time.perf_counter()
            try:
                with self.switches():
                    outputs = collect(
                        functools.partial(self.call, operator), operator, arguments, backward
                    )
                    self.finish()
                    outputs = tuple([to_cpu(output) for output in outputs])
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                # sys.exit, a panic from Rust: whatever a backend throws is a result about it
                outputs, failure = (), failed(error)
            seconds = time.perf_counter() - started
        if (torch.is_grad_enabled(), torch.get_default_dtype()) != before:
            torch.set_grad_enabled(
                before[0]
            )  # or every later case of the run, the reference's too, would suffer
            torch.set_default_dtype(before[1])
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
        if self.device == "cpu" and dtype is None and not backward and not message:
            modified = tuple(
                [i for i in changed(arguments, materials) if i not in operator.mutates]
            )
        return Outcome(status, outputs, "", message, texts, modified, seconds)

    def _not_built(
        self, error: Exception, materials: Materials, dtype: str | None, adjust: Adjust | None
    ) -> Outcome:
        """The inputs could not be made: a recipe's fault if the CPU cannot make them either, else
        the device's."""
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
        """As Backend.call. Without a tensor to follow (arange, full …), torch is told to make its
        tensors on the device."""
        if self.device != "cpu" and not any(
            isinstance(item, torch.Tensor) for item in flatten((args, kwargs))
        ):
            with torch.device(self.device):
                return operator(*args, **kwargs)
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
    """Repeat the warnings that torch gives once a process: that an operator fell back to the CPU is
    wanted for each case."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


def _processor() -> str:
    capability = torch.backends.cpu.get_cpu_capability() if hasattr(torch.backends, "cpu") else ""
    return f"{platform.processor() or platform.machine()} {capability}".strip()
