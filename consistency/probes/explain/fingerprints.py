"""Differences between two fingerprints as text, the property with the largest effect first."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...backends.base import Backend
from ...core.regular_files import open_to_read
from ...errors import BundleError
from ..fingerprint.collect import Probe, probes, take
from ..fingerprint.facts import MAX_JSON, Difference, Fact, Fingerprint, differences, unknown
from ..fingerprint.summary import lines_of, summary_of

# Sorted by effect on results: emulated float64 first, the last bit of exp late.
KINDS: dict[str, tuple[str, ...]] = {
    "width of float64 and int64": ("width",),
    "bits of a factor": ("multiplicand",),
    "running sum": ("accumulator", "compensation"),
    "subnormal numbers": ("subnormals",),
    "fused multiply-add": ("products", "fma"),
    "order of summation": ("order",),
    "division and square root": ("rounding",),
    "functions": ("ulp", "bits", "tail"),
    "corner cases": (),
    "what the bits depend on": ("repeated", "batch", "layout", "threads"),
}
_OF = {about: kind for kind, abouts in KINDS.items() for about in abouts}
MOST = 12  # lines per kind
_KEPT = "kept/"
SUMS = {
    "matmul": "matmul", "mm": "matmul", "addmm": "linear", "bmm": "bmm",
    "nn.functional.linear": "linear",
    "nn.functional.conv2d": "conv2d",
}  # fmt: skip


def read(path: Path) -> Fingerprint:
    """Read the output of ``consistency fingerprint --json``, the first backend of several. Raises
    BundleError."""
    try:
        with io.BufferedReader(open_to_read(path, follow=True)) as stream:
            text = stream.readline(MAX_JSON + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(
            f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'not text'}"
        ) from None
    try:
        return Fingerprint.from_json(text)
    except BundleError as error:
        raise BundleError(f"{path}: {error}") from None


def as_kept(found: Fingerprint) -> Fingerprint:
    """A fingerprint in the summarized form that bundles store."""
    if _is_stored(found):
        return found
    return Fingerprint.of(
        found.backend,
        [kept_fact(*pair) for pair in lines_of(summary_of(found)).items()],
    )


def kept_fact(name: str, told: str) -> Fact:
    """One stored summary line as a fact; ``?`` means that it was not established."""
    stripped = told.strip("?")
    return (
        Fact(f"{_KEPT}{name}", told) if stripped else unknown(f"{_KEPT}{name}", "not established")
    )


def _is_stored(fingerprint: Fingerprint) -> bool:
    return any(question.startswith(_KEPT) for question in fingerprint.facts)


def lines(left: Fingerprint, right: Fingerprint) -> Iterator[str]:
    """All differences by kind; the first line counts them. A fingerprint from a bundle is compared
    by its stored lines."""
    if _is_stored(left) or _is_stored(right):
        yield from _stored_lines(as_kept(left), as_kept(right))
        return
    different = differences(left, right)
    total = sum(
        1
        for question in left.facts
        if (counterpart := right.get(question)) is not None
        and counterpart.known
        and left[question].known
    )
    a, b = left.backend, right.backend
    if not total:
        yield f"{a} and {b} have no question in common that both answer."
        return
    if not different:
        yield (
            f"{a} and {b} compute alike: all {total} facts that were established of both are "
            "the same. Whether single operators differ says consistency run."
        )
        return
    yield (
        f"{a} and {b} differ in {len(different)} of {total} facts; what changes results most comes "
        f"first ({a} → {b}):"
    )
    for kind in KINDS:
        yield from _kind(kind, [d for d in different if kind_of(d) == kind])


def _stored_lines(left: Fingerprint, right: Fingerprint) -> Iterator[str]:
    different = [d for d in differences(left, right) if d.question != f"{_KEPT}hash"]
    common = sum(
        1
        for question in left.facts
        if (counterpart := right.get(question)) is not None
        and counterpart.known
        and left[question].known
    )
    if not different:
        yield (
            f"{left.backend} and {right.backend} compute alike, as far as a bundle keeps it: "
            f"{common} lines are the same."
        )
        return
    yield f"{left.backend} → {right.backend}: {len(different)} of {common} lines differ"
    for d in different:
        old, new = (_cut(fact.answer) if fact is not None else "" for fact in (d.left, d.right))
        yield f"  {d.question.removeprefix(_KEPT)}: {old} → {new}"


def kind_of(difference: Difference) -> str:
    fact = difference.left or difference.right
    assert fact is not None
    return "corner cases" if fact.what == "edges" else _OF.get(fact.about, "corner cases")


def _kind(kind: str, different: Sequence[Difference]) -> Iterator[str]:
    if not different:
        return
    yield f"  {kind}"
    listed = different
    if kind == "functions":  # where errors differ, bits do, too
        listed = [d for d in different if d.question.endswith("/ulp")]
        bits_only = dict.fromkeys(_name(d) for d in different if not d.question.endswith("/ulp"))
        bits_only = dict.fromkeys(
            name for name in bits_only if name not in {_name(d) for d in listed}
        )
    for d in listed[:MOST]:
        yield f"    {words(d)}"
    if len(listed) > MOST:
        yield f"    and {len(listed) - MOST} more"
    if kind == "functions" and bits_only:
        yield f"    other bits, errors alike: {', '.join(bits_only)}"


def words(difference: Difference) -> str:
    """``exp2 float32: within 0.78 ulp → within 0.51 ulp``."""
    left, right = (
        _cut(fact.answer) if fact is not None else "not asked"
        for fact in (difference.left, difference.right)
    )
    return f"{_name(difference)}: {left} → {right}"


def _name(difference: Difference) -> str:
    subject, *parts = difference.question.split("/")
    if subject == "edges":
        return f"{parts[-1]} {parts[0]}"
    extra = {"compensation": " compensation", "products": " products"}.get(parts[-1], "")
    return f"{subject} {parts[0] if len(parts) > 1 else ''}{extra}".strip()


def _cut(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:150]}…"


def relevant(operator: str, dtype: str) -> list[Probe]:
    """The probes relevant to one operator: those of its sums, or of elementwise functions."""
    form = SUMS.get(operator)
    all_probes = probes([dtype])
    if form is not None:
        return [
            probe
            for probe in all_probes
            if probe.about in (f"{form}/{dtype}/multiplicand", f"subnormals/{dtype}")
        ]
    return [
        probe
        for probe in all_probes
        if probe.about in (f"functions/{dtype}", f"division/{dtype}", f"subnormals/{dtype}")
    ]


def of_operator(
    operator: str, dtype: str, left: Backend, right: Backend, say: Callable[[str], None]
) -> list[Difference]:
    """Differences between two backends that are relevant to one operator."""
    chosen = relevant(operator, dtype)
    prints = []
    for backend in (left, right):
        say(f"asking {backend.name} how it computes")
        prints.append(take(backend, chosen))
    name = SUMS.get(operator) or operator.rpartition(".")[2]
    return [d for d in differences(*prints) if d.question.split("/")[0] == name]


def to_json(left: Fingerprint, right: Fingerprint) -> str:
    if _is_stored(left) or _is_stored(right):
        left, right = as_kept(left), as_kept(right)
    different = differences(left, right)
    rows = [
        {
            "question": d.question,
            "kind": kind_of(d),
            "a": d.left.answer if d.left else "",
            "b": d.right.answer if d.right else "",
        }
        for d in different
    ]
    return json.dumps(
        {
            "a": left.backend,
            "b": right.backend,
            "differences": rows,
            "words": list(lines(left, right)),
        }
    )
