"""What a call promises beside its numbers, compared with the CPU in the same dtype.

Views, identities, writes and gradient tracking follow from torch's schemas and from functions that
all devices share: any difference is a failure. The strides of a result with memory of its own are
compared where torch states them: where its shape function (the kernel of the meta device, which
torch.compile relies on, and which torch's own tests hold every device to) gives those of the CPU.
Where torch's documentation promises them, too, a lost channels_last fails, and a result that is
neither contiguous nor as on the CPU; elsewhere only if the policy asks for the stated ones, or for
the memory formats that the CPU chooses.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..backends._contract import is_dense, observed_call
from ..core.contract import CHOSEN, DOCUMENTED, NONE, STATED, STRIDES, Contract, Returned
from ..core.detail import BrokenContract
from ..core.model import Outcome
from ..generate.materialize import Materials
from ..operators.declare import Operator

# The layout of their results is the libraries' choice, or torch's tests except them, too.
_LIBRARY_LAYOUT = frozenset({"matmul", "linalg", "fft", "attention", "rnn"})
# Kernels of these choose channels_last where it is faster.
_MAY_CHOOSE = frozenset({"convolution", "pooling", "normalization", "interpolate"})
# What these promise is the layout.
_LAYOUT_IS_THE_RESULT = frozenset({"creation", "cast", "contiguous", "clone"})
_DOUBLE = frozenset({"float64", "complex128"})
# What few policies ask for must not hide what else differs; first what more of them ask for.
_LEAST = (STATED, CHOSEN)

Breach = tuple[str, BrokenContract]


def breach(
    operator: Operator, materials: Materials, direction: str, outcome: Outcome, baseline: Outcome
) -> Breach | None:
    """The first difference to the CPU's contract as a sentence, with what it is; None if there is
    none, or if one of both was not observed."""
    actual, expected = outcome.contract, baseline.contract
    if actual is None or expected is None or actual == expected:
        return None
    if len(actual.returned) != len(expected.returned):
        return None
    return _written(operator, actual, expected) or _returned(
        operator, materials, direction, actual, expected
    )


def _written(operator: Operator, actual: Contract, expected: Contract) -> Breach | None:
    """Arguments whose version counter moved, or did not. What the CPU writes to although the
    operator should not is the CPU's defect, and no duty of others."""
    for position in actual.written:
        if position not in expected.written and position not in operator.mutates:
            text = (
                f"argument {position} was written to, although the operator does not write to it: "
                f"no bit differs afterwards, but its version counter moved"
            )
            return text, BrokenContract("written", "", position)
    for position in expected.written:
        if position not in actual.written and position in operator.mutates:
            text = (
                f"writes to argument {position} without moving its version counter: autograd does "
                f"not notice the write"
            )
            return text, BrokenContract("version", "", position)
    return None


def _returned(
    operator: Operator, materials: Materials, direction: str, actual: Contract, expected: Contract
) -> Breach | None:
    """The return values, one after the other; strides that nobody documents count least."""
    least: Breach | None = None
    for position, (mine, cpu) in enumerate(zip(actual.returned, expected.returned, strict=True)):
        if mine is None or cpu is None or mine == cpu:
            continue
        name = f"out/{position}"
        found = (
            ("", "")
            if operator.unspecified_aliasing
            else _memory(mine, cpu, cpu.argument in expected.written)
        )
        if not found[0]:
            found = _gradients(mine, cpu)
        if not found[0] and _same_memory(mine, cpu):
            found = _layout(mine, cpu, _Promise(operator, materials, direction, position))
        if found[0]:
            kind, text = found
            where = max(cpu.argument, cpu.storage, mine.argument, mine.storage, 0)
            several = len(expected.returned) > 1
            text = f"{name} {text}" if several else text
            found_here = text, BrokenContract(kind, name, where)
            if kind not in _LEAST:
                return found_here
            if least is None or _LEAST.index(kind) < _LEAST.index(least[1].kind):
                least = found_here
    return least


def _same_memory(mine: Returned, cpu: Returned) -> bool:
    return (mine.argument, mine.storage, mine.sibling) == (cpu.argument, cpu.storage, cpu.sibling)


def _memory(mine: Returned, cpu: Returned, in_place: bool) -> tuple[str, str]:
    """The kind of a difference in identity or memory, and its words; empty if there is none."""
    if mine.argument != cpu.argument and in_place:
        return "identity", (
            f"works in place, but returns another tensor than argument {cpu.argument}"
        )
    if mine.storage != cpu.storage:
        return "aliasing", _other_memory(mine, cpu)
    if mine.argument != cpu.argument:
        if cpu.argument == NONE:
            return "identity", (
                f"returns argument {mine.argument} itself where the CPU returns a new view of it: "
                f"what is set on the result is set on the argument"
            )
        return "identity", (
            f"returns a new view of argument {cpu.argument} where the CPU returns it itself"
        )
    if mine.sibling != cpu.sibling:
        if mine.sibling < cpu.sibling:
            return "aliasing", (
                f"shares memory with out/{mine.sibling}, which it does not on the CPU: writes to "
                f"one change the other"
            )
        return "aliasing", f"does not share memory with out/{cpu.sibling}, which it does on the CPU"
    return "", ""


