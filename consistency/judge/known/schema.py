"""Files of expectations: schema and reading."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, field_validator
from pydantic.json_schema import WithJsonSchema
from torch import __version__ as torch_version

from ... import operators
from ...core.reading import read_bytes
from ...errors import BundleError, ConfigurationError, did_you_mean
from ..file_vocabulary import (
    UNSAID,
    DtypeGlob,
    Failing,
    FileModel,
    Ratio,
    Text,
    Versions,
    in_range,
    mistake,
    without_clutter,
)
from ..located_yaml import Located
from .argument_names import names_of
from .case_facts import INPUTS
from .dimensions import dimension_names
from .entries import Expectation
from .predicate import MAX_LENGTH, PredicateError, parse

SYNONYMS = {
    "verdict": "verdicts",
    "condition": "when",
    "predicate": "when",
    "if": "when",
    "issue": "ticket",
    "until": "expires",
}


def _listed(said: Any) -> list[Any]:
    if not isinstance(said, (str, list)):
        raise mistake("wants a name, or a list of names")
    return [said] if isinstance(said, str) else said


Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
MOST_NAMES = 256  # in a list of operators
_NAME_SCHEMA = {"type": "string", "minLength": 1}
# A name or glob, or a list of them: the entry is one of its own for each.
Names = Annotated[
    list[Text],
    Field(min_length=1, max_length=MOST_NAMES),
    BeforeValidator(_listed),
    WithJsonSchema(
        {
            "anyOf": [
                _NAME_SCHEMA,
                {"type": "array", "items": _NAME_SCHEMA, "minItems": 1, "maxItems": MOST_NAMES},
            ]
        }
    ),
]


def _check_predicate(text: str) -> str:
    try:
        parse(text)
    except PredicateError as error:
        raise mistake(str(error)) from None
    return text


class ExpectationEntry(FileModel):
    """A known divergence: results that match become the verdict `known`."""

    operator: Names = Field(description="name or glob, or a list of them")
    dtype: DtypeGlob = "*"
    direction: Literal["*", "forward", "backward"] = "*"
    torch: Versions = Field(
        default="", description="range of torch versions such as '>=2.13,<2.15'"
    )
    reference_torch: Versions = Field(
        default="", description="range of versions of the torch that computes the reference"
    )
    when: Annotated[Text, AfterValidator(_check_predicate)] | None = Field(
        default=UNSAID, max_length=4 * MAX_LENGTH,
        description=("condition on the case, such as 'layout(arg0) != contiguous and K > 256' "
        "(docs/expectations.md)"),
    )  # fmt: skip
    backend: Text = Field(default="*", description="name or glob")
    device: Names = Field(
        default_factory=lambda: ["*"], description="glob on the device's name, or a list of them"
    )
    instructions: Text = Field(
        default="*",
        description="glob on the instruction set that MKL takes, and AMX where oneDNN has it, such "
        "as 'AVX-512*' or '*AMX'",
    )
    driver: Versions = Field(
        default="", description="range of driver versions such as '>=31.0.15,<32'"
    )
    verdicts: list[Failing] = Field(min_length=1, description="the verdicts that are expected")
    max_rho: Ratio | None = Field(
        default=UNSAID, description="most × budget; beyond it the divergence is another one"
    )
    as_cpu: bool = Field(
        default=False,
        description="only where the result is that of torch's CPU in the same dtype",
    )
    rate: Share | None = Field(
        default=UNSAID,
        description="share of the results covered that fail; with flaky: of the runs",
    )
    flaky: bool = Field(default=False, description="the same case fails sometimes only")
    reason: Text
    ticket: str = Field(default="", description="address of the issue")
    since: date | None = Field(default=UNSAID, description="first day it holds")
    expires: date | None = Field(default=UNSAID, description="last day it holds")

    @field_validator("when")
    @classmethod
    def _known_names(cls, when: str | None, info: ValidationInfo) -> str | None:
        """Names must belong to the operators of the entry, as far as these are known; of an entry
        for other versions of torch than this one they may be arguments that it does not have."""
        used = parse(when).names if when is not None else frozenset()
        used = frozenset(
            name
            for name in used - {INPUTS}
            if not (name.startswith("arg") and name[3:].isdecimal())
        )
        patterns = info.data.get("operator")
        elsewhere = not in_range(torch_version, info.data.get("torch", ""))
        if not used or patterns is None or elsewhere:
            return when
        left, matched = used, False  # most are names of the first operator's arguments
        for operator in itertools.chain.from_iterable(map(_declared_names, patterns)):
            left, matched = left - names_of(operator), True
            left = left - frozenset(dimension_names(operator)) if left else left
            if not left:
                return when
        for name in sorted(left) if matched else ():
            known = {
                name
                for operator in itertools.chain.from_iterable(map(_declared_names, patterns))
                for name in (*names_of(operator), *dimension_names(operator))
            }
            known_hint = f"; known: {', '.join(sorted(known)[:12])}" if known else ""
            raise mistake(
                f"has {name!r:.40}, which is no argument or dimension of "
                f"{', '.join(patterns)[:80]}{did_you_mean(name, known) or known_hint}"
            )
        return when

    @field_validator("expires")
    @classmethod
    def _ordered(cls, expires: date | None, info: ValidationInfo) -> date | None:
        since = info.data.get("since")
        if expires and since and expires < since:
            raise mistake(f"is {expires}; it must not lie before since")
        return expires


@functools.cache
def _declared_names(pattern: str) -> tuple[str, ...]:
    """The declared operators that a pattern names: most name one, a few are globs."""
    declared = operators.registry()
    if pattern in declared:
        return (pattern,)
    matches = re.compile(fnmatch.translate(pattern)).match
    return tuple(name for name in declared if matches(name))


MAX_BYTES = 1 << 22  # of a configuration file


class ExpectationsFile(FileModel):
    """Known divergences, each with its ticket."""

    expectations: list[ExpectationEntry]


def entries_of(said: Sequence[ExpectationEntry], located: Located) -> Iterator[Expectation]:
    """The entries of a file with their places: one for each operator and device that is named."""
    for number, entry in enumerate(said):
        values: Mapping[str, Any] = dict(entry)
        when = parse(entry.when) if entry.when is not None else None
        place = located.line(("expectations", number))
        shared = {"when": when, "place": place, "verdicts": tuple(entry.verdicts)}
        for operator, device in itertools.product(entry.operator, entry.device):
            yield Expectation(**{**values, **shared, "operator": operator, "device": device})


def load(paths: Iterable[str | Path]) -> tuple[tuple[Expectation, ...], str]:
    """The entries of some files, in order, and the files' text. Raises ConfigurationError with
    file:line:column."""
    entries: list[Expectation] = []
    texts = []
    for path in paths:
        label, text = read_text(Path(path), "an expectations file")
        texts.append(text)
        entries += read(text, label)
    return tuple(entries), "\0".join(texts)


def read(text: str, label: str) -> list[Expectation]:
    """The entries in the text of a file. Raises ConfigurationError."""
    located = Located(text, label)
    return list(entries_of(located.validate(ExpectationsFile, SYNONYMS).expectations, located))


def read_text(path: Path, what: str) -> tuple[str, str]:
    """The label of a configuration file for messages and bundles, and its text. Raises
    ConfigurationError."""
    # Labels are stored in bundles, so absolute folders are dropped.
    label = path.name if path.is_absolute() else path.as_posix()
    try:
        raw = read_bytes(path, MAX_BYTES, follow=True)
        return label, raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        preceding = raw[: error.start]
        line, column = preceding.count(b"\n") + 1, len(preceding) - preceding.rfind(b"\n")
        words = f"byte 0x{raw[error.start]:02x} is not UTF-8; save the file as UTF-8"
        raise ConfigurationError(f"{label}:{line}:{column}  {words}") from None
    except BundleError as error:
        raise ConfigurationError(f"{error}; name {what} that exists") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigurationError(
            f"{label}  cannot be read: {reason}; name {what} that exists"
        ) from None


def json_schema() -> dict[str, Any]:
    """The JSON schema of an expectations file, for editors."""
    schema: dict[str, Any] = without_clutter(ExpectationsFile.model_json_schema())
    return {"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema
