"""Sums inside operators: the elements of the arguments that are summed into each output, and the
queries that recover their order.

All queries use the shapes, strides and dtypes of the actual arguments, since these select the
kernel. In a product both factors carry a mark: row ``r`` of the left factor +M at its pivot, column
``c`` of the right factor -M at its other term, so that one call queries rows × columns pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...backends.base import Backend
from ...core import dtypes
from ...core.model import Outcome
from ...errors import ConsistencyError, RecipeError
from ...generate.materialize import case_of, prepare
from ...operators.declare import Operator
from .trees import Counts, Members, NotATreeError

Array = np.ndarray[Any, Any]
MOST_CALLS = 3000
MOST_READ = 1 << 31  # limit of input elements over all calls
_LARGE = {"float64": 2.0**600, "float32": 2.0**100, "bfloat16": 2.0**100}  # the mark M
_COUNTS = {"float64": 1 << 40, "float32": 1 << 24, "bfloat16": 1 << 8}  # exact integers up to here


class NotAskedError(ConsistencyError):
    """The order of this sum cannot be queried; the message says why."""


@dataclass(frozen=True)
class Layout:
    """Positions of the terms of each output. ``left`` [rows, terms] are element indices of argument
    ``argument`` (-1: a padding zero).

    ``right`` [groups, columns, terms] are indices into argument ``factor``, None for a plain sum;
    ``group`` [rows] is the group that each row uses. ``bias`` [columns] are indices into argument
    ``bias_at``. ``back`` reshapes a result to [rows, columns]. ``places`` are sets of rows without
    shared inputs, so that each row can query another pair; rows in no set cannot be queried.
    ``scaled``: the operator is a mean.
    """

    terms: int
    left: Array
    right: Array | None
    group: Array
    places: tuple[Array, ...]
    back: Callable[[torch.Tensor], torch.Tensor]
    argument: int = 0
    factor: int = 1
    bias: Array | None = None
    bias_at: int = 2
    scaled: bool = False

    @property
    def columns(self) -> int:
        return 1 if self.right is None else int(self.right.shape[1])

    @property
    def added(self) -> int:
        return int(self.bias is not None)


@dataclass(frozen=True)
class Question:
    """One call whose summation order is queried: backend, operator, actual arguments, and the
    layout of its sums."""

    backend: Backend
    operator: Operator
    dtype: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    layout: Layout

    def run(self, changed: Mapping[int, torch.Tensor] | None = None) -> torch.Tensor:
        """The result [rows, columns] of the call with some arguments replaced. Raises
        NotAskedError."""
        return self.layout.back(self.call(changed))

    def call(self, changed: Mapping[int, torch.Tensor] | None = None) -> torch.Tensor:
        """The same result in the operator's own shape."""
        args = tuple((changed or {}).get(i, arg) for i, arg in enumerate(self.args))
        try:
            outcome: Outcome = self.backend.run(
                self.operator, prepare(case_of(self.operator.name, self.dtype, args, self.kwargs))
            )
        except RecipeError as error:
            raise NotAskedError(str(error)) from None
        if not outcome.ok or not outcome.outputs or outcome.outputs[0].tensor is None:
            text = " ".join(f"{outcome.exception} {outcome.message}".split())[:160]
            raise NotAskedError(
                f"{self.backend.name} does not answer: {outcome.status} {text}".rstrip()
            )
        return outcome.outputs[0].tensor

    def at(self, rows: Array, columns: Array) -> Asking:
        """Queries at these outputs only; all ``rows`` are in one set of ``places``."""
        return Asking(self, rows, columns)


