"""Two fingerprints beside each other, in words: what differs in how two backends compute, the
strongest first."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...backends.base import Backend
from ...errors import BundleError
from ..fingerprint.collect import Probe, probes, take
from ..fingerprint.facts import MAX_JSON, Difference, Fact, Fingerprint, differences, unknown
from ..fingerprint.summary import lines_of, summary_of

# What can change a result most comes first: float64 that is none before an order of summation
# before the last bit of exp.
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
MOST = 12  # lines of a kind
_KEPT = "kept/"
SUMS = {
    "matmul": "matmul", "mm": "matmul", "addmm": "linear", "bmm": "bmm",
    "nn.functional.linear": "linear",
    "nn.functional.conv2d": "conv2d",
}  # fmt: skip


def read(path: Path) -> Fingerprint:
    """What ``consistency fingerprint --json`` wrote; of several backends the first. Raises
    BundleError."""
    try:
        with path.open(encoding="utf-8") as stream:
            text = stream.readline(MAX_JSON + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(
            f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'not text'}"
        ) from None
    try:
        return Fingerprint.from_json(text)
    except BundleError as error:
        raise BundleError(f"{path}: {error}") from None


def as_kept(found: Fingerprint) -> Fingerprint:
    """A whole fingerprint in the form that a bundle keeps."""
    if _is_kept(found):
        return found
    return Fingerprint.of(
        found.backend, [kept_fact(*pair) for pair in lines_of(summary_of(found)).items()]
    )


def kept_fact(name: str, told: str) -> Fact:
    """What a bundle keeps as ``?`` was not established."""
    known = told.strip("?")
    return Fact(f"{_KEPT}{name}", told) if known else unknown(f"{_KEPT}{name}", "not established")


def _is_kept(found: Fingerprint) -> bool:
    return any(question.startswith(_KEPT) for question in found.facts)


def lines(left: Fingerprint, right: Fingerprint) -> Iterator[str]:
    """All differences by kind; the first line counts them. A fingerprint of a bundle is compared
    line by line."""
    if _is_kept(left) or _is_kept(right):
        yield from _kept_lines(as_kept(left), as_kept(right))
        return
    found = differences(left, right)
    asked = sum(
        1
        for question in left.facts
        if (other := right.get(question)) is not None and other.known and left[question].known
    )
    a, b = left.backend, right.backend
    if not asked:
        yield f"{a} and {b} have no question in common that both answer."
        return
    if not found:
        yield (
            f"{a} and {b} compute alike: all {asked} facts that were established of both are "
            f"the same."
        )
        return
    yield (
        f"{a} and {b} differ in {len(found)} of {asked} facts; what changes results most comes "
        f"first ({a} → {b}):"
    )
    for kind in KINDS:
        yield from _kind(kind, [d for d in found if kind_of(d) == kind])


def _kept_lines(left: Fingerprint, right: Fingerprint) -> Iterator[str]:
    found = [d for d in differences(left, right) if d.question != f"{_KEPT}hash"]
    both = sum(
        1
        for question in left.facts
        if (twin := right.get(question)) is not None and twin.known and left[question].known
    )
    if not found:
        yield (
            f"{left.backend} and {right.backend} compute alike, as far as a bundle keeps it: "
            f"{both} lines are the same."
        )
        return
    yield f"{left.backend} → {right.backend}: {len(found)} of {both} lines differ"
    for d in found:
        one, other = (_cut(fact.answer) if fact is not None else "" for fact in (d.left, d.right))
        yield f"  {d.question.removeprefix(_KEPT)}: {one} → {other}"


def kind_of(difference: Difference) -> str:
    fact = difference.left or difference.right
    assert fact is not None
    return "corner cases" if fact.what == "edges" else _OF.get(fact.about, "corner cases")


def _kind(kind: str, found: Sequence[Difference]) -> Iterator[str]:
    if not found:
        return
    yield f"  {kind}"
    told = found
    if kind == "functions":  # where errors differ, bits do, too
        told = [d for d in found if d.question.endswith("/ulp")]
        other = dict.fromkeys(_name(d) for d in found if not d.question.endswith("/ulp"))
        other = dict.fromkeys(name for name in other if name not in {_name(d) for d in told})
    for d in told[:MOST]:
        yield f"    {words(d)}"
    if len(told) > MOST:
        yield f"    and {len(told) - MOST} more"
    if kind == "functions" and other:
        yield f"    other bits, errors alike: {', '.join(other)}"


def words(difference: Difference) -> str:
    """``exp2 float32: within 0.78 ulp → within 0.51 ulp``."""
    left, right = (
        _cut(fact.answer) if fact is not None else "not asked"
        for fact in (difference.left, difference.right)
    )
    return f"{_name(difference)}: {left} → {right}"


def _name(difference: Difference) -> str:
    what, *rest = difference.question.split("/")
    if what == "edges":
        return f"{rest[-1]} {rest[0]}"
    extra = {"compensation": " compensation", "products": " products"}.get(rest[-1], "")
    return f"{what} {rest[0] if len(rest) > 1 else ''}{extra}".strip()


def _cut(text: str) -> str:
    return text if len(text) <= 160 else f"{text[:150]}…"


def relevant(operator: str, dtype: str) -> list[Probe]:
    """The probes whose facts bear on one operator: of its sums, or of functions of single
    elements."""
    form = SUMS.get(operator)
    every = probes([dtype])
    if form is not None:
        return [
            probe
            for probe in every
            if probe.about in (f"{form}/{dtype}/multiplicand", f"subnormals/{dtype}")
        ]
    return [
        probe
        for probe in every
        if probe.about in (f"functions/{dtype}", f"division/{dtype}", f"subnormals/{dtype}")
    ]


def of_operator(
    operator: str, dtype: str, left: Backend, right: Backend, say: Callable[[str], None]
) -> list[Difference]:
    """What differs between two backends and bears on one operator."""
    chosen = relevant(operator, dtype)
    prints = []
    for backend in (left, right):
        say(f"asking {backend.name} how it computes")
        prints.append(take(backend, chosen))
    name = SUMS.get(operator) or operator.rpartition(".")[2]
    return [d for d in differences(*prints) if d.question.split("/")[0] == name]


def to_json(left: Fingerprint, right: Fingerprint) -> str:
    if _is_kept(left) or _is_kept(right):
        left, right = as_kept(left), as_kept(right)
    found = differences(left, right)
    rows = [
        {
            "question": d.question,
            "kind": kind_of(d),
            "a": d.left.answer if d.left else "",
            "b": d.right.answer if d.right else "",
        }
        for d in found
    ]
    return json.dumps(
        {
            "a": left.backend,
            "b": right.backend,
            "differences": rows,
            "words": list(lines(left, right)),
        }
    )
