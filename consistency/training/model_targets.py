"""Targets: ``module:factory``, ``file.py:factory``, ``examples:NAME``, a factory, or a model
itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..backends._messages import told
from ..backends._user_backends import imported
from ..errors import UsageError
from .examples import example
from .training_task import Subject, subject_of

EXAMPLES = "examples"
_HELP = (
    "give module:factory, file.py:factory or examples:NAME, where the factory returns a "
    "model and its inputs"
)


def subject(target: Any) -> Subject:
    """The Subject of a target. Raises UsageError with one line."""
    if isinstance(target, str):
        return named(target)
    if isinstance(target, (Subject, tuple, list)):
        return subject_of(target, "the target")
    if callable(target) and not hasattr(target, "parameters"):
        title = getattr(target, "__qualname__", type(target).__name__)
        return subject_of(target(), f"what {title} returned")
    if callable(target):
        raise UsageError(
            f"{type(target).__name__} alone is no target: its inputs are missing; give (model, "
            f"inputs)"
        )
    raise UsageError(f"the target is {type(target).__name__}; {_HELP}")


def named(text: str) -> Subject:
    """The Subject of ``examples:NAME`` or of a factory in a file or a module."""
    module, _, name = text.strip().rpartition(":")
    if not module or not name:
        raise UsageError(f"target {text!r:.80}: {_HELP}")
    if module == EXAMPLES:
        return subject_of(example(name)(), f"example {name}")
    factory = imported(text.strip(), "target")
    if not callable(factory):
        raise UsageError(f"target {text!r:.80}: {name} is a {type(factory).__name__}; {_HELP}")
    try:
        result = factory()
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"target {text!r:.80}: calling {name} raised {told(error)}") from error
    return subject_of(result, f"target {text!r:.80}: what {name} returned")


def factory_of(target: Any) -> Callable[[], Subject] | None:
    """A function that makes the target's subject again; None if the subject itself was given."""
    if isinstance(target, str):
        return lambda: named(target)
    if callable(target) and not isinstance(target, Subject):
        return lambda: subject(target)
    return None
