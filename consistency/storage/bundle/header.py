"""bundle.json and environment.json of a run; older formats are migrated when read.

Fields since format 2: ``id`` of the run, unique; ``label`` of the environment in the matrix;
``machine``, which all backends share; ``corpus``, the replayed cases (``name``, ``digest``,
``cases``, ``replayed``), or null.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from ...core.reading import read_object
from ...core.schema import Count, Duration, Integer, Name, Scalar, Text, check
from ...core.text import shown
from ...core.version import __version__
from ...errors import BundleError
from ...probes.fingerprint.summary import FORMAT as FINGERPRINT_FORMAT
from ...probes.fingerprint.summary import lines_of, stored_in
from ..header import read_header_file
from .machine import label_of, tidy

FILE = "bundle.json"
FORMAT = 2
MAX_KEYS = 200  # of ``machine``
_EPOCH = "1970-01-01T00:00:00+00:00"  # for bundles without a time


class CorpusEntry(TypedDict):
    """The corpus of a run; ``groups``: how many operators × dtypes it lacks."""

    digest: Text
    name: NotRequired[Text]
    cases: NotRequired[Count]
    replayed: NotRequired[Count]
    groups: NotRequired[Count]


class RunSettings(TypedDict, total=False):
    """What a run was asked to do. ``examples`` are cases per operator × dtype, ``time_budget`` is
    in seconds; ``specs`` are the user's words for backends, by name; ``exhaustive``: all
    exhaustive cases, those of 16 bits (None), or none; ``memory``: the bytes that a large case may
    take; ``long``: whether there are moderately large ones in float32; ``shipped``: whether the
    package's own come first; ``time_limit``: the seconds after which it ends, best cases first;
    ``fills``: with how many sets of numbers each of these cases is judged."""

    operators: list[Name]
    backends: list[Name]
    dtypes: list[Name] | None
    directions: list[Name]
    examples: Count
    seed: Integer
    time_budget: Duration | None
    shrink: bool
    tolerances: Text
    reference: Text
    source: Text
    repeat: Count
    specs: dict[Name, Text]
    exhaustive: bool | None
    memory: Count
    long: bool
    shipped: bool
    time_limit: Duration | None
    fills: Count


class BundleHeader(TypedDict):
    """bundle.json. ``seconds``, ``complete`` and ``size``, the bytes of results.jsonl, are written
    when the run ends."""

    format: int
    id: Annotated[str, Field(pattern="^[A-Za-z0-9_-]{8,80}$")]
    label: Text
    created: Text
    machine: Annotated[dict[Name, Scalar], Field(max_length=MAX_KEYS)]
    corpus: CorpusEntry | None
    settings: RunSettings
    consistency: NotRequired[Text]
    unavailable: NotRequired[dict[Name, Text]]
    seconds: NotRequired[Duration]
    complete: NotRequired[bool]
    size: NotRequired[Count]


# environment.json: of each backend, what it ran on, and its fingerprint in several answers.
Environments = dict[Name, dict[Name, Scalar | dict[Name, Any]]]


def new_id(now: datetime.datetime | None = None) -> str:
    """A unique id for a run; ids sort by time."""
    return f"{now or datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(6)}"


def new_header(
    identity: str, settings: RunSettings, *, machine: Mapping[str, Any], label: str,
    corpus: CorpusEntry | None, unavailable: Mapping[str, str],
) -> BundleHeader:  # fmt: skip
    """The content of bundle.json during a run."""
    return {
        "format": FORMAT, "id": identity, "label": label, "consistency": __version__,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": dict(machine), "corpus": corpus, "settings": settings,
        "unavailable": dict(unavailable),
    }  # fmt: skip


def read_header(folder: Path) -> dict[str, Any]:
    """Read bundle.json and migrate it to the newest format. Raises BundleError."""
    header = read_header_file(folder, FILE, "bundle", FORMAT)
    for step in _MIGRATIONS[header["format"] - 1 :]:
        header = step(header, folder)
    return _checked(folder / FILE, header)


def cut_off(folder: Path, header: Mapping[str, Any]) -> str:
    """How much of results.jsonl is missing in a bundle whose run ended, in words; empty if
    nothing is."""
    size = header.get("size")
    if size is None:
        return ""
    try:
        here = (folder / "results.jsonl").stat().st_size
    except FileNotFoundError:  # a packed one would not be read to its end if it were cut off
        packed = (folder / "results.jsonl.gz").exists()
        return "" if packed else "results.jsonl is missing"
    if here >= size:
        return ""
    return f"results.jsonl was cut off: it has {here:,} of {size:,} bytes"


def _identify(header: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Format 1 → 2. The id is a hash of the content, so that copies have the same one."""
    environment = stored_environment(folder)
    content = {key: value for key, value in header.items() if key not in ("seconds", "complete")}
    text = json.dumps([content, environment], sort_keys=True, default=str)
    environment_of_first: Mapping[str, Any] = next(
        (keys for keys in environment.values() if keys.get("torch")), {}
    )
    about = {
        "cpu": str(environment_of_first.get("processor", "")),
        "numpy": str(environment_of_first.get("numpy", "")),
    }
    capable = about["cpu"].rpartition(" ")[2]
    capability = {
        "capability": capable if re.fullmatch(r"AVX\w*|NEON|SVE\w*|DEFAULT|VSX", capable) else ""
    }
    label = label_of(
        capability | {"host": "?"}, str(environment_of_first.get("torch", ""))
    ).removesuffix("-?")
    return header | {
        "format": 2, "id": f"format1-{hashlib.sha256(text.encode()).hexdigest()[:24]}",
        "label": label,
        "created": header.get("created", _EPOCH), "machine": {k: v for k,
        v in (about | capability).items() if v}, "corpus": None,
    }  # fmt: skip


# From format 1 to 2, from 2 to 3 …: each takes the old header and the bundle's folder.
_MIGRATIONS: tuple[Callable[[dict[str, Any], Path], dict[str, Any]], ...] = (_identify,)


def _checked(path: Path, header: dict[str, Any]) -> dict[str, Any]:
    """The header, checked, with normalized label and time."""
    check(header, BundleHeader, path)
    try:
        created = datetime.datetime.fromisoformat(header["created"])
        created = (created if created.tzinfo else created.replace(tzinfo=datetime.UTC)).astimezone(
            datetime.UTC
        )
    except (ValueError, OverflowError):
        raise BundleError(
            f"{path}  created is {shown(header['created'])}; expected is a time as ISO 8601"
        ) from None
    return header | {
        "label": tidy(header["label"]) or "unknown",
        "created": created.isoformat(timespec="seconds"),
    }


def read_environment(folder: Path) -> dict[str, dict[str, Any]]:
    """The environment of each backend by name, with its fingerprint as lines. Raises
    BundleError."""
    environment = stored_environment(folder)
    for about in environment.values():
        stored = stored_in(about)
        if stored.get("format") == FINGERPRINT_FORMAT:
            about["fingerprint"] = lines_of(stored)
    return environment


def stored_environment(folder: Path) -> dict[str, dict[str, Any]]:
    """environment.json of a bundle, unchanged. Raises BundleError."""
    path = folder / "environment.json"
    try:
        environment = read_object(path, "what backends ran on")
    except FileNotFoundError:
        return {}
    check(environment, Environments, path)
    return environment
