"""A client without processes: workers that judge in this process, which can be lost, and cases that
end what judges them."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from consistency.backends.subprocess.process import LostError
from consistency.engine.executors.workers.client import EventBatch, Reply
from consistency.engine.executors.workers.crashing_cases import (
    RestartableProcess,
    judge_with_restarts,
)
from consistency.engine.executors.workers.environments import Member
from consistency.engine.executors.workers.judging_process import JudgingProcess
from consistency.engine.executors.workers.serialization import Drawn, unpack_message


class DeathError(BaseException):
    """Not to be caught by what judges."""


class Process:
    """What a worker's process does, here. ``killers``: (case, backend) that end it; ``flaky``:
    cases that do so once."""

    def __init__(
        self, killers: Iterable[tuple[str, str]] = (), flaky: set[str] | None = None
    ) -> None:
        self.killers, self.flaky = set(killers), flaky if flaky is not None else set()
        self.replies: deque[Any] = deque()
        self._accept: Callable[[dict[str, Any], Sequence[bytes]], None] = lambda frame, rest: None
        self._judging = JudgingProcess(lambda frame, rest: self._accept(frame, rest))

    def send(self, header: dict[str, Any], blobs: Sequence[bytes] = ()) -> None:
        waiting = [case for case in header.get("ids", ()) if header["kind"] == "judge"] or [
            header.get("case", "")
        ]
        crashed = {(case, backend) for case, backend, *_ in header.get("crashed", ())}

        def reply(frame: dict[str, Any], rest: Sequence[bytes]) -> None:
            waiting[:] = frame.get("ids", waiting)  # drawn there
            for case in set(frame.get("judged", ())) & set(waiting):
                waiting.remove(case)
            self.replies.append(({**frame}, list(rest)))
            self._die(waiting, header, crashed)

        try:
            self._die(waiting, header, crashed)
            self._accept = reply
            self._judging.answer(json.loads(json.dumps(header)), blobs)
        except DeathError:
            self.replies.append(LostError("crash", "the process ended (SIGSEGV)"))

    def _die(
        self, waiting: list[str], header: dict[str, Any], crashed: set[tuple[str, str]]
    ) -> None:
        """At the case that is next."""
        case = waiting[0] if waiting else ""
        if case in self.flaky and header["kind"] == "judge":
            self.flaky.discard(case)
            raise DeathError
        if any(
            (case, name) in self.killers and (case, name) not in crashed
            for name in header.get("backends", ())
        ):
            raise DeathError

    def reply(self, until: float, meanwhile: Callable[[], None] | None = None) -> Any:
        found = self.replies.popleft()
        if isinstance(found, Exception):
            raise found
        return found

    def kill(self) -> None:
        self.replies.clear()


class FakeClient:
    """Workers by name, each with its labels. ``lose_at``: the number of the group over which a
    worker is lost, half-way.

    ``deadly``: cases that take the worker itself away. ``torch``: what a worker says of itself in
    place of the truth.
    """

    def __init__(
        self, workers: dict[str, frozenset[str]], *, lose_at: Sequence[int] = (),
        deadly: Iterable[str] = (),
        process: Callable[[], Any] = Process, torch: dict[str, str] | None = None,
        comes_back: bool = True,
    ) -> None:  # fmt: skip
        self.workers = {name: Member(name, 1, labels) for name, labels in workers.items()}
        self.messages: deque[Any] = deque()
        self.lose_at, self.deadly, self.process, self.torch = (
            set(lose_at), set(deadly), process, torch or {},
        )  # fmt: skip
        self.comes_back, self.groups, self.reborn = comes_back, 0, 0
        self.lost: list[str] = []
        self.sent: Counter[str] = Counter()
        self.serialization: list[tuple[str, dict[str, Any]]] = []

    def members(self) -> dict[str, Member]:
        return dict(self.workers)

    def describe(self, address: str, token: str, config_json: str) -> None:
        reply = json.loads(RestartableProcess(self.process).describe(config_json))
        if address in self.torch:
            reply["machine"]["torch"] = self.torch[address]
            reply["called"] = f"torch{self.torch[address]}"
        self.messages.append(Reply(token, text=json.dumps(reply)))

    def judge(
        self,
        address: str,
        token: str,
        labels: Iterable[str],
        config_json: str,
        text: str,
        blobs: list[bytes],
    ) -> None:
        self.groups += 1
        self.sent[address] += 1
        header = json.loads(text)
        self.serialization.append((address, header))
        mails: list[EventBatch] = []
        process = RestartableProcess(self.process)
        process.configure(config_json)
        end = judge_with_restarts(
            header,
            blobs,
            process,
            lambda n, events: mails.append(EventBatch(token, n, tuple(events), address)),
            list,
        )
        events = [event for mail in mails for event in mail.events]
        cases = {*header["ids"], *_drawn(events)}
        if self.groups in self.lose_at or self.deadly & cases:
            self._lose(address)
            self.messages.append(EventBatch(token, 0, tuple(events[: len(events) // 3]), address))
            return
        self.messages.extend(mails)
        self.messages.append(Reply(token, text=json.dumps(end)))

    def fingerprint(
        self,
        address: str,
        token: str,
        labels: Iterable[str],
        config_json: str,
        names: Sequence[str],
    ) -> None:
        answer = RestartableProcess(self.process).fingerprint(config_json, names)
        self.messages.append(Reply(token, text=answer))

    def _lose(self, address: str) -> None:
        member = self.workers.pop(address)
        self.lost.append(address)
        if self.comes_back:
            self.reborn += 1
            name = f"{address.partition('~')[0]}~{self.reborn}"
            self.workers[name] = Member(name, 1, member.labels)
            if address in self.torch:
                self.torch[name] = self.torch[address]

    def forget(self, token: str) -> None:
        pass

    def next(self, seconds: float) -> EventBatch | Reply | None:
        if self.messages:
            return self.messages.popleft()
        time.sleep(min(seconds, 0.01))
        return None

    def close(self) -> None:
        self.messages.clear()


def _drawn(events: Sequence[bytes]) -> list[str]:
    """The ids of the cases that a process drew and told first."""
    if not events or b'"drawn"' not in events[0][:40]:
        return []
    message = unpack_message(events[0], {}, "")
    assert isinstance(message, Drawn)
    return [case.id for case in message.cases]
