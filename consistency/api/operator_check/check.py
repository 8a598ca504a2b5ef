"""The function :func:`check`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from ...errors import UsageError
from . import contract
from .findings import findings_of
from .report import OperatorReport
from .session import CheckSession
from .target import examples_of, target_of

SECONDS = 60.0


def check(
    op: Any,
    *,
    reference: Callable[..., Any] | None = None,
    inputs: Any = None,
    dtypes: Iterable[str] | None = None,
    gradients: bool | None = None,
    compile: bool = True,
    seconds: float = SECONDS,
) -> OperatorReport:
    """Check a custom operator or kernel against a reference, on calls derived from an example.

    ``op`` is a ``torch.library`` custom operator, one of ``torch.ops``, or any callable such as the
    launcher of a Triton kernel; it runs on the device of ``inputs``. ``reference`` computes the
    same with functions of torch, in whatever dtype it is given: in float64 it is the truth, and its
    steps, traced, say how large healthy rounding is. Without it the operator itself is the
    reference, which shows rounding but no wrong formula. ``inputs`` is an example call: a tensor, a
    tuple of arguments, a dictionary of keyword arguments, or a list of these; left out, it is made
    from the operator's schema.

    Derived are: sizes ± 1, around blocks and 0, other layouts, ``dtypes`` (default: the example's,
    and the other floating-point ones), other numbers, NaN and infinities. ``gradients``: None
    compares them where the operator has some. Calls are repeated for determinism; of a registered
    operator the contract is tested, too: ``torch.library.opcheck``, the fake kernel on every call,
    and ``torch.compile``, unless ``compile`` is False. After ``seconds`` no further call is begun.

    Returns an :class:`OperatorReport`: ``print`` it, or ``assert`` it in a test. Raises UsageError
    with one clear line where the example cannot be called.
    """
    started = time.monotonic()
    if not isinstance(seconds, (int, float)):
        raise UsageError(f"seconds = {seconds!r:.80}; give a number, such as {SECONDS:g}")
    target = target_of(op)
    session = CheckSession(target, reference, started + seconds, gradients)
    for args, kwargs in examples_of(target, inputs):
        session.add(args, kwargs, None if dtypes is None else tuple(dtypes))
    found = contract.contract_of(
        target, session.runnable(), session.device, session.differentiable, compile
    )
    findings = [
        finding
        for one in session.examples
        for finding in findings_of(one.results, one.repeats, one.names, one.masks)
    ]
    return OperatorReport(
        target.name,
        session.device,
        tuple(result for one in session.examples for _, result in one.results),
        (*findings, *found.findings),
        tuple(session.warnings()),
        (*session.not_tested(), *found.not_tested),
        (*session.tested(), *found.tested),
        {d.case.id: d.words for one in session.examples for d, _ in one.results},
        time.monotonic() - started,
    )
