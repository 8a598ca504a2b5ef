"""A fingerprint as a few small tables for the terminal and the page.

Answers that IEEE arithmetic gives share one line, others get their own rows. ``everything`` gives
each fact a row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .facts import INCONCLUSIVE, Fact, Fingerprint

FORMS = ("matmul", "linear", "bmm", "conv2d")
COLUMNS = {
    "multiplicand": "factors",
    "accumulator": "running sum",
    "products": "products",
    "compensation": "compensation",
}
ORDER = "Order of summation"  # and facts of unknown groups
_MEASURED = ("float32", "float16", "bfloat16")
DEPENDENCIES = "What the bits depend on"
_GROUPS = {
    **dict.fromkeys(COLUMNS, "Sums of products"), **dict.fromkeys(("repeated", "batch", "layout",
    "threads"), DEPENDENCIES),
    "fma": "x·y + z", "rounding": "Division and square root", "subnormals": "Subnormal numbers",
    "width": "float64 and int64",
}  # fmt: skip


@dataclass(frozen=True)
class Section:
    """A table with a title; ``header`` may be empty. The first cell of a row is its subject."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sections(found: Fingerprint, everything: bool = False) -> list[Section]:
    """All non-empty tables."""
    if everything:
        groups: dict[str, list[Fact]] = {}
        for fact in found:
            groups.setdefault(group_of(fact), []).append(fact)
        all_sections = [
            Section(group, (), tuple((f.question, str(f), f.evidence) for f in facts))
            for group, facts in groups.items()
        ]
        return [section for section in all_sections if section.rows]
    tables = [
        Section("Sums of products", ("", *COLUMNS.values()), tuple(_sums(found))),
        Section(ORDER, (), tuple(orders(found))),
        Section("Rounding and range", (), tuple(pointwise(found))),
        Section(
            "Functions: the largest error found, in ulp",
            ("", *_MEASURED, "alone, in short rows"),
            tuple(_functions(found)),
        ),
        Section("Corner cases that are not usual", ("", "here", "usually"), tuple(_edges(found))),
        Section(DEPENDENCIES, (), tuple(dependencies(found))),
        Section("Not established", (), tuple(_open(found))),
    ]
    return [section for section in tables if section.rows]


def group_of(fact: Fact) -> str:
    if fact.what == "edges":
        return "Corner cases"
    if fact.about in ("ulp", "bits", "tail"):
        return "Functions"
    return _GROUPS.get(fact.about, ORDER)


def _sums(found: Fingerprint) -> Iterator[tuple[str, ...]]:
    """One row per set of answers, for all its forms and dtypes."""
    rows: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for fact in found:
        if fact.about == "multiplicand":
            answers = tuple(
                _brief(found.get(f"{fact.what}/{fact.dtype}/{about}")) for about in COLUMNS
            )
            rows.setdefault(answers, {}).setdefault(fact.dtype, []).append(fact.what)
    for answers, dtypes in rows.items():
        yield _forms_and_dtypes(dtypes), *answers


def _forms_and_dtypes(dtypes: dict[str, list[str]]) -> str:
    by_forms: dict[tuple[str, ...], list[str]] = {}
    for dtype, forms in dtypes.items():
        by_forms.setdefault(tuple(forms), []).append(dtype)
    return "; ".join(f"{', '.join(forms)} {', '.join(names)}" for forms, names in by_forms.items())


def _brief(fact: Fact | None) -> str:
    return "–" if fact is None else fact.answer or "?"


def orders(found: Fingerprint) -> Iterator[tuple[str, ...]]:
    for fact in found:
        if group_of(fact) == ORDER and fact.known:
            yield f"{fact.what} {fact.dtype} {fact.about}".replace("  ", " "), fact.answer


def pointwise(found: Fingerprint) -> Iterator[tuple[str, ...]]:
    yield from _common(found, "rounding", "division, square root", "correctly rounded")
    yield from _common(found, "subnormals", "subnormal numbers", "kept")
    yield from _common(found, "fma", "x·y + z", "")
    for dtype, full in (("float64", "53 bits"), ("int64", "64 bits")):
        yield from _common(
            Fingerprint.of("", [f for f in found if f.dtype == dtype]), "width", dtype, full
        )


