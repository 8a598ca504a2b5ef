"""The part of a fingerprint that a bundle stores (facts on sums, rounding and order, and hashes of
the others), and its rendering as a few lines."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from .facts import Fact, Fingerprint, unknown
from .sections import (
    COLUMNS,
    DEPENDENCIES,
    ORDER,
    dependencies,
    functions_hash,
    group_of,
    orders,
    pointwise,
)

FORMAT = "2"  # format 1 stored the lines
MAX_ANSWERS, MAX_CHARACTERS = 1000, 1000  # per backend, per answer
_STORED = ("rounding", "subnormals", "fma", "width")


def summary_of(found: Fingerprint) -> dict[str, str]:
    """Answers by question (empty: not established), and hashes by name."""
    answers = {fact.question: fact.answer for fact in found if _is_stored(fact)}
    hashes = {"functions": functions_hash(found)}
    edges = [fact for fact in found if fact.what == "edges"]
    if edges:
        unusual = sum(fact.evidence.startswith("usually ") for fact in edges)
        hashes["corner cases"] = _hash(sorted((fact.question, fact.answer) for fact in edges))
        hashes["unusual corner cases"] = str(unusual)
    order_rows = list(orders(found))
    if order_rows:
        hashes["orders"] = _hash(order_rows)
    bounded = {key: answer[:MAX_CHARACTERS] for key, answer in answers.items()}
    return {"format": FORMAT, **bounded, **hashes, "hash": found.hash}


def _is_stored(fact: Fact) -> bool:
    if fact.about in COLUMNS:
        return True
    group = group_of(fact)
    if group == DEPENDENCIES:
        return fact.known and not fact.usual
    return fact.known and (fact.about in _STORED or (group == ORDER and fact.dtype == "float32"))


def _hash(data: object) -> str:
    return hashlib.sha256(repr(data).encode("utf-8")).hexdigest()[:10]


def stored_in(environment: Mapping[str, Any]) -> dict[str, str]:
    """The stored summary of one backend, bounded in size: answers, or lines by name from an earlier
    version; empty if there is none."""
    stored = environment.get("fingerprint")
    items = list(stored.items())[:MAX_ANSWERS] if isinstance(stored, dict) else []
    return {str(key)[:200]: str(answer)[:MAX_CHARACTERS] for key, answer in items}


def lines_of(stored: Mapping[str, str]) -> dict[str, str]:
    """A summary as a few lines by name, by which two bundles are compared; lines of an earlier
    version are returned unchanged."""
    if stored.get("format") != FORMAT:
        return dict(stored)
    facts = [
        Fact(key, answer) if answer else unknown(key, "not established")
        for key, answer in stored.items()
        if "/" in key
    ]
    fingerprint = Fingerprint.of("", facts)
    lines = dict(_by_dtype(fingerprint))
    for row in pointwise(fingerprint):
        lines[row[0]] = f"{lines[row[0]]}; {row[1]}" if row[0] in lines else row[1]
    if stored.get("functions"):
        lines["functions"] = f"bits {stored['functions']}"
    if stored.get("corner cases"):
        unusual = stored.get("unusual corner cases", "0")
        lines["corner cases"] = f"{stored['corner cases']}, {unusual} not usual"
    lines |= {title: text[:400] for title, text in orders(fingerprint)}
    if stored.get("orders"):
        lines["all orders"] = stored["orders"]
    for title, text in dependencies(fingerprint):
        lines[title] = f"{lines[title]}; {text}" if title in lines else text
    bounded = {name: text[:MAX_CHARACTERS] for name, text in lines.items()}
    return bounded | {"hash": stored.get("hash", "")}


def fact_of(stored: Mapping[str, str], question: str) -> Fact | None:
    """The stored answer to ``WHAT/DTYPE/ABOUT``; None if it was not established, or if lines are
    stored in place of answers."""
    answer = stored.get(question, "")
    return Fact(question, answer) if answer else None


def _by_dtype(found: Fingerprint) -> Iterator[tuple[str, str]]:
    """One line per dtype, under a name that does not depend on the answers."""
    for dtype in dict.fromkeys(fact.dtype for fact in found if fact.about == "multiplicand"):
        groups: dict[str, list[str]] = {}
        for form in dict.fromkeys(
            fact.what for fact in found if fact.about == "multiplicand" and fact.dtype == dtype
        ):
            facts = [
                (title, found.get(f"{form}/{dtype}/{about}")) for about, title in COLUMNS.items()
            ]
            text = "; ".join(
                f"{title} {fact.answer}" for title, fact in facts if fact is not None and fact.known
            )
            groups.setdefault(text or "?", []).append(form)
        texts = [
            text if len(groups) == 1 else f"{', '.join(forms)}: {text}"
            for text, forms in groups.items()
        ]
        yield f"sums of products {dtype}", " | ".join(texts)
