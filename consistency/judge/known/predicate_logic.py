"""What the parts of a predicate do: functions of a case's facts, in a logic of three values.

What does not apply to a case (it has no such argument, a text is compared with a number) is neither
true nor false: ``and``, ``or`` and ``not`` treat it as unknown (Kleene 1938), a predicate holds
only where it is true, and everything else passes it on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .case_facts import UNKNOWN, Facts, Words

Ask = Callable[[Facts], Any]
Relation = Callable[[Any, Any], Any]


def truth(value: Any) -> Any:
    """A value as a condition: True, False or UNKNOWN. A tensor that is given is true, an argument
    None is false."""
    return UNKNOWN if value is UNKNOWN or isinstance(value, (Words, tuple)) else bool(value)


def constant(value: Any) -> Ask:
    return lambda facts: value


def argument(name: str, facts: Facts) -> Any:
    return facts.named(name)


def described(name: str, part: Ask, facts: Facts) -> Any:
    return facts.described(name, part(facts))


def several(parts: Sequence[Ask]) -> Ask:
    def ask(facts: Facts) -> Any:
        found = tuple(part(facts) for part in parts)
        return UNKNOWN if UNKNOWN in found else found

    return ask


def item(part: Ask, place: int) -> Ask:
    def ask(facts: Facts) -> Any:
        found = part(facts)
        return (
            found[place]
            if isinstance(found, tuple) and -len(found) <= place < len(found)
            else UNKNOWN
        )

    return ask


def calculated(how: Callable[[Any, Any], Any], left: Ask, right: Ask) -> Ask:
    def ask(facts: Facts) -> Any:
        a, b = left(facts), right(facts)
        if not (isinstance(a, (int, float)) and isinstance(b, (int, float))):
            return UNKNOWN
        try:
            return how(a, b)
        except ArithmeticError:  # a division by zero, or a whole number that no float holds
            return UNKNOWN

    return ask


def applied(how: Callable[..., Any], parts: Sequence[Ask], facts: Facts) -> Any:
    found = [part(facts) for part in parts]
    if UNKNOWN in found:
        return UNKNOWN
    try:
        return how(*found)
    except (TypeError, ValueError):  # of nothing, or of things that have no order
        return UNKNOWN


def related(left: Ask, relation: Relation, right: Ask, facts: Facts) -> Any:
    a, b = left(facts), right(facts)
    return UNKNOWN if a is UNKNOWN or b is UNKNOWN else relation(a, b)


def equal(a: Any, b: Any) -> Any:
    """Of words, whether they have it: a tensor with several layouts equals each of them."""
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


def ordered(how: Relation, a: Any, b: Any) -> Any:
    return how(a, b) if isinstance(a, (int, float)) and isinstance(b, (int, float)) else UNKNOWN


def negated(value: Any) -> Any:
    return UNKNOWN if value is UNKNOWN else not value


def every(parts: Sequence[Ask]) -> Ask:
    return parts[0] if len(parts) == 1 else functools.partial(_joined, parts, False)


def some(parts: Sequence[Ask]) -> Ask:
    return functools.partial(_joined, parts, True)


def _joined(parts: Sequence[Ask], decisive: bool, facts: Facts) -> Any:
    """``or`` where one True decides, ``and`` where one False does; otherwise unknown if anything
    is."""
    found = not decisive
    known = True
    for part in parts:
        value = truth(part(facts))
        if value is decisive:
            return decisive
        known = known and value is not UNKNOWN
    return found if known else UNKNOWN


def opposite(part: Ask) -> Ask:
    return lambda facts: negated(truth(part(facts)))