def _common(found: Fingerprint, about: str, title: str, usual: str) -> Iterator[tuple[str, ...]]:
    """One line if all facts have the usual answer, else one per answer."""
    groups: dict[str, list[Fact]] = {}
    for fact in found:
        if fact.about == about and fact.known:
            groups.setdefault(fact.answer, []).append(fact)
    total = sum(len(facts) for facts in groups.values())
    if usual in groups and len(groups) == 1:
        yield title, f"{usual}: all {total} that were asked"
        return
    for answer, facts in groups.items():
        names = f"{len(facts)} of {total}" if answer == usual else _named(facts)
        yield title, f"{answer}: {names}"


def _named(facts: Sequence[Fact]) -> str:
    """``matmul, linear bfloat16; sqrt float32``."""
    by_dtype: dict[str, list[str]] = {}
    for fact in facts:
        by_dtype.setdefault(fact.dtype, []).append(fact.what)
    return _forms_and_dtypes(by_dtype)


def _functions(found: Fingerprint) -> Iterator[tuple[str, ...]]:
    names = dict.fromkeys(fact.what for fact in found if fact.about == "bits")
    for name in names:
        cells = [_error(found.get(f"{name}/{dtype}/ulp")) for dtype in _MEASURED]
        tails = [
            f for f in found if f.what == name and f.about == "tail" and f.known and not f.usual
        ]
        yield (
            name,
            *cells,
            f"other bits: {', '.join(f.dtype for f in tails)}" if tails else "same bits",
        )
    if names:
        yield "all of their bits", functions_hash(found)


def _error(fact: Fact | None) -> str:
    """``0.56; 22 wrong NaN or ∞``."""
    if fact is None or not fact.known:
        return _brief(fact)
    texts = {
        "correctly rounded": "0.5",
        "within ": "",
        " ulp": "",
        "infinity": "∞",
        "subnormal results are 0": "flushes",
        ", ": "; ",
    }
    text = fact.answer
    for before, after in texts.items():
        text = text.replace(before, after)
    return text


def functions_hash(found: Fingerprint) -> str:
    """Ten hexadecimal digits that identify the implementation of the functions; empty if none was
    measured."""
    bits = sorted(
        (fact.question, fact.answer) for fact in found if fact.about == "bits" and fact.known
    )
    return hashlib.sha256(repr(bits).encode("utf-8")).hexdigest()[:10] if bits else ""


def _edges(found: Fingerprint) -> Iterator[tuple[str, ...]]:
    for fact in found:
        if fact.what == "edges" and fact.evidence.startswith("usually "):
            yield f"{fact.dtype} {fact.about}", fact.answer, fact.evidence.removeprefix("usually ")


def dependencies(found: Fingerprint) -> Iterator[tuple[str, ...]]:
    titles = {
        "repeated": "from run to run",
        "batch": "batch size",
        "layout": "layout",
        "threads": "threads",
    }
    for about, title in titles.items():
        facts = [fact for fact in found if fact.about == about and fact.known]
        same = [fact.what for fact in facts if fact.usual]
        if same:
            yield title, f"same bits: {', '.join(same)}"
        for fact in facts:
            if not fact.usual:
                yield title, f"{fact.what}: {fact.answer}"


def _open(found: Fingerprint) -> Iterator[tuple[str, ...]]:
    """Questions without an answer, grouped by reason."""
    reasons: dict[str, list[str]] = {}
    for fact in found:
        if not fact.known:
            reasons.setdefault(fact.inconclusive, []).append(fact.question)
    for reason, questions in reasons.items():
        yield f"{len(questions)} {INCONCLUSIVE}", f"{_first_names(questions)}: {reason}"


def _first_names(names: Sequence[str], limit: int = 4) -> str:
    return ", ".join(names[:limit]) + (
        f" and {len(names) - limit} more" if len(names) > limit else ""
    )
