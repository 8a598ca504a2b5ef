"""Properties that a fingerprint adds to a verdict: one that confirms a failure's cause, or a
summation order that explains rounding bit for bit."""

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

# By cause id: the property that confirms it, the text that its answer then contains, and the
# wording.
_CONFIRMING_PROPERTIES: dict[str, tuple[str, str, str]] = {
    "tf32-inputs": ("multiplicand", "11 bits", "keeps {} of a factor"),
    "float16-inputs": ("multiplicand", "11 bits", "keeps {} of a factor"),
    "bfloat16-inputs": ("multiplicand", "8 bits", "keeps {} of a factor"),
    "bfloat16x3-inputs": ("multiplicand", "in parts", "keeps {} of a factor"),
    "float32-inputs": ("multiplicand", "24 bits", "keeps {} of a factor"),
    "truncating-accumulator": ("accumulator", "toward zero", "keeps {} of its running sum"),
    "flushed-subnormals": ("subnormals", "flush", "has subnormal {}"),
}
MOST_WORK = 1 << 22  # limit of terms × outputs for a replay that the user did not request


def _about(result: Result) -> tuple[str, str] | None:
    """The operator and its property whose fact would confirm a failure's cause."""
    confirming, subject = _CONFIRMING_PROPERTIES.get(result.cause), SUMS.get(result.operator)
    if confirming is None or (subject is None and confirming[0] != "subnormals"):
        return None
    return subject or result.operator.rpartition(".")[2], confirming[0]


def confirmation(result: Result, backend: Backend) -> str:
    """``the fingerprint of cuda confirms it: matmul float32 keeps 11 bits, nearest even of a
    factor``, or that it does not; empty if there is no such fact.

    Probes the backend only if a property can confirm the cause.
    """
    about = _about(result)
    if about is None:
        return ""
    subject, property_ = about
    title = (
        f"subnormals/{result.dtype}"
        if property_ == "subnormals"
        else f"{subject}/{result.dtype}/multiplicand"
    )
    chosen = [probe for probe in probes([result.dtype]) if probe.about == title]
    fact = take(backend, chosen).get(f"{subject}/{result.dtype}/{property_}")
    return confirmed(result.cause, fact, backend.name) if fact is not None else ""


def stored_confirmation(result: Result, stored: Mapping[str, str]) -> str:
    """The same from the summary that a bundle stores, for a backend that is unavailable."""
    about = _about(result)
    fact = fact_of(stored, f"{about[0]}/{result.dtype}/{about[1]}") if about is not None else None
    return (
        confirmed(result.cause, fact, f"{result.backend}, as its run kept it,")
        if fact is not None
        else ""
    )


def confirmed(cause: str, fact: Fact, name: str) -> str:
    """Whether one fact confirms a cause, as a sentence."""
    about, sign, words = _CONFIRMING_PROPERTIES.get(cause, ("", "", ""))
    if not about or fact.about != about:
        return ""
    subject = f"{fact.what} {fact.dtype}"
    if not fact.known:
        return f"the fingerprint of {name} does not tell: {subject}: {fact.inconclusive}"
    if re.search(rf"(?<!\d){sign}", fact.answer):
        return f"the fingerprint of {name} confirms it: {subject} {words.format(fact.answer)}"
    return f"the fingerprint of {name} does not confirm it: {subject} {words.format(fact.answer)}"


def remarks(results: Iterable[Result], backends: Iterable[Backend]) -> Iterator[str]:
    """Remarks on the results of one case, by backend."""
    by_name = {backend.name: backend for backend in backends}
    for result in results:
        backend = by_name.get(result.backend)
        if backend is None or result.direction != "forward":
            continue
        remark = ""
        try:
            if result.verdict.fails:
                remark = confirmation(result, backend)
            elif result.verdict.kind is VerdictKind.ROUNDING:
                remark = explained(result.case, operator_of(result.case), backend)
        finally:
            backend.close()
        if remark:
            yield f"{result.backend}: {remark}"


def explained(case: Case, operator: Operator, backend: Backend) -> str:
    """``explained: all 128 outputs are what this order gives, bit for bit: …``; empty if that does
    not hold or takes too much work."""
    materials = prepare(case)
    largest = max((base.size for base in materials.bases), default=0)
    if largest * max(len(materials.bases), 1) > MOST_WORK:
        return ""
    sums = Side(backend.name, backend).orders(operator, materials)
    if not sums.exact or sums.untested:
        return ""
    orders = "; ".join(
        text(order.tree) + (f", {order.manner}" if order.manner.told else "")
        for order in sums.orders[:3]
    )
    return (
        f"explained: all {sums.outputs:,} outputs are what this order gives, bit for bit: {orders}"
    )
