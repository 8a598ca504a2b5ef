"""How the backends of each environment compute, asked of one of its workers when the run is
over."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ....probes.fingerprint import cache
from .crew import Answer, Crew
from .environments import Environment, Part, Remote

PATIENCE_SECONDS = 120.0


def collect(crew: Crew, orders: Mapping[str, Any], environments: Sequence[Environment]) -> None:
    """Give each :class:`Remote` what its machine knows of it. Nothing where no worker answers in
    time."""
    numbers, waiting = itertools.count(), {}
    for environment in environments:
        for part in environment.parts:
            address = _able(environment, part)
            if address:
                token = f"fingerprint.{next(numbers)}"
                waiting[token] = environment
                crew.fingerprint(
                    address, token, sorted(part.labels), json.dumps(orders), part.backends
                )
    until = time.monotonic() + PATIENCE_SECONDS
    while waiting and time.monotonic() < until:
        message = crew.next(1.0)
        if isinstance(message, Answer) and message.token in waiting:
            _take(waiting.pop(message.token), message)
    for token in waiting:
        crew.forget(token)


def _able(environment: Environment, part: Part) -> str:
    """A worker of the environment that has what the backends need."""
    if environment.lost:
        return ""
    return next(
        (
            address
            for address, member in environment.workers.items()
            if part.labels <= member.labels
        ),
        "",
    )


def _take(environment: Environment, answer: Answer) -> None:
    try:
        told = json.loads(answer.text)["lines"]
        lines = {str(name): cache.usable(found) for name, found in told.items()}
    except (ValueError, KeyError, TypeError, AttributeError):  # it went away, or could not be asked
        return
    for backend in environment.settings.backends:
        if isinstance(backend, Remote) and backend.name in lines:
            backend.probed = lines[backend.name]