def _other_memory(mine: Returned, cpu: Returned) -> str:
    it = "itself" if cpu.argument != NONE else ""
    if mine.storage == NONE:
        what = f"argument {cpu.storage} {it}" if it else f"a view of argument {cpu.storage}"
        return (
            f"returns a copy where the CPU returns {what}: writes to it do not reach the argument"
        )
    what = (
        f"argument {mine.storage} itself"
        if mine.argument != NONE
        else f"a view of argument {mine.storage}"
    )
    if cpu.storage == NONE:
        return f"returns {what} where the CPU returns a copy: writes to it change the argument"
    return f"returns {what} where the CPU returns one of argument {cpu.storage}"


def _gradients(mine: Returned, cpu: Returned) -> tuple[str, str]:
    """The same for gradient tracking."""
    if mine.tracks != cpu.tracks:
        return "gradient", (
            "requires gradients, which it does not on the CPU"
            if mine.tracks
            else "does not require gradients, which it does on the CPU: it is cut off from autograd"
        )
    if mine.leaf and not cpu.leaf and mine.argument == cpu.argument:
        return "gradient", "requires gradients, but has no history: it is cut off from autograd"
    return "", ""


def _layout(
    mine: Returned, cpu: Returned, promised: Callable[[Returned, Returned], str]
) -> tuple[str, str]:
    """The same for strides: those of views, and of results of their own where torch states them."""
    kind = STRIDES
    view = cpu.storage != NONE
    same_place = not view or mine.offset == cpu.offset
    if mine.strides == cpu.strides and same_place:
        return "", ""
    if not view:
        kind = promised(mine, cpu)
        if not kind:
            return "", ""
    if mine.strides == cpu.strides:
        return kind, (
            f"begins {mine.offset} elements into the memory of argument {cpu.storage}, on the CPU "
            f"{cpu.offset}"
        )
    formats = _memory_format(mine), _memory_format(cpu)
    if formats[0] != formats[1] and formats[1]:
        lost = f"is {formats[0] or 'not'} where it is {formats[1]} on the CPU"
        if not formats[0]:
            lost = f"is not {formats[1]}, which it is on the CPU"
        return kind, f"{lost}: strides {_spelled(mine)} instead of {_spelled(cpu)}"
    return kind, f"has strides {_spelled(mine)} instead of {_spelled(cpu)}"


def _spelled(item: Returned) -> str:
    return f"({', '.join('any' if s == NONE else str(s) for s in item.strides)})"


def _is_channels_last(tensor: torch.Tensor) -> bool:
    return not tensor.is_contiguous() and (
        (tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last))
        or (tensor.ndim == 5 and tensor.is_contiguous(memory_format=torch.channels_last_3d))
    )


def _memory_format(item: Returned) -> str:
    """``contiguous``, ``channels_last``, ``channels_last_3d``, or empty, by the order of the
    strides that count."""
    strides = item.strides
    known = [s for s in strides if s != NONE]
    if known == sorted(known, reverse=True) and known[-1:] in ([], [1]):
        return "contiguous"
    if len(strides) in (4, 5) and strides[1] == 1:
        others = [s for s in (strides[0], *strides[2:]) if s != NONE]
        if others == sorted(others, reverse=True):
            return "channels_last" if len(strides) == 4 else "channels_last_3d"
    return ""


class _Promise:
    """What other strides of a result with memory of its own break, as one of the kinds above;
    empty: nothing. Asked only where they differ."""

    def __init__(
        self, operator: Operator, materials: Materials, direction: str, position: int
    ) -> None:
        self.operator, self.materials = operator, materials
        self.direction, self.position = direction, position

    def __call__(self, mine: Returned, cpu: Returned) -> str:
        operator, family = self.operator, self.operator.ruled_by[1]
        if family in _LIBRARY_LAYOUT or (self.direction == "backward" and operator.mutates):
            return ""
        # cuDNN has no channels_last kernels in double precision.
        if family == "convolution" and self.materials.case.dtype in _DOUBLE:
            return ""
        inputs = self.materials.build(device="meta").tensors
        if not all(is_dense(tensor) for tensor in inputs):
            return ""  # torch.preserve_format promises nothing of their order
        format_kept, format_found = _memory_format(cpu), _memory_format(mine)
        if family in _LAYOUT_IS_THE_RESULT or operator.name in _LAYOUT_IS_THE_RESULT:
            return self._if_stated(cpu, DOCUMENTED)
        elementwise = "elementwise" in operator.traits
        if format_kept.startswith("channels_last"):
            image = inputs[operator.leading : operator.leading + 1]
            if not operator.keeps_memory_format:
                return self._if_stated(cpu, STATED) or CHOSEN
            # torch documents it for images; of volumes, its own kernels differ.
            if len(cpu.strides) == 4 and any(_is_channels_last(t) for t in image):
                return DOCUMENTED
            return self._if_stated(cpu, DOCUMENTED if elementwise else STATED)
        if format_found == "contiguous":
            return ""  # fits every use
        if format_found.startswith("channels_last") and family in _MAY_CHOOSE:
            return ""
        if elementwise:
            return self._if_stated(cpu, DOCUMENTED)
        return self._if_stated(cpu, STATED) if format_kept == "contiguous" else ""

    def _if_stated(self, cpu: Returned, kind: str) -> str:
        return kind if self._is_stated(cpu) else ""

    def _is_stated(self, cpu: Returned) -> bool:
        """Whether torch's shape function gives the CPU's strides."""
        stated = observed_call(self.operator, self.materials, "meta")
        if stated is None or len(stated.returned) <= self.position:
            return False
        item = stated.returned[self.position]
        return item is not None and item.strides == cpu.strides
