"""Calls from a probe to a backend: ordinary operators on tensors of given bits, one call or many at
once.

A probe compares bit patterns and never computes with results in the backend's own mode, since a
process that flushes subnormals flushes its own arithmetic, too. All calls go through
:meth:`Backend.run`, so a worker process is called like any other backend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ... import backends, operators
from ...backends.base import Backend
from ...core import dtypes
from ...core.bits import array_dtype, to_array, to_tensor, unsigned_patterns
from ...core.case_source import CALL
from ...core.model import Case
from ...errors import RecipeError, UsageError
from ...generate import materialize
from ...generate.calls.torch_functions import operator_of
from ...operators.declare import Operator

Words = npt.NDArray[Any]  # unsigned integers: bit patterns
LOOK_AHEAD = 24  # requests submitted to a worker process in advance
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class NotAnswered(Exception):  # noqa: N818 - an outcome, not an error
    """The backend does not support what a probe needs, or failed; the text says why. The probe is
    then inconclusive."""


@dataclass(frozen=True)
class Request:
    """A call of ``operator``: a name in the registry, or ``call/Tensor.to`` for a function of
    torch."""

    operator: str
    dtype: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def call(operator: str, dtype: str, *args: Any, **kwargs: Any) -> Request:
    """A request; tensors keep their bits and strides."""
    return Request(operator, dtype, args, kwargs)


class Ask:
    """Calls one backend. ``calls`` counts the calls; ``step`` is called before each (for a progress
    bar)."""

    def __init__(self, backend: Backend, step: Callable[[], None] | None = None) -> None:
        self.backend = backend
        self.calls = 0
        self._step = step
        self._refusals: dict[tuple[str, str], str | None] = {}

    def __call__(self, operator: str, dtype: str, *args: Any, **kwargs: Any) -> torch.Tensor:
        """The first tensor that the call returns, on the CPU. Raises NotAnswered."""
        return self.many([Request(operator, dtype, args, kwargs)])[0]

    def many(self, requests: Sequence[Request]) -> list[torch.Tensor]:
        """The first tensor that each call returns. Raises NotAnswered if any call returns none."""
        return [answer[0] for answer in self.all_outputs(requests)]

    def each(self, requests: Sequence[Request]) -> list[torch.Tensor | NotAnswered]:
        """As :meth:`many`, but with NotAnswered in place of a missing result."""
        return [
            answer if isinstance(answer, NotAnswered) else answer[0]
            for answer in self._answers(requests)
        ]

    def all_outputs(self, requests: Sequence[Request]) -> list[tuple[torch.Tensor, ...]]:
        """All returned tensors of each call. Raises NotAnswered."""
        answers = self._answers(requests)
        for answer in answers:
            if isinstance(answer, NotAnswered):
                raise answer
        return [answer for answer in answers if not isinstance(answer, NotAnswered)]

    def variant(self, words: str) -> Ask | None:
        """This backend with a changed setting (``"one thread"``, ``"oneDNN off"``); None if it has
        no such setting."""
        backend = self.backend.variants().get(words)
        return None if backend is None else Ask(backend, self._step)

    def refusal(self, operator: str, dtype: str) -> str | None:
        """Why the backend does not support an operator in a dtype; None if it does."""
        key = (operator, dtype)
        if key not in self._refusals:
            self._refusals[key] = self._refusal(operator, dtype)
        return self._refusals[key]

    def _refusal(self, operator: str, dtype: str) -> str | None:
        try:
            registered = _operator(operator, dtype)
        except UsageError as error:
            return str(error)
        return backends.refusal(self.backend, registered, dtype, "forward")

    def _answers(self, requests: Sequence[Request]) -> list[tuple[torch.Tensor, ...] | NotAnswered]:
        prepared: list[tuple[Operator, Case] | NotAnswered] = [
            self._prepared(request) for request in requests
        ]
        answers: list[tuple[torch.Tensor, ...] | NotAnswered] = []
        for position, item in enumerate(prepared):
            if isinstance(item, NotAnswered):
                answers.append(item)
                continue
            window = prepared[position : position + LOOK_AHEAD]
            self.backend.prefetch(
                (*call_, "forward") for call_ in window if not isinstance(call_, NotAnswered)
            )
            answers.append(self._run(*item))
        return answers

    def _prepared(self, request: Request) -> tuple[Operator, Case] | NotAnswered:
        reason = self.refusal(request.operator, request.dtype)
        if reason:
            return NotAnswered(reason)
        kwargs = {key: materialize.from_python(value) for key, value in request.kwargs.items()}
        source = request.operator if request.operator.startswith(f"{CALL}/") else ""
        args = tuple(materialize.from_python(arg) for arg in request.args)
        name = request.operator.removeprefix(f"{CALL}/")
        return _operator(request.operator, request.dtype), Case(
            name, request.dtype, args, kwargs, source=source
        )

    def _run(self, operator: Operator, case: Case) -> tuple[torch.Tensor, ...] | NotAnswered:
        self.calls += 1
        if self._step is not None:
            self._step()
        try:
            outcome = self.backend.run(operator, materialize.prepare(case))
        except RecipeError as error:
            return NotAnswered(f"{operator.name} cannot be asked: {error}")
        if not outcome.ok:
            return NotAnswered(
                f"{operator.name} {case.dtype}: "
                f"{outcome.status}{_error_suffix(outcome.exception, outcome.message)}"
            )
        tensors = tuple(
            o.tensor for o in outcome.outputs if o.tensor is not None and o.name.startswith("out/")
        )
        return tensors or NotAnswered(f"{operator.name} {case.dtype} returns no tensor")


def _error_suffix(exception: str, message: str) -> str:
    text = f"{exception}: {message}" if exception and message else exception or message
    return f": {' '.join(text.split())[:160]}" if text else ""


def _operator(name: str, dtype: str) -> Operator:
    if name.startswith(f"{CALL}/"):
        return operator_of(Case(name.removeprefix(f"{CALL}/"), dtype, source=name))
    return operators.get(name)


def words(tensor: torch.Tensor) -> Words:
    """The bit patterns of a tensor on the CPU, as unsigned integers of its width and shape."""
    return unsigned_patterns(to_array(tensor.detach().contiguous()))


def from_words(patterns: Words, dtype: str) -> torch.Tensor:
    """The tensor with these bit patterns, the inverse of :func:`words`."""
    kind = array_dtype(dtype)
    array = np.ascontiguousarray(patterns, dtype=f"u{np.dtype(kind).itemsize}")
    return to_tensor(array.view(kind).copy(), dtype)


def numbers(values: npt.ArrayLike, dtype: str) -> torch.Tensor:
    """float64 values as a tensor of ``dtype``. Raises ValueError if that changes a value."""
    wide = torch.from_numpy(np.array(values, dtype=np.float64))
    narrow = wide.to(dtypes.TORCH[dtype])
    if not torch.equal(narrow.to(torch.float64), wide):
        raise ValueError(f"a probe's number does not fit {dtype}")
    return narrow


def doubles(tensor: torch.Tensor) -> npt.NDArray[np.float64]:
    """A result converted to float64, which is exact."""
    return tensor.detach().to(torch.float64).numpy()
