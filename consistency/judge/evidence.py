"""Evidence: a result fails by its numbers only if the reference of its worst element is certified.

- Certificates come from :mod:`consistency.reference.certified`.
- A certified value replaces float64 on the CPU. If float64 was wrong, that is the CPU's own
  verdict in float64, and all other results are judged by the certified value.
- Without a certificate the result is inconclusive and shows both values: neither majority nor
  position decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core import dtypes
from ..core.detail import Unproved
from ..core.model import Outcome, Proof
from ..core.verdict import Verdict, VerdictKind
from ..reference import Reference
from .elements import flat
from .judgment import Judgment

if TYPE_CHECKING:
    from ..reference.certified.certificate import Certificate

# Of processor time, to prove the element that decides: one of a million coordinates takes 1.6 s,
# and on a processor that is half as fast twice as long.
DECIDING_SECONDS = 8.0
BY_NUMBERS = frozenset({"divergent", "special-values", "reduced-precision"})
BY_DEFINITION = frozenset({"random", "cast"})
# Elements certified per round, as long as the reference keeps changing.
ROUNDS = (8, 64, 512, 4096)


def needs_proof(judgment: Judgment, reference: Reference) -> bool:
    """Whether a judgment relies on numbers of float64, so that these must be certified.

    Not for random numbers, whose distribution is known by definition, casts beyond an integer's
    range (:mod:`consistency.reference.integer_casts`), and complex infinities (C99, Annex G).
    """
    if (
        judgment.verdict.value not in BY_NUMBERS
        or not judgment.output
        or reference.operator.traits & BY_DEFINITION
    ):
        return False
    return (
        judgment.verdict.kind is not VerdictKind.SPECIAL_VALUES
        or reference.dtype not in dtypes.PARTS
    )


def settled(reference: Reference, outcome: Outcome, judgment: Judgment, count: int) -> bool:
    """Certify the worst elements of a failing result, at most ``count``; returns whether that
    changed the reference."""
    index = _output_index(reference, judgment)
    if index is None:
        return False
    worst = _worst_position(reference, index, judgment)
    worst_only = [] if worst is None else [worst]
    changed = reference.proofs.settle(index, worst_only, DECIDING_SECONDS)
    if changed or worst is None or count > ROUNDS[0]:
        changed |= reference.proofs.settle(
            index,
            [p for p in _largest_errors(reference, outcome, index, count) if p not in worst_only],
        )
    return changed


def proof(reference: Reference, outcome: Outcome, judgment: Judgment) -> Proof | None:
    """The certificate of the worst element; None if there is none, or if it contradicts the
    reference."""
    index = _output_index(reference, judgment)
    if index is None:
        return None
    output = reference.outputs[index]
    if output.tensor is None:  # a Python number: tracing succeeds only if it is exact
        return (
            Proof(judgment.output, (), str(output.value), 0) if reference.proofs.traced() else None
        )
    place = _worst_position(reference, index, judgment)
    only_signs_differ = (
        judgment.worst is not None and judgment.worst.actual == judgment.worst.expected == 0.0
    )
    largest = list(_largest_errors(reference, outcome, index, 1))
    # Where a zero's sign cannot be proved, another element may be wrong that can.
    others_are_off = only_signs_differ and judgment.metrics.get("rho_beside", 0.0) > 1.0
    places = largest if place is None else [place, *(largest if others_are_off else ())]
    for position in places:
        if reference.proofs.settle(index, [position], DECIDING_SECONDS):
            return None  # the reference was wrong
        certificate = reference.proofs.certificates.get((index, position))
        if certificate is None:
            return None
        if not (only_signs_differ and position == place and not certificate.signed):
            return _proof_of(reference, index, certificate, judgment)
    return None


def inconclusive(reference: Reference, judgment: Judgment, who: str, doubt: str = "") -> Judgment:
    """The judgment for a failure without certificate. ``doubt`` says why float64 on the CPU is
    not to be relied on, where that is known."""
    answers = "another answer than float64 on the CPU"
    if judgment.worst is not None:
        where = f" at {list(judgment.worst.index)}" if judgment.worst.index else ""
        answers = (
            f"{judgment.worst.actual!r}{where}, float64 on the CPU says {judgment.worst.expected!r}"
        )
    reason = reference.proofs.reason or (
        "exact arithmetic leaves it open"
        if reference.proofs.refused
        else "float64 on the CPU is wrong at more elements than are looked at"
    )
    reason = f"{doubt}; {reason}" if doubt else reason
    text = (
        f"{who} says {answers}, and neither is proved ({reason}); would be "
        f"{judgment.verdict}: {judgment.explanation}"
    )
    return Judgment(
        Verdict(VerdictKind.INCONCLUSIVE),
        text,
        judgment.metrics,
        judgment.worst,
        judgment.output,
        detail=Unproved(),
    )


def words(proved: Proof) -> str:
    """``the true value is 1.8175527968550318…, proved to 40 digits``."""
    text, _, exponent = proved.digits.partition("e")
    count = sum(c.isdigit() for c in text.lstrip("-0."))
    if "i" in proved.digits or count <= 18:
        return f"the true value is {proved.digits[:80]}, proved"
    power = f"e{exponent}" if exponent else ""
    return f"the true value is {text[:19]}…{power}, proved to {count} digits"


def _output_index(reference: Reference, judgment: Judgment) -> int | None:
    return next(
        (i for i, output in enumerate(reference.outputs) if output.name == judgment.output), None
    )


def _worst_position(reference: Reference, index: int, judgment: Judgment) -> int | None:
    """The flat position of the worst element; both parts of a complex number share one."""
    tensor = reference.outputs[index].tensor
    if tensor is None or judgment.worst is None:
        return None
    shape = tuple(tensor.shape)
    where = judgment.worst.index[: len(shape)]
    return (
        int(np.ravel_multi_index(where, shape))
        if shape and len(where) == len(shape)
        else 0
        if not shape
        else None
    )


def _largest_errors(reference: Reference, outcome: Outcome, index: int, count: int) -> list[int]:
    """Positions of the largest errors in ulp + G·u·S; mismatching NaN and infinities first."""
    outputs = reference.observed(outcome.outputs)
    actual, expected = outputs[index].tensor, reference.outputs[index].tensor
    if actual is None or expected is None or actual.shape != expected.shape or not expected.numel():
        return []
    if not (expected.is_floating_point() or expected.is_complex()):
        differs = (actual.to(expected.dtype) != expected).reshape(-1).numpy()
        return [int(p) for p in np.flatnonzero(differs)[:count]]
    actual_values, expected_values = flat(actual, wide=True), flat(expected, wide=True)
    error = np.abs(actual_values - expected_values)
    error[
        (actual_values == expected_values) | (np.isnan(actual_values) & np.isnan(expected_values))
    ] = 0.0
    form = dtypes.form_of(outputs[index].dtype) or dtypes.FORMATS["float64"]
    unit = dtypes.spacing(
        np.nan_to_num(np.abs(expected_values), posinf=1e300), form, np.empty_like(expected_values)
    ) + _scale(reference, index, expected_values, form)
    ratio = np.nan_to_num(error / unit, nan=np.inf)
    if expected.is_complex():
        ratio = ratio.reshape(-1, 2).max(1)
    order = np.argsort(-ratio, kind="stable")[:count]
    return [int(p) for p in order if ratio[p] > 0.0]


def _scale(reference: Reference, index: int, expected_values: Any, form: dtypes.Format) -> Any:
    magnitudes = reference.magnitudes
    magnitude: Any = magnitudes[index] if index < len(magnitudes) else None
    if magnitude is None:
        return 0.0
    if not isinstance(magnitude, float):
        numbers = np.nan_to_num(flat(magnitude, wide=True), posinf=0.0)
        magnitude = (
            np.repeat(numbers, 2)
            if expected_values.size == 2 * numbers.size
            else numbers
            if numbers.size == expected_values.size
            else 0.0
        )
    return reference.growth(index) * form.unit_roundoff * magnitude


def _proof_of(
    reference: Reference, index: int, certificate: Certificate, judgment: Judgment
) -> Proof:
    tensor = reference.outputs[index].tensor
    shape: Sequence[int] = tuple(tensor.shape) if tensor is not None else ()
    element = (
        tuple(int(i) for i in np.unravel_index(certificate.position, shape))
        if math.prod(shape) and shape
        else ()
    )
    return Proof(judgment.output, element, certificate.digits, certificate.bits)
