"""Group workers that compute alike into environments: which backends each can run, and its name.
One environment, one bundle."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ....backends._specs import apart, is_users_file, parse
from ....backends.base import Backend
from ....core.recipe import canonical
from ....errors import BundleError, Unsupported, UsageError
from ....operators.declare import Operator
from ....storage.bundle.header import new_id
from ...config import RunConfig
from ...events import ResumeState

# Tried if the user names no backends; a machine skips those that it lacks.
BY_DEFAULT = ("cpu", "cpu+onednn=off", "numpy", "cuda", "directml", "mps", "xpu")
_NO_LABEL = ("cpu", "numpy")
_NOT_DISTINGUISHING = (
    "host",
    "memory",
)  # in these, machines of one kind may differ
_UNUSABLE = re.compile(r"[^A-Za-z0-9._=-]+")
MAX_NAME = 80


@dataclass(frozen=True)
class Member:
    """A worker: its address, its number of threads, and its resources."""

    address: str
    threads: int = 1
    labels: frozenset[str] = frozenset()


class RemoteBackend(Backend):
    """A backend of other processes, as the coordinator knows it: by name and reported identity."""

    is_recorded = True

    def __init__(self, name: str, identity: Mapping[str, str]) -> None:
        self.name, self._identity = name, dict(identity)

    def environment(self) -> dict[str, str]:
        return dict(self._identity)

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Never called: the backend computes elsewhere."""
        raise Unsupported(f"{self.name} is on another machine")


@dataclass(frozen=True)
class BackendGroup:
    """Backends of an environment that are judged together, and the resources that a worker needs
    for them."""

    backends: tuple[str, ...]
    labels: frozenset[str]


@dataclass
class WorkerEnvironment:
    """Workers that compute alike. ``settings`` are the run's with this environment's backends;
    ``absent`` maps unusable backends to the reason."""

    key: str
    about: dict[str, Any]
    label: str
    called: str
    config: RunConfig
    absent: dict[str, str]
    workers: dict[str, Member] = field(default_factory=dict)
    backend_groups: tuple[BackendGroup, ...] = ()
    name: str = ""
    resume: ResumeState = field(default_factory=ResumeState)
    effort: float = 0.0
    searched: set[tuple[str, ...]] = field(default_factory=set)
    lost: str = ""  # why it sends nothing more


def label_for(spec: str, config: Mapping[str, str]) -> str:
    """The resource that a worker must have for a backend: as chosen, else its kind (``cuda``,
    ``directml`` …), none for the CPU."""
    if spec in config:
        return config[spec]
    elsewhere = apart(spec)
    inner = elsewhere.spec if elsewhere is not None else spec
    if is_users_file(inner):
        return ""
    parsed = parse(inner)
    return (
        ""
        if parsed.kind in _NO_LABEL or (parsed.place and not parsed.place.isdecimal())
        else parsed.kind
    )


def labels_chosen(texts: Iterable[str]) -> dict[str, str]:
    """Parse the user's ``SPEC=LABEL``, split at the last ``=`` because specs may contain some.
    Raises UsageError."""
    labels = {}
    for text in texts:
        spec, separator, label = text.rpartition("=")
        if not separator or not spec.strip():
            raise UsageError(
                f"--resource {text!r} is not SPEC=LABEL; write for instance --resource "
                f"mine.py:Backend=fpga"
            )
        labels[spec.strip()] = "" if label.strip() == "none" else label.strip()
    return labels


