"""The workers of a run: each describes itself and joins the environment of those that compute
alike."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from ....errors import BundleError, ConsistencyError
from ...config import RunConfig
from ...unit_runner import minimization_seconds
from .client import Reply, WorkerClient
from .environments import Member, WorkerEnvironment, arrange, environment_of
from .serialization import config_to_json

JOIN_SECONDS = 60.0  # for workers to connect, at the start
DESCRIBE_SECONDS = 240.0  # loading torch from a cold disk is slow
LOOK_SECONDS = 1.0  # between updates of the members


class NoWorkersError(ConsistencyError):
    """No worker is available."""


class Membership:
    """The workers of one run, by environment. ``backends_named``: by the user. ``labels``:
    resources by backend, instead of the default ones. ``wait_for``: the number of workers to wait
    for. ``alike``: all workers are known to form one environment, so that a run begins with the
    first that has described itself, and the others join. ``expectations`` are the files of
    ``config``. ``notify`` receives messages for the user. ``brief``: who handles the events only
    counts results that pass, and stores their rows
    (:func:`~.serialization.pack_event`)."""

    def __init__(
        self, config: RunConfig, client: WorkerClient, *, backends_named: bool = True,
        labels: Mapping[str,
        str] | None = None, wait_for: int = 1, alike: bool = False,
        expectations: Sequence[str] = (), notify: Callable[[str], None] = lambda text: None,
        brief: bool = False,
    ) -> None:  # fmt: skip
        self.config, self.client, self.backends_named, self.labels, self.wait_for = (
            config,
            client,
            backends_named,
            labels or {},
            max(wait_for, 1),
        )
        self.notify, self.alike = notify, alike
        self.specs = {b.name: config.specs.get(b.name, b.name) for b in config.backends}
        self.config_json = config_to_json(config, self.specs.values(), expectations, brief)
        self.environments: list[WorkerEnvironment] = []
        self.joining: dict[str, Member] = {}  # whose description is requested
        self.refused: set[str] = set()  # workers that cannot take part
        self._last = ""  # the reason of the last one

    @cached_property
    def config_text(self) -> str:
        """The configuration as every task gets it."""
        return json.dumps(self.config_json)

    def gather(self) -> list[WorkerEnvironment]:
        """Wait for workers, request their descriptions, and group them. Raises NoWorkersError."""
        until = time.monotonic() + JOIN_SECONDS
        while len(members := self.client.members()) < self.wait_for:
            if time.monotonic() > until:
                many = (
                    f"{len(members)} of {self.wait_for} workers are" if members else "no worker is"
                )
                raise NoWorkersError(
                    f"{many} connected to the scheduler after {JOIN_SECONDS:.0f} s; start one "
                    f"with: dask worker …"
                )
            time.sleep(0.1)
        for member in members.values():
            self.request_description(member)
        until = time.monotonic() + DESCRIBE_SECONDS
        by_key: dict[str, WorkerEnvironment] = {}
        while self.joining and not (self.alike and by_key) and time.monotonic() < until:
            message = self.client.next(LOOK_SECONDS)
            if isinstance(message, Reply):
                environment = self._environment_from(message)
                if environment is not None:
                    existing = by_key.setdefault(environment.key, environment)
                    existing.workers.update(environment.workers)
                    if existing.about.get("host") != environment.about.get("host"):
                        existing.about.pop("host", None)  # there are several
            present = self.client.members()
            for address in [a for a in self.joining if a not in present]:
                del self.joining[address]
        if not by_key:
            raise NoWorkersError(
                "no worker can take part: " + (self._last or "they went away, or did not answer")
            )
        self.environments = sorted(by_key.values(), key=lambda e: e.key)
        arrange(self.environments, self.labels)
        for environment in self.environments:
            environment.effort = minimization_seconds(self.config)
        return self.environments

    def request_description(self, member: Member) -> None:
        self.joining[member.address] = member
        self.client.describe(member.address, f"describe.{member.address}", self.config_text)

    def _environment_from(self, answer: Reply) -> WorkerEnvironment | None:
        """The environment of a worker that answered; None if it cannot take part."""
        member = self.joining.pop(answer.token.removeprefix("describe."), None)
        if member is None or answer.lost:
            return None
        try:
            if answer.failed:
                hint = (
                    "; install consistency there" if "ModuleNotFoundError" in answer.failed else ""
                )
                raise BundleError(f"worker {member.address}: {answer.failed}{hint}")
            reply = json.loads(answer.text)
            if reply.get("kind") != "described":
                raise BundleError(f"worker {member.address}: {str(reply.get('text'))[:300]}")
            return environment_of(reply, member, self.config, self.specs, self.backends_named)
        except (BundleError, ValueError, AttributeError) as error:
            self.refuse(member.address, str(error))
            return None

    def refuse(self, address: str, why: str) -> None:
        self.refused.add(address)
        self._last = why
        self.notify(f"not used: {why}")

    def joined(self, answer: Reply) -> None:
        """Add a worker that joins, or returns, during the run to the environment of its like."""
        environment = self._environment_from(answer)
        if environment is None:
            return
        existing = next((e for e in self.environments if e.key == environment.key), None)
        (member,) = environment.workers.values()
        if existing is None or existing.lost:
            self.refuse(
                member.address,
                f"worker {member.address} came after the run had begun, and no other is like it",
            )
        else:
            existing.workers[member.address] = member
