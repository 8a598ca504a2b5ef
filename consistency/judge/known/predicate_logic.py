"""Evaluation of predicates: functions of a case's facts, in three-valued logic.

What does not apply to a case (a missing argument, a string compared with a number) is UNKNOWN:
``and``, ``or`` and ``not`` follow Kleene (1938), other operations propagate it, and a predicate
holds only if it is true.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .case_facts import UNKNOWN, Facts
from .value_facts import Words

Ask = Callable[[Facts], Any]
Relation = Callable[[Any, Any], Any]


def truth(value: Any) -> Any:
    """A value as a condition: True, False or UNKNOWN. A tensor is true, None is false."""
    return UNKNOWN if value is UNKNOWN or isinstance(value, (Words, tuple)) else bool(value)


def constant(value: Any) -> Ask:
    return lambda facts: value


def argument(name: str, facts: Facts) -> Any:
    return facts.named(name)


def described(name: str, part: Ask, facts: Facts) -> Any:
    return facts.described(name, part(facts))


def several(parts: Sequence[Ask]) -> Ask:
    def ask(facts: Facts) -> Any:
        values = tuple(part(facts) for part in parts)
        return UNKNOWN if UNKNOWN in values else values

    return ask


def item(part: Ask, index: int) -> Ask:
    def ask(facts: Facts) -> Any:
        value = part(facts)
        return (
            value[index]
            if isinstance(value, tuple) and -len(value) <= index < len(value)
            else UNKNOWN
        )

    return ask


def calculated(operation: Callable[[Any, Any], Any], left: Ask, right: Ask) -> Ask:
    def ask(facts: Facts) -> Any:
        a, b = left(facts), right(facts)
        if not (isinstance(a, (int, float)) and isinstance(b, (int, float))):
            return UNKNOWN
        try:
            return operation(a, b)
        except ArithmeticError:  # division by zero, or an integer too large for a float
            return UNKNOWN

    return ask


def applied(function: Callable[..., Any], parts: Sequence[Ask], facts: Facts) -> Any:
    values = [part(facts) for part in parts]
    if UNKNOWN in values:
        return UNKNOWN
    try:
        return function(*values)
    except (TypeError, ValueError):  # an empty argument, or values without an order
        return UNKNOWN


def related(left: Ask, relation: Relation, right: Ask, facts: Facts) -> Any:
    a, b = left(facts), right(facts)
    return UNKNOWN if a is UNKNOWN or b is UNKNOWN else relation(a, b)


def equal(a: Any, b: Any) -> Any:
    """Equality; a tensor with several layouts equals each of them."""
    words, other = (a, b) if isinstance(a, Words) else (b, a)
    return (
        words == other
        if isinstance(other, Words) or not isinstance(words, Words)
        else other in words
    )


def within(a: Any, b: Any) -> Any:
    if isinstance(b, Words):
        return isinstance(a, str) and a in b
    if not isinstance(b, tuple):
        return UNKNOWN
    return any(word in a for word in b) if isinstance(a, Words) else a in b


def ordered(comparison: Relation, a: Any, b: Any) -> Any:
    return (
        comparison(a, b) if isinstance(a, (int, float)) and isinstance(b, (int, float)) else UNKNOWN
    )


def negated(value: Any) -> Any:
    return UNKNOWN if value is UNKNOWN else not value


def every(parts: Sequence[Ask]) -> Ask:
    return parts[0] if len(parts) == 1 else functools.partial(_joined, parts, False)


def some(parts: Sequence[Ask]) -> Ask:
    return functools.partial(_joined, parts, True)


def _joined(parts: Sequence[Ask], decisive: bool, facts: Facts) -> Any:
    """``or`` (one True decides) or ``and`` (one False decides); otherwise UNKNOWN if any part
    is."""
    result = not decisive
    known = True
    for part in parts:
        value = truth(part(facts))
        if value is decisive:
            return decisive
        known = known and value is not UNKNOWN
    return result if known else UNKNOWN


def opposite(part: Ask) -> Ask:
    return lambda facts: negated(truth(part(facts)))