class Asking:
    """Queries one call at the outputs ``rows`` × ``columns``, whose order is assumed to be the
    same. ``calls`` counts the backend's calls.

    Raises NotAskedError for dtypes in which terms cannot be counted, and NotATreeError where equal
    queries give different results.
    """

    def __init__(self, question: Question, rows: Array, columns: Array) -> None:
        if question.dtype not in _LARGE:
            raise NotAskedError(
                f"terms cannot be counted in {question.dtype}: its range is too small to lose "
                f"one beside another"
            )
        self.question, self.rows, self.columns = question, rows, columns
        self.large, self.most = _LARGE[question.dtype], _COUNTS[question.dtype]
        self.dtype = dtypes.TORCH[question.dtype]
        self.calls, self.numbers = (
            0,
            sum(a.numel() for a in question.args if isinstance(a, torch.Tensor)),
        )

    def __call__(self, tasks: Sequence[tuple[int, Members]]) -> list[Counts]:
        return self._sums(tasks) if self.question.layout.right is None else self._products(tasks)

    def _call(self, changed: Mapping[int, torch.Tensor]) -> Array:
        self.calls += 1
        if self.calls > MOST_CALLS or self.calls * self.numbers > MOST_READ:
            raise NotAskedError(f"its order takes more than {self.calls - 1} calls to find")
        result = self.question.run(changed).to(torch.float64).numpy()
        return np.asarray(
            result * self.question.layout.terms if self.question.layout.scaled else result
        )

    def _ones(self, argument: int) -> torch.Tensor:
        """Flat ones for an argument; :meth:`_like` restores its shape and strides."""
        return torch.ones(int(self.question.args[argument].numel()), dtype=self.dtype)

    def _like(self, argument: int, flat: torch.Tensor) -> torch.Tensor:
        argument_tensor = self.question.args[argument]
        result = torch.empty_strided(
            argument_tensor.shape, argument_tensor.stride(), dtype=self.dtype
        )
        result.copy_(flat.view(argument_tensor.shape))
        return result

    def _sums(self, tasks: Sequence[tuple[int, Members]]) -> list[Counts]:
        """Counts for a plain sum: each call queries one pair per row."""
        layout = self.question.layout
        small = layout.terms > self.most
        if small and layout.scaled:
            raise NotAskedError(
                f"{layout.terms} terms of a mean cannot be counted in {self.question.dtype}"
            )
        ask = self._pairs_in_parts if small else self._pairs
        pairs = [(pivot, other) for pivot, others in tasks for other in others.tolist()]
        counts: list[Array] = []
        for start in range(0, len(pairs), len(self.rows)):
            window = np.array(pairs[start : start + len(self.rows)])
            counts.append(ask(self.rows[: len(window)], window[:, 0], window[:, 1]))
        all_counts = np.concatenate(counts) if counts else np.zeros(0)
        if layout.scaled:  # the mean of whole numbers is rounded
            all_counts = np.where(
                np.abs(all_counts - np.rint(all_counts)) < 1e-2, np.rint(all_counts), all_counts
            )
        integers = _integer_counts(all_counts)
        ends = np.cumsum([len(others) for _, others in tasks])[:-1]
        return list(np.split(integers, ends))

    def _pairs(self, rows: Array, pivots: Array, others: Array, only: Array | None = None) -> Array:
        """Number of leaves below each pair, one pair per row; with ``only``, among those terms and
        without the pair."""
        layout = self.question.layout
        flat = self._ones(layout.argument)
        if only is not None:
            flat[:] = 0.0
            flat[torch.from_numpy(layout.left[:, only].reshape(-1))] = 1.0
        flat[layout.left[rows, pivots]] = self.large
        flat[layout.left[rows, others]] = -self.large
        result = self._call({layout.argument: self._like(layout.argument, flat)})[rows, 0]
        units = (
            layout.terms
            if only is None
            else len(only) - np.isin(pivots, only).astype(int) - np.isin(others, only)
        )
        return np.asarray(units - result)

    def _pairs_in_parts(self, rows: Array, pivots: Array, others: Array) -> Array:
        return (
            np.asarray(sum(self._pairs(rows, pivots, others, only) for only in self._parts())) + 2.0
        )

    def _parts(self) -> list[Array]:
        """The terms in groups that the format can count, such as 250 where it counts to 256."""
        terms = np.arange(self.question.layout.terms + self.question.layout.added)
        return [
            terms[start : start + self.most - 6] for start in range(0, len(terms), self.most - 6)
        ]

    def everywhere(self, pivot: int, other: int) -> Array:
        """The counts of one pair at all outputs [rows, columns]: outputs with different counts have
        different orders."""
        layout = self.question.layout
        if layout.right is None:
            pairs = self._pairs_in_parts if layout.terms > self.most else self._pairs
            return pairs(self.rows, np.full(len(self.rows), pivot), np.full(len(self.rows), other))[
                :, None
            ]
        ask = self._in_parts if layout.terms + layout.added > self.most else self._grid
        counts: Array = ask(np.full(len(self.rows), pivot), np.full(len(self.columns), other))
        return counts

    def _products(self, tasks: Sequence[tuple[int, Members]]) -> list[Counts]:
        """Counts for a product: each call queries one pivot per row and one other term per column.
        All rows are used, so that repeated pivots check each other."""
        layout = self.question.layout
        small = layout.terms + layout.added > self.most
        row_counts: list[Counts] = []
        step = 1 if small else len(self.rows)
        for start in range(0, len(tasks), step):
            window = tasks[start : start + step]
            union = np.unique(np.concatenate([others for _, others in window]))
            pivots = np.array([window[k % len(window)][0] for k in range(len(self.rows))])
            answers = np.empty((len(self.rows), len(union)))
            for first in range(0, len(union), len(self.columns)):
                others = union[first : first + len(self.columns)]
                ask = self._in_parts if small else self._grid
                answers[:, first : first + len(others)] = ask(pivots, others)
            for k, (pivot, others) in enumerate(window):
                rows = answers[k :: len(window)][:, np.searchsorted(union, others)]
                if (rows != rows[0]).any():
                    raise NotATreeError(
                        f"outputs of different rows answer differently to one question (term "
                        f"{pivot})"
                    )
                row_counts.append(_integer_counts(rows[0]))
        return row_counts

    def _grid(self, pivots: Array, others: Array, only: Array | None = None) -> Array:
        """Number of leaves below each pair; with ``only``, among those terms and the pair."""
        layout = self.question.layout
        assert layout.right is not None
        left, right = self._ones(layout.argument), self._ones(layout.factor)
        terms, columns = others < layout.terms, self.columns[: len(others)]
        repeated = np.resize(others, len(self.columns))
        left[layout.left[self.rows, pivots]] = self.large
        changed: dict[int, torch.Tensor] = {}
        units = layout.terms + layout.added
        if only is not None:
            keep = np.zeros(layout.terms, dtype=bool)
            keep[only[only < layout.terms]] = True
            keep[pivots[0]] = True
            right[torch.from_numpy(layout.right[:, :, ~keep].reshape(-1))] = 0.0
        for group in range(layout.right.shape[0]):
            marked = repeated < layout.terms
            right[layout.right[group, self.columns[marked], repeated[marked]]] = -self.large
        if layout.bias is not None:
            bias = self._ones(layout.bias_at)
            if only is not None and layout.terms not in only:
                bias[:] = 0.0
            bias[layout.bias[self.columns[repeated >= layout.terms]]] = -self.large
            changed[layout.bias_at] = self._like(layout.bias_at, bias)
        elif not terms.all():
            raise NotAskedError("there is no bias to ask for")
        changed |= {
            layout.argument: self._like(layout.argument, left),
            layout.factor: self._like(layout.factor, right),
        }
        result = self._call(changed)[np.ix_(self.rows, columns)]
        if only is None:
            return np.asarray(units - result)
        present = np.isin(others, only).astype(int) + int(np.isin(pivots[0], only))
        counts: Array = len(only) - present[None, :] - result
        return counts

    def _in_parts(self, pivots: Array, others: Array) -> Array:
        """The same in a format that counts to 256 only: summed over groups of terms, plus the
        pair."""
        return np.asarray(sum(self._grid(pivots, others, only) for only in self._parts())) + 2.0


def _integer_counts(counts: Array) -> Counts:
    if not np.isfinite(counts).all() or (np.rint(counts) != counts).any():
        raise NotATreeError(
            "the answers are no whole numbers: something else than a sum of terms happens here"
        )
    return counts.astype(np.int64)
