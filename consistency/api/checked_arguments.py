"""What the arguments of :func:`assert_consistent` may be, given in a call or in a test's marker.

A mistake must not look like a test that passed: an empty list tests nothing, and of a direction
with another name nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..core.model import DIRECTIONS
from ..errors import UsageError, did_you_mean

_RULE = "consistency.Rule(c=4, lam=2)"


def directions_of(given: Any) -> tuple[str, ...]:
    """The directions; one may be a string. Raises UsageError for others, and for none."""
    names = _listed(given, "directions", "'forward', 'backward', or both")
    for name in names:
        if name not in DIRECTIONS:
            hint = did_you_mean(str(name), DIRECTIONS)
            raise UsageError(
                f"unknown direction {name!r:.80}{hint or '; known: ' + ', '.join(DIRECTIONS)}"
            )
    return names


def backends_of(given: Any) -> tuple[Any, ...]:
    """The backends; one may stand alone. Raises UsageError for none."""
    return _listed(given, "backends", "names such as 'cpu', or leave it out")


def rule_of(given: Any) -> Any:
    """The rule, or None. Raises UsageError for what is none."""
    from ..judge.rule_values import Rule

    if given is not None and not isinstance(given, Rule):
        raise UsageError(
            f"rule is of type {type(given).__name__}; give {_RULE}, with c in ulp of the result "
            f"and lam (λ) in unit roundoffs of what is summed"
        )
    return given


_CHECKS = {"directions": directions_of, "backends": backends_of, "rule": rule_of}


def refuse_mistakes(arguments: Mapping[str, Any]) -> None:
    """Raises UsageError for the first of a marker's arguments that cannot be meant."""
    for name, value in arguments.items():
        if name in _CHECKS and value is not None:
            _CHECKS[name](value)


def _listed(given: Any, what: str, examples: str) -> tuple[Any, ...]:
    alone = isinstance(given, str) or not isinstance(given, Iterable)
    found = (given,) if alone else tuple(given)
    if not found:
        raise UsageError(f"{what} is empty, so nothing would be tested; give {examples}")
    return found
