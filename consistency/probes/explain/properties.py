"""What a fingerprint adds to a verdict: a property that confirms a failure's cause, an order that
explains rounding to the bit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ...backends.base import Backend
from ...core.model import Case, Result
from ...core.verdict import VerdictKind
from ...generate.calls.case_operator import operator_of
from ...generate.materialize import prepare
from ...operators.declare import Operator
from ..fingerprint.collect import probes, take
from ..fingerprint.facts import Fact
from ..fingerprint.summary import fact_of
from ..summation.notation import text
from .compared_sides import Side
from .fingerprints import SUMS

# By the id of a cause: the property that would show it, what its answer contains then, and how that
# is said.
_SHOWN: dict[str, tuple[str, str, str]] = {
    "tf32-inputs": ("multiplicand", "11 bits", "keeps {} of a factor"),
    "float16-inputs": ("multiplicand", "11 bits", "keeps {} of a factor"),
    "bfloat16-inputs": ("multiplicand", "8 bits", "keeps {} of a factor"),
    "bfloat16x3-inputs": ("multiplicand", "in parts", "keeps {} of a factor"),
    "float32-inputs": ("multiplicand", "24 bits", "keeps {} of a factor"),
    "truncating-accumulator": ("accumulator", "toward zero", "keeps {} of its running sum"),
    "flushed-subnormals": ("subnormals", "flush", "has subnormal {}"),
}
MOST_WORK = 1 << 22  # terms × outputs of a case that is replayed without being asked for


def _about(result: Result) -> tuple[str, str] | None:
    """Of what, and of which of its properties, a fingerprint would have to speak to show a
    failure's cause."""
    shown, what = _SHOWN.get(result.cause), SUMS.get(result.operator)
    if shown is None or (what is None and shown[0] != "subnormals"):
        return None
    return what or result.operator.rpartition(".")[2], shown[0]


def confirmation(result: Result, backend: Backend) -> str:
    """``the fingerprint of cuda confirms it: matmul float32 keeps 11 bits, nearest even of a
    factor``; empty where it does not.

    It asks the backend; nothing is asked where no property shows the cause.
    """
    about = _about(result)
    if about is None:
        return ""
    what, asked = about
    title = (
        f"subnormals/{result.dtype}"
        if asked == "subnormals"
        else f"{what}/{result.dtype}/multiplicand"
    )
    chosen = [probe for probe in probes([result.dtype]) if probe.about == title]
    found = take(backend, chosen).get(f"{what}/{result.dtype}/{asked}")
    return confirmed(result.cause, found, backend.name) if found is not None else ""


def stored_confirmation(result: Result, stored: Mapping[str, str]) -> str:
    """The same by the summary that a bundle stores of a backend that is not here."""
    about = _about(result)
    found = fact_of(stored, f"{about[0]}/{result.dtype}/{about[1]}") if about is not None else None
    return (
        confirmed(result.cause, found, f"{result.backend}, as its run kept it,")
        if found is not None
        else ""
    )


def confirmed(cause: str, fact: Fact, name: str) -> str:
    """What one fact says of a cause."""
    about, sign, words = _SHOWN.get(cause, ("", "", ""))
    if not about or fact.about != about:
        return ""
    told = f"{fact.what} {fact.dtype}"
    if not fact.known:
        return f"the fingerprint of {name} does not tell: {told}: {fact.inconclusive}"
    if re.search(rf"(?<!\d){sign}", fact.answer):
        return f"the fingerprint of {name} confirms it: {told} {words.format(fact.answer)}"
    return f"the fingerprint of {name} does not confirm it: {told} {words.format(fact.answer)}"


def remarks(results: Iterable[Result], backends: Iterable[Backend]) -> Iterator[str]:
    """What there is to add to results of one case, backend by backend."""
    by_name = {backend.name: backend for backend in backends}
    for result in results:
        backend = by_name.get(result.backend)
        if backend is None or result.direction != "forward":
            continue
        told = ""
        try:
            if result.verdict.fails:
                told = confirmation(result, backend)
            elif result.verdict.kind is VerdictKind.ROUNDING:
                told = explained(result.case, operator_of(result.case), backend)
        finally:
            backend.close()
        if told:
            yield f"{result.backend}: {told}"


def explained(case: Case, operator: Operator, backend: Backend) -> str:
    """``explained: all 128 outputs replayed bit for bit (sequential 48 with FMA)``; empty where
    that is not so, or is much work."""
    materials = prepare(case)
    largest = max((base.size for base in materials.bases), default=0)
    if largest * max(len(materials.bases), 1) > MOST_WORK:
        return ""
    found = Side(backend.name, backend).orders(operator, materials)
    if not found.exact or found.untested:
        return ""
    orders = "; ".join(
        text(order.tree) + (f", {order.manner}" if order.manner.told else "")
        for order in found.orders[:3]
    )
    return (
        f"explained: all {found.outputs:,} outputs are what this order gives, bit for bit: {orders}"
    )