def environment_of(
    reply: Any, member: Member, config: RunConfig, specs: Mapping[str, str], asked: bool
) -> WorkerEnvironment:
    """The environment of one worker from its description. Raises BundleError if the description is
    invalid."""
    try:
        about = {
            str(key): value
            for key, value in reply["machine"].items()
            if isinstance(value, (str, int, float))
        }
        identity_of = {str(name): item for name, item in reply["backends"].items()}
        label, called = str(reply["label"]), str(reply["called"])
        reasons = {
            name: None if item["reason"] is None else str(item["reason"])
            for name, item in identity_of.items()
        }
        identities = {
            name: {str(k): str(v) for k, v in item["identity"].items()}
            for name, item in identity_of.items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise BundleError(
            f"worker {member.address} does not say what it is: {type(error).__name__} "
            f"{str(error)[:100]}"
        ) from None
    absent = {
        name: reasons.get(name, "the worker does not know it") or ""
        for name in specs
        if reasons.get(name, "") is not None
    }
    usable = [name for name in specs if asked or name not in absent]
    backends = tuple(RemoteBackend(name, identities.get(name, {})) for name in usable)
    settings = replace(config, backends=backends, specs={name: specs[name] for name in usable})
    alike = {key: value for key, value in about.items() if key not in _NOT_DISTINGUISHING}
    key = canonical(
        [alike, label, {name: identities.get(name) for name in usable if name not in absent}]
    )
    unavailable = {name: why for name, why in absent.items() if name in usable}
    return WorkerEnvironment(
        hashlib.sha256(key.encode()).hexdigest(),
        about,
        label,
        called,
        settings,
        unavailable,
        {member.address: member},
    )


def arrange(environments: Sequence[WorkerEnvironment], labels: Mapping[str, str]) -> None:
    """Decide for each environment which backends are judged together, and name it.

    A backend that some environment can run is left out of those that cannot: it is not missing.
    Changes ``environments``.
    """
    for environment in environments:
        _exclude_without_workers(environment, labels)
    everywhere = [set(_present(environment)) for environment in environments]
    for environment in environments:
        elsewhere = set().union(*everywhere) - set(_present(environment))
        remaining = tuple(b for b in environment.config.backends if b.name not in elsewhere)
        specs = {b.name: environment.config.specs[b.name] for b in remaining}
        identity = (
            f"{environment.config.identity or new_id()}-{environment.key[:8]}"  # of its bundle
        )
        environment.config = replace(
            environment.config, backends=remaining, specs=specs, identity=identity
        )
        environment.absent = {
            name: why for name, why in environment.absent.items() if name not in elsewhere
        }
        environment.backend_groups = _backend_groups(environment, labels)
    _name(environments)


def _present(environment: WorkerEnvironment) -> list[str]:
    return [b.name for b in environment.config.backends if b.name not in environment.absent]


def _exclude_without_workers(environment: WorkerEnvironment, labels: Mapping[str, str]) -> None:
    """Exclude backends whose resource no worker has, even if their machine has them."""
    available = frozenset[str]().union(*(member.labels for member in environment.workers.values()))
    for name in _present(environment):
        label = label_for(environment.config.specs[name], labels)
        if label and label not in available:
            environment.absent[name] = (
                f'no worker has the resource {label}: start one with --resources "{label}=1"'
            )


def _backend_groups(
    environment: WorkerEnvironment, labels: Mapping[str, str]
) -> tuple[BackendGroup, ...]:
    """Group backends that need no resource with those whose resource every worker has, the others
    by their resource."""
    common = frozenset.intersection(*(member.labels for member in environment.workers.values()))
    by_label: dict[str, list[str]] = {}
    needed: set[str] = set()
    for name in _present(environment):
        label = label_for(environment.config.specs[name], labels)
        needed |= {label} & common
        by_label.setdefault("" if label in common else label, []).append(name)
    return tuple(
        BackendGroup(tuple(names), frozenset({label} if label else needed))
        for label, names in by_label.items()
    )


def _name(environments: Sequence[WorkerEnvironment]) -> None:
    """A folder name for each environment: its label or description, with digits of its hash where
    two would collide."""
    for environment in environments:
        text = environment.label or environment.called
        environment.name = _UNUSABLE.sub("_", text).strip("._-")[:MAX_NAME] or "unknown"
    names = [environment.name.lower() for environment in environments]
    for environment in environments:
        if names.count(environment.name.lower()) > 1:
            environment.name = f"{environment.name}-{environment.key[:6]}"
