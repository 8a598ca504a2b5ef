"""The coordinator's interface to workers: tasks, batches of events, and replies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ....errors import ConsistencyError
from .environments import Member


class LostSchedulerError(ConsistencyError):
    """The scheduler that connects the workers is unreachable."""


@dataclass(frozen=True)
class EventBatch:
    """Events of a work unit, as JSON text; ``number`` counts the messages of one attempt
    (``token``) from 0."""

    token: str
    number: int
    events: tuple[bytes, ...]
    sender: str


@dataclass(frozen=True)
class Reply:
    """The return value of a task; ``lost``: why there is none because the worker is gone;
    ``failed``: what the task raised."""

    token: str
    text: str = ""
    lost: str = ""
    failed: str = ""


class WorkerClient(Protocol):
    """Access to the workers. ``labels`` are resources that a worker must have free for a task. A
    run has one ``config_json``, and every task of it names it."""

    def members(self) -> dict[str, Member]: ...
    def describe(self, address: str, token: str, config_json: str) -> None: ...
    def judge(
        self,
        address: str,
        token: str,
        labels: Iterable[str],
        config_json: str,
        text: str,
        blobs: list[bytes],
    ) -> None: ...
    def fingerprint(
        self,
        address: str,
        token: str,
        labels: Iterable[str],
        config_json: str,
        names: Sequence[str],
    ) -> None: ...
    def forget(self, token: str) -> None: ...
    def next(self, seconds: float) -> EventBatch | Reply | None: ...
    def close(self) -> None: ...
