"""How a probe asks a backend: ordinary operators on tensors that are given by their bits, one call
or many at once.

A probe compares bit patterns and never computes with what came back in the backend's own mode: a
process that flushes subnormals flushes its own arithmetic too. Everything goes through
:meth:`Backend.run`, so a worker process is asked like any other backend.
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
LOOK_AHEAD = 24  # requests that a worker process is told of in advance
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class NotAnswered(Exception):  # noqa: N818 - says what happened, is not an error of anybody's
    """The backend does not offer what a probe needs, or failed at it; the text says why. The probe
    is inconclusive then."""


@dataclass(frozen=True)
class Request:
    """A call: ``operator`` by its name in the registry, or ``call/Tensor.to`` for one of torch's
    own functions."""

    operator: str
    dtype: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def call(operator: str, dtype: str, *args: Any, **kwargs: Any) -> Request:
    """A request; tensors are taken over bit by bit, with their strides."""
    return Request(operator, dtype, args, kwargs)


class Ask:
    """Asks one backend. ``calls`` counts what was asked; ``step`` is told each call (for a progress
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
        """The first tensor that each call returns. Raises NotAnswered where one of them gives
        none."""
        return [answer[0] for answer in self.all_outputs(requests)]

    def each(self, requests: Sequence[Request]) -> list[torch.Tensor | NotAnswered]:
        """As :meth:`many`, but a call that gives nothing costs its own answer only."""
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
        """Asks this backend with a switch the other way (``"one thread"``, ``"oneDNN off"``); None
        where it has no such switch."""
        found = self.backend.variants().get(words)
        return None if found is None else Ask(found, self._step)

    def refusal(self, operator: str, dtype: str) -> str | None:
        """Why the backend does not offer an operator in a dtype; None where it may be asked."""
        key = (operator, dtype)
        if key not in self._refusals:
            self._refusals[key] = self._refusal(operator, dtype)
        return self._refusals[key]

    def _refusal(self, operator: str, dtype: str) -> str | None:
        try:
            found = _operator(operator, dtype)
        except UsageError as error:
            return str(error)
        return backends.refusal(self.backend, found, dtype, "forward")

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
                (*known, "forward") for known in window if not isinstance(known, NotAnswered)
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
                f"{outcome.status}{_why(outcome.exception, outcome.message)}"
            )
        tensors = tuple(
            o.tensor for o in outcome.outputs if o.tensor is not None and o.name.startswith("out/")
        )
        return tensors or NotAnswered(f"{operator.name} {case.dtype} returns no tensor")


def _why(exception: str, message: str) -> str:
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
    """The tensor with these bit patterns; the other way round of :func:`words`."""
    kind = array_dtype(dtype)
    array = np.ascontiguousarray(patterns, dtype=f"u{np.dtype(kind).itemsize}")
    return to_tensor(array.view(kind).copy(), dtype)


def numbers(values: npt.ArrayLike, dtype: str) -> torch.Tensor:
    """float64 values as a tensor of ``dtype``. Raises ValueError where one of them is not exactly a
    number of that format."""
    wide = torch.from_numpy(np.array(values, dtype=np.float64))
    narrow = wide.to(dtypes.TORCH[dtype])
    if not torch.equal(narrow.to(torch.float64), wide):
        raise ValueError(f"a probe's number does not fit {dtype}")
    return narrow


def doubles(tensor: torch.Tensor) -> npt.NDArray[np.float64]:
    """What came back as float64, exactly."""
    return tensor.detach().to(torch.float64).numpy()
