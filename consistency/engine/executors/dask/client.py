"""The workers of a Dask cluster: membership, tasks, and replies."""

from __future__ import annotations

import contextlib
import inspect
import logging
import queue
import uuid
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ....errors import UsageError
from ..workers.client import EventBatch, LostSchedulerError, Reply
from ..workers.environments import Member
from . import tasks

CONNECT_SECONDS = 20.0
GATHER_SECONDS = 30.0
INSTALL = 'pip install "consistency[cluster]"'


class DaskClient:
    """A Dask cluster at ``address``: ``tcp://host:8786``, or the file that its scheduler wrote.

    Raises UsageError if Dask is not installed or the scheduler does not answer.
    """

    def __init__(self, address: str) -> None:
        distributed = _import_distributed()
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        self._address = address
        self._messages: queue.Queue[Any] = queue.Queue()
        self._futures: dict[str, Any] = {}
        self._topic = f"consistency-{uuid.uuid4().hex}"
        where: dict[str, Any] = (
            {"scheduler_file": address} if Path(address).is_file() else {"address": address}
        )
        try:
            with _suppress_warnings():
                self._client = distributed.Client(
                    **where, timeout=CONNECT_SECONDS, set_as_default=False, name="consistency"
                )
                self._client.subscribe_topic(self._topic, self._messages.put)
        except (OSError, TimeoutError, ValueError, KeyError, ImportError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
            raise UsageError(
                f"no Dask scheduler answers at {address}: {reason}; start one with: dask scheduler"
            ) from None
        accepts_limit = "n_workers" in inspect.signature(self._client.scheduler_info).parameters
        self._every: dict[str, Any] = {"n_workers": -1} if accepts_limit else {}

    def members(self) -> dict[str, Member]:
        """The workers that are connected now. Raises LostSchedulerError."""
        try:
            workers = self._client.scheduler_info(**self._every)["workers"]
        except (
            OSError,
            KeyError,
            RuntimeError,
            TimeoutError,
        ):  # a client without a scheduler has no list of workers
            raise LostSchedulerError(
                f"the Dask scheduler at {self._address} went away; what was judged is kept, and "
                "--resume --out FOLDER completes it"
            ) from None
        return {
            address: Member(
                address,
                int(about["nthreads"]),
                frozenset(label for label, n in about["resources"].items() if n >= 1),
            )
            for address, about in workers.items()
        }

    def describe(self, address: str, token: str, config_json: str) -> None:
        self._submit(address, token, (), tasks.describe, config_json)

    def judge(
        self,
        address: str,
        token: str,
        labels: Iterable[str],
        config_json: str,
        text: str,
        blobs: list[bytes],
    ) -> None:
        self._submit(
            address, token, labels, tasks.judge, config_json, text, blobs, self._topic, token
        )

    def fingerprint(
        self,
        address: str,
        token: str,
        labels: Iterable[str],
        config_json: str,
        names: Sequence[str],
    ) -> None:
        self._submit(address, token, labels, tasks.fingerprint, config_json, list(names))

    def _submit(
        self, address: str, token: str, labels: Iterable[str], task: Any, *args: Any
    ) -> None:
        with _suppress_warnings():  # cases may be large
            self._futures[token] = future = self._client.submit(
                task, *args, workers=[address], allow_other_workers=False, pure=False, retries=0,
                resources=dict.fromkeys(labels, 1) or None,
                key=f"consistency-{token}-{uuid.uuid4().hex[:8]}",
            )  # fmt: skip
        future.add_done_callback(lambda _: self._messages.put(token))

    def forget(self, token: str) -> None:
        """Cancel a task."""
        future = self._futures.pop(token, None)
        if future is not None:
            with contextlib.suppress(Exception):
                future.cancel()

    def next(self, seconds: float) -> EventBatch | Reply | None:
        """The next message, or None if none arrives in time."""
        try:
            message = (
                self._messages.get(timeout=seconds)
                if seconds > 0.0
                else self._messages.get_nowait()
            )
        except queue.Empty:
            return None
        if isinstance(message, str):
            return self._answer(message)
        _, data = message
        return EventBatch(
            str(data["token"]), int(data["n"]), tuple(data["events"]), str(data["from"])
        )

    def _answer(self, token: str) -> Reply | None:
        future = self._futures.pop(token, None)
        if future is None or future.status == "cancelled":
            return None
        try:
            return Reply(token, text=str(future.result(timeout=GATHER_SECONDS)))
        except Exception as error:
            if type(error).__name__ in (
                "KilledWorker",
                "CancelledError",
                "FutureCancelledError",
                "TimeoutError",
            ):
                return Reply(token, lost="the worker was lost")
            return Reply(token, failed=_root_cause(error))

    def close(self) -> None:
        for token in list(self._futures):
            self.forget(token)
        with contextlib.suppress(Exception), _suppress_warnings():
            self._client.close()


def _root_cause(error: BaseException) -> str:
    """The root cause of an error in one line; Dask wraps errors of unpacking a task."""
    while error.__cause__ is not None:
        error = error.__cause__
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


def _import_distributed() -> Any:
    try:
        with _suppress_warnings():
            import distributed
    except ImportError as error:
        raise UsageError(
            f"--cluster needs Dask distributed ({str(error)[:80]}); install it with: {INSTALL}"
        ) from None
    return distributed


@contextlib.contextmanager
def _suppress_warnings() -> Any:
    """Hide Dask's warnings, which do not concern the user of this program."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
