"""The text of a spec: ``kind:place+switch+switch=value``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import UsageError

_FILE = re.compile(
    r".+\.py:[^\W\d][\w.]*", re.DOTALL
)  # of C:\x\file.py:attribute, too: the last colon counts
_SUBPROCESS = re.compile(
    r"@|\+env:|\+isolated(?=\+|@|$)", re.IGNORECASE
)  # requests a process of its own
_IN_PROCESS = re.compile(r"\+inprocess$", re.IGNORECASE)  # requests the run's own
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Spec:
    """``cuda:1+tf32`` in parts: kind ``cuda``, place ``1``, switches ``{"tf32": ""}``."""

    text: str
    kind: str
    place: str = ""
    switches: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The spec as results show it: without blanks, switches in the given order."""
        switches = "".join(
            f"+{key}={value}" if value else f"+{key}" for key, value in self.switches.items()
        )
        return f"{self.kind}{':' + self.place if self.place else ''}{switches}"

    def index(self) -> int:
        """The place as a device number, 0 if none is given. Raises UsageError."""
        if not self.place:
            return 0
        if not (self.place.isascii() and self.place.isdecimal()) or len(self.place) > 3:
            raise UsageError(f"backend {self.text!r:.80}: {self.place!r:.80} is no device number")
        return int(self.place)

    def no_place(self) -> None:
        if self.place:
            raise UsageError(
                f"backend {self.text!r:.80}: {self.kind} takes no device number; "
                f"write {self.kind!r}"
            )

    def no_switches(self) -> None:
        if self.switches:
            raise UsageError(
                f"backend {self.text!r:.80}: {self.kind} has no switches, not "
                f"{next(iter(self.switches))!r} either"
            )


def is_users_file(text: str) -> bool:
    """Whether the spec is ``path/to/file.py:attribute``."""
    return _FILE.fullmatch(text) is not None


@dataclass(frozen=True)
class Apart:
    """A backend in its own process: the backend's spec, the interpreter (empty: this one), and its
    variables."""

    spec: str
    python: str = ""
    environment: dict[str, str] = field(default_factory=dict)


def without_inprocess(text: str) -> str:
    """The spec without a final ``+inprocess``, which is what a backend of one's own does anyway.

    Raises UsageError where another process is requested, too.
    """
    plain = _IN_PROCESS.sub("", text)
    if plain != text and (_SUBPROCESS.search(plain) or not plain.strip()):
        raise UsageError(
            f"backend {text!r}: +inprocess keeps a backend in the run's own process; leave out "
            f"either it or +isolated, @ and +env:"
        )
    return plain


def apart(text: str) -> Apart | None:
    """The parts of ``cpu+threads=1@PYTHON+env:NAME=VALUE+isolated``; None without a process of its
    own.

    Raises UsageError.
    """
    match = _SUBPROCESS.search(text)
    if match is None:
        return None
    spec, rest = text[: match.start()].strip(), text[match.start() :]
    if not spec:
        raise UsageError(f"backend {text!r:.80}: which one? Write cpu{rest}")
    python = ""
    if rest.startswith("@"):
        end = re.search(r"\+env:|\+isolated$", rest, re.IGNORECASE)
        python, rest = (rest[1 : end.start()], rest[end.start() :]) if end else (rest[1:], "")
        python = python.strip()
        if not python:
            raise UsageError(
                f"backend {text!r:.80}: expected the path of a Python interpreter after @"
            )
    variables: dict[str, str] = {}
    for part in re.split(r"\+(?=env:|isolated$)", rest, flags=re.IGNORECASE)[1:]:
        if part.lower() == "isolated":
            continue
        name, equals, value = part[4:].partition("=")
        if not _VARIABLE.fullmatch(name) or not equals:
            raise UsageError(
                f"backend {text!r:.80}: {part!r:.80} sets no variable; write +env:NAME=VALUE, and "
                f"switches before @ and +env:"
            )
        variables[name] = value
    return Apart(spec, python, variables)


def loads_nothing(text: str) -> bool:
    """Whether a spec uses only our own devices and switches: no file, module, interpreter, or
    variable that may load one.

    Only such a spec may be run unasked if a folder from elsewhere names it. Raises UsageError.
    """
    from ._numerics import numeric

    elsewhere = apart(text)
    if elsewhere is not None:
        return (
            not elsewhere.python
            and all(map(numeric, elsewhere.environment))
            and loads_nothing(elsewhere.spec)
        )
    return not is_users_file(text) and re.fullmatch(r"[0-9]*", parse(text).place) is not None


def parse(text: str) -> Spec:
    """The parts of a spec. Raises UsageError for an empty or unsupported one."""
    if text.endswith(".py"):
        raise UsageError(f"backend {text!r:.80}: which one of that file? Write {text}:ATTRIBUTE")
    where, *parts = text.split("+")
    kind, colon, place = where.partition(":")
    kind, place = kind.strip(), place.strip()
    if not kind or (colon and not place):
        raise UsageError(
            f"backend {text!r:.80}: expected a name such as cpu, numpy, cuda:1, directml or "
            f"file.py:attribute"
        )
    switches: dict[str, str] = {}
    for part in parts:
        key, _, value = part.partition("=")
        key = key.strip()
        if not key or key in switches:
            raise UsageError(
                f"backend {text!r:.80}: "
                f"{f'{key} is given twice' if key else 'a + without a switch behind it'}"
            )
        switches[key] = value.strip()
    return Spec(text, kind, place, switches)
