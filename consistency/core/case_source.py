"""The source of a case, which says what it calls: empty for a declared operator, else
``opinfo/VARIANT``, ``call/torch.add/writes=0``, ``aten/add.Tensor`` or ``yours/FUNCTION``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UsageError

OPINFO = "opinfo"  # a sample of PyTorch's operator database
CALL = "call"  # a function of torch that the case names
ATEN = "aten"  # an overload of one of torch's own operators
YOURS = "yours"  # a user's own function, which only the user can call
_WRITES = "/writes="


@dataclass(frozen=True, slots=True)
class CaseSource:
    """``kind`` is one of the words above, or empty; ``name`` is the variant, function or
    overload."""

    kind: str = ""
    name: str = ""
    positions: str = ""

    @property
    def writes(self) -> tuple[int, ...]:
        """The positions of the tensors that the call writes to. Raises UsageError."""
        try:
            return tuple(int(position) for position in self.positions.split(",") if self.positions)
        except ValueError:
            raise UsageError(f"{str(self)!r:.80} does not say which tensors are written") from None

    def __str__(self) -> str:
        written = f"{_WRITES}{self.positions}" if self.positions else ""
        return f"{self.kind}/{self.name}{written}" if self.name else self.kind


def parse_source(text: str) -> CaseSource:
    """The parts of a case's source; the kind may be unknown to this version."""
    kind, _, name = text.partition("/")
    if kind != CALL:
        return CaseSource(kind, name)
    name, _, positions = name.partition(_WRITES)
    return CaseSource(kind, name, positions)


def call_source(name: str, writes: Sequence[int] = ()) -> str:
    """The source of a case that calls ``name``, which writes to the tensors at ``writes``."""
    return str(CaseSource(CALL, name, ",".join(map(str, writes))))
