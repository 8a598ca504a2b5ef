"""Fingerprints of the backends of each environment, requested from one of its workers after the
run."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Sequence

from ....probes.fingerprint import cache
from .client import Reply, WorkerClient
from .environments import BackendGroup, RemoteBackend, WorkerEnvironment

PATIENCE_SECONDS = 120.0


def collect(
    client: WorkerClient, config_text: str, environments: Sequence[WorkerEnvironment]
) -> None:
    """Give each :class:`RemoteBackend` the fingerprint of its machine; none if no worker answers in
    time."""
    numbers, waiting = itertools.count(), {}
    for environment in environments:
        for group in environment.backend_groups:
            address = _capable_worker(environment, group)
            if address:
                token = f"fingerprint.{next(numbers)}"
                waiting[token] = environment
                client.fingerprint(
                    address, token, sorted(group.labels), config_text, group.backends
                )
    until = time.monotonic() + PATIENCE_SECONDS
    while waiting and time.monotonic() < until:
        message = client.next(1.0)
        if isinstance(message, Reply) and message.token in waiting:
            _take(waiting.pop(message.token), message)
    for token in waiting:
        client.forget(token)


def _capable_worker(environment: WorkerEnvironment, group: BackendGroup) -> str:
    """A worker of the environment with the resources that the backends need."""
    if environment.lost:
        return ""
    return next(
        (
            address
            for address, member in environment.workers.items()
            if group.labels <= member.labels
        ),
        "",
    )


def _take(environment: WorkerEnvironment, answer: Reply) -> None:
    try:
        received = json.loads(answer.text)["lines"]
        lines = {str(name): cache.usable(backend_lines) for name, backend_lines in received.items()}
    except (ValueError, KeyError, TypeError, AttributeError):  # the worker left or did not answer
        return
    for backend in environment.config.backends:
        if isinstance(backend, RemoteBackend) and backend.name in lines:
            backend.fingerprint = lines[backend.name]
