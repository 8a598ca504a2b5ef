"""What exceptions and warnings of a call say, and what became of the call by that."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch.nn import functional

from ..core.model import Outcome
from ..core.text import abridged, printable
from ..core.verdict import OutcomeStatus
from ..errors import Unsupported

MAX_NAME = 200  # characters of the name of an exception's class
MAX_WARNINGS = 50  # texts per call
_UNSUPPORTED = re.compile(
    r"not implemented for|^derivative for \S+ is not implemented|"
    r"is not supported|not currently supported|(?:does not|doesn't) "
    r"support|unsupported (?:data ?)?type|"
    r"not supported for \w+$|of supported devices: |"
    r"Could not run '|no kernel|has no [a-z_.]+$|only supports? float|does not have a "
    r"deterministic implementation",
    re.IGNORECASE,
)
# What torch says of a call that another version of it takes.
_NO_SUCH_CALL = re.compile(
    r"received an invalid combination of arguments - got|"
    r"Unknown keyword argument '\w+' for operator 'aten::|"
    r"^(?P<function>\w+)\(\) got an unexpected keyword argument '"
)
_FALLBACK = re.compile(
    (
        r"will fall back to run on the CPU|fall(?:s|ing)? ?back (?:from \w+ )?to (?:run )?(?:on "
        r")?(?:the )?CPU"
    ),
    re.IGNORECASE,
)


def failed(error: BaseException) -> Outcome:
    """The outcome of a call that raised: ``unsupported`` if the message says so, else
    ``raised``."""
    refused = isinstance(error, (Unsupported, NotImplementedError))
    return raised(type(error).__name__, text_of(error), refused)


def raised(exception: str, text: str, refused: bool = False) -> Outcome:
    """The outcome of a call that raised ``exception`` with this text; ``refused``: its type alone
    means unsupported."""
    text = abridged(text)
    unsupported = (
        refused
        or exception == "NotImplementedError"
        or _UNSUPPORTED.search(text)
        or _is_no_such_call(text)
    )
    return Outcome(
        OutcomeStatus.UNSUPPORTED if unsupported else OutcomeStatus.RAISED,
        (),
        exception[:MAX_NAME],
        first_line(text),
    )


def classified_again(outcome: Outcome) -> Outcome:
    """A recorded outcome that raised, ``unsupported`` if its message says so: the program that
    recorded it may have known fewer such messages."""
    if outcome.status is not OutcomeStatus.RAISED:
        return outcome
    return replace(outcome, status=raised(outcome.exception, outcome.message).status)


def _is_no_such_call(text: str) -> bool:
    """Whether torch has no function of these arguments; what a function of somebody else's refuses
    is not meant."""
    found = _NO_SUCH_CALL.search(text)
    return found is not None and (
        found["function"] is None
        or any(hasattr(where, found["function"]) for where in (functional, torch.functional))
    )


def fallback_in(texts: Iterable[str]) -> str:
    """The first warning about an operator that ran on the CPU instead; empty if there is none."""
    return next((text for text in texts if _FALLBACK.search(text)), "")


def text_of(error: object) -> str:
    """``str(error)``, even if that raises; of a long one the beginning and the end."""
    try:
        return abridged(str(error))
    except Exception:
        return f"(the text of this {type(error).__name__} cannot be had)"


def first_line(text: str) -> str:
    """The first nonempty line, at most 300 characters, without control characters."""
    return printable(next((line.strip() for line in text.splitlines() if line.strip()), "")[:300])


def told(error: BaseException) -> str:
    """``RuntimeError: its first line``: an exception in one line."""
    line = first_line(text_of(error))
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def texts_of(caught: Sequence[warnings.WarningMessage]) -> tuple[str, ...]:
    """The distinct texts of warnings, in order, each at most 300 characters."""
    if not caught:
        return ()
    return tuple(dict.fromkeys(text_of(warning.message)[:300] for warning in caught))[:MAX_WARNINGS]
