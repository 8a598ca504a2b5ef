"""The inputs of publicly reported bugs (``tests/real_bugs``) as cases to be shipped: where healthy
backends pass, the emulated bug fails, and judging takes a fraction of a second."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from consistency import operators
from consistency.core.model import Case
from consistency.core.recipe import INLINE_BYTES, Literal, TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.judge import tolerances
from tests.real_bugs import BUGS, triggers

SECONDS = 0.5  # of judging one case, both directions
NAMES = ("sound", "defective")
_STOP = 1 << 21  # in the bitstream


def cases() -> Iterator[tuple[str, Case]]:
    """Issues and their cases."""
    rules = tolerances.load()
    for bug in BUGS:
        trigger = triggers.case(bug.issue)
        if trigger is None:
            continue
        case = compact(trigger)
        if any(isinstance(t, Literal) and len(t.data) > INLINE_BYTES for t in case.tensors):
            continue
        operator = operators.get(case.operator)
        began = time.process_time()
        backends = [bug.healthy(), bug.backend()]
        for backend, name in zip(backends, NAMES, strict=True):
            backend.name = name
        results = judge_case(case, operator, backends, rules, bug.directions, against="spot")
        seconds = time.process_time() - began
        sound = all(r.verdict.passes for r in results if r.backend == NAMES[0])
        noticed = any(r.verdict.fails for r in results if r.backend == NAMES[1])
        if sound and noticed and seconds < 2 * SECONDS:
            yield bug.issue, case


def compact(case: Case) -> Case:
    """The case with recipes in place of literal tensors that are too large for its line."""
    return case.with_tensors(_recipe(t, n) for n, t in enumerate(case.tensors))


def _recipe(tensor: TensorRecipe | Literal, number: int) -> TensorRecipe | Literal:
    contiguous = isinstance(tensor, Literal) and _is_contiguous(tensor)
    if not isinstance(tensor, Literal) or len(tensor.data) <= INLINE_BYTES or not contiguous:
        return tensor
    if not tensor.dtype.startswith(("float", "bfloat")):
        return tensor
    count = math.prod(tensor.shape)
    return TensorRecipe(
        tensor.shape, tensor.dtype, ("uniform", -1.0, 1.0), _STOP * (number + 1) + count
    )


def _is_contiguous(tensor: Literal) -> bool:
    expected, strides = 1, []
    for size in reversed(tensor.shape):
        strides.append(expected)
        expected *= size
    pairs = zip(tensor.shape, tensor.stride, reversed(strides), strict=True)
    return tensor.offset == 0 and all(size == 1 or a == b for size, a, b in pairs)


def chosen() -> list[tuple[str, Case]]:
    """Each case once."""
    found: dict[str, tuple[str, Case]] = {}
    for issue, case in cases():
        found.setdefault(case.id, (issue, case))
    return list(found.values())
