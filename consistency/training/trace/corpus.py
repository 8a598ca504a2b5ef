"""The calls of a program as a corpus that is small enough to be sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ...core import recipe
from ...core.text import format_bytes
from ...generate.materialize import KEPT_BEFORE_VIEW
from ...operators.catalog.aten import base_name, has_coupled_arguments
from ...storage.recording.header import Header
from ...storage.recording.writing import RecordingWriter
from . import kinds
from .capture import CallCapture, CapturedCall, CaptureLimits, LeftOutError, bytes_of, megabytes
from .recipes import range_of, recipe_like

LITERAL = 64 << 10  # bytes of a literal tensor; larger ones become recipes
COUPLED = 16 << 20  # bytes of one whose numbers are related to another's: literal or left out
MEMORY = 64 << 20  # bytes of all literal tensors
RANGES = 4  # calls of one kind whose numbers have different ranges
_STEP = 4099  # in the bitstream, from one recipe to the next

TOO_LARGE = f"belong together and are larger than {megabytes(COUPLED)}"
OTHER_RANGES = "of a kind that was kept before, with numbers in other ranges"
_NOTHING = (
    kinds.VIEW,
    kinds.RANDOM,
    kinds.UNINITIALIZED,
    kinds.FACTORY,
    kinds.NUMBER,
    kinds.FOREIGN,
    kinds.NOT_CALLED,
)
_EXPECTED = (kinds.REPEATED, OTHER_RANGES, *_NOTHING)


@dataclass(frozen=True, slots=True)
class SavedCalls:
    """Statistics of a saved corpus: calls and operators of the program, distinct cases and
    operators kept, bytes on disk, literal tensors and recipes, and reasons for the rest."""

    calls: int
    operators: int
    cases: int
    covered: int
    size: int
    literals: int
    recipes: int
    left_out: dict[str, int]

    def __str__(self) -> str:
        lost = [
            f"not kept: {count:,} × {why}"
            for why, count in self.left_out.items()
            if why not in _EXPECTED
        ]
        size = format_bytes(self.size)
        lines = [
            (
                f"{self.calls:,} calls: {self.cases:,} distinct ones kept, {self.covered} of "
                f"{self.operators} operators covered"
            ),
            (
                f"{size} on disk: {self.literals:,} tensors bit by bit, {self.recipes:,} large "
                "ones as recipes on the same scale"
            ),
        ]
        return "\n".join(lines + lost)


class CorpusCalls(CallCapture):
    """Captures calls with large tensors as recipes; of one kind the first call, and others with
    other number ranges."""

    def __init__(self, literal: int = LITERAL, memory: int = MEMORY, ranges: int = RANGES) -> None:
        super().__init__(CaptureLimits(1, COUPLED, memory, own=False), lambda call: None)
        self._literal, self._ranges = literal, ranges
        self._seen: Counter[Any] = Counter()
        self._position = 0
        self._coupled = False

    def _count(self, kind: tuple[Any, ...], tensors: Sequence[torch.Tensor]) -> None:
        kind_and_ranges = (kind, tuple(range_of(tensor) for tensor in tensors))
        if self._seen[kind_and_ranges]:
            raise LeftOutError(kinds.REPEATED)
        if self._seen[kind] >= (1 if has_coupled_arguments(base_name(kind[0])) else self._ranges):
            raise LeftOutError(OTHER_RANGES)
        self._seen[kind_and_ranges] += 1
        self._seen[kind] += 1

    def _within_bounds(self, overload: Any, tensors: Sequence[torch.Tensor]) -> None:
        self._coupled = has_coupled_arguments(base_name(overload))
        limit = COUPLED if self._coupled else self._literal
        if self._coupled and max(map(bytes_of, tensors)) > limit:
            raise LeftOutError(TOO_LARGE)
        literal_bytes = sum(size for size in map(bytes_of, tensors) if size <= limit)
        if self.held + literal_bytes > self.bounds.memory:
            raise LeftOutError(f"more than {megabytes(self.bounds.memory)} would be held")

    def _tensor(self, value: torch.Tensor) -> recipe.TensorRecipe | recipe.Literal:
        if not self._coupled and bytes_of(value) > self._literal:
            similar = recipe_like(value, self._position, KEPT_BEFORE_VIEW)
            if similar is not None:
                self._position += _STEP
                return similar
            if bytes_of(value) > COUPLED:
                raise LeftOutError(
                    f"a tensor larger than {megabytes(COUPLED)} that no recipe stands for"
                )
        return super()._tensor(value)

    def kept(self, size: int) -> SavedCalls:
        """The statistics; ``size`` is the number of bytes on disk."""
        cases = {call.case.digest: call for call in self.records if call.case is not None}
        tensors = [
            tensor
            for call in cases.values()
            if call.case is not None
            for tensor in call.case.tensors
        ]
        literals = sum(isinstance(tensor, recipe.Literal) for tensor in tensors)
        # Only operators that can be judged: not views, factories and random draws.
        computing = {c.operator for c in self.records if c.left_out not in _NOTHING}
        covered = {call.operator for call in cases.values()}
        return SavedCalls(
            self.count,
            len(computing),
            len(cases),
            len(covered),
            size,
            literals,
            len(tensors) - literals,
            dict(self.left_out),
        )


def write(calls: Iterable[CapturedCall], folder: Path, header: Header) -> int:
    """Write the cases of ``calls`` (and the program's own results, if kept); returns their number.

    Raises BundleError if the folder is not empty.
    """
    writer = RecordingWriter(folder, header)
    try:
        for call in calls:
            if call.case is None:
                continue
            writer.case(call.case, ("forward",))
            name = f"{call.case.id}/forward"
            if call.own is not None and name not in writer.done:
                writer.outcome(name, call.case, "forward", call.own)
        writer.finish()
    finally:
        writer.close()
    return len(writer.known)
