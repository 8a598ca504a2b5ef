"""Common definitions for configuration files: value types, backend globs, version ranges."""

from __future__ import annotations

import functools
import operator
import re
from fnmatch import fnmatchcase
from itertools import zip_longest
from types import MappingProxyType
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from ..core.dtypes import ALL
from ..core.verdict import VERDICTS, Verdict
from ..errors import did_you_mean

COMPLEX = {
    "complex32": "float16",
    "complex64": "float32",
    "complex128": "float64",
}  # judged part by part
# Families' names of earlier versions, which tolerances and bundles still hold.
OLD_FAMILIES = MappingProxyType({"normalisation": "normalization"})
EXPECTED = tuple(name for name in VERDICTS if Verdict(name).fails)
_CLAUSE = re.compile(r"(>=|<=|==|!=|>|<)\s*(\d{1,9}(?:\.\d{1,9})*)")
_COMPARE = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
UNSAID: Any = None  # the default of keys that were not given


def mistake(words: str) -> PydanticCustomError:
    """The error for validators: the text after ``file:line:column key``."""
    return PydanticCustomError("mistake", "{words}", {"words": words})


def _check_dtype_glob(glob: str) -> str:
    if not any(fnmatchcase(name, glob) for name in (*ALL, *COMPLEX)):
        raise mistake(f"is {glob!r:.80}, which matches no dtype{did_you_mean(glob, ALL)}")
    return glob


def _check_range(text: str) -> str:
    if not all(_CLAUSE.fullmatch(clause.strip()) for clause in text.split(",")):
        raise mistake(f"is {text!r:.80}, not a range of versions; write it like '>=31.0.15,<32'")
    return text


def _check_verdict(name: str) -> str:
    if name not in EXPECTED:
        meant = did_you_mean(name, EXPECTED) or f"; known: {', '.join(EXPECTED)}"
        raise mistake(f"is {name!r:.80}, which is not a failing verdict{meant}")
    return name


Text = Annotated[str, Field(min_length=1)]
Ratio = Annotated[float, Field(gt=0, allow_inf_nan=False)]
DtypeGlob = Annotated[str, AfterValidator(_check_dtype_glob)]
Versions = Annotated[str, AfterValidator(_check_range)]
Failing = Annotated[
    str, AfterValidator(_check_verdict), Field(json_schema_extra={"enum": list(EXPECTED)})
]


class FileModel(BaseModel):
    """Keys that are not known are mistakes, and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def in_range(version: str, wanted: str) -> bool:
    """Whether a version lies in a range such as ``>=31.0.15,<32``; a version without a number
    never does."""
    if not wanted:
        return True
    match = re.search(r"\d{1,9}(\.\d{1,9})*", version)
    return match is not None and all(
        _COMPARE[sign](
            *zip(*zip_longest(_numbers(match[0]), _numbers(other), fillvalue=0), strict=True)
        )
        for sign, other in _CLAUSE.findall(wanted)
    )


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


@functools.lru_cache(1 << 12)
def is_backend(spec: str, glob: str) -> bool:
    """Whether a key such as ``cuda`` or ``cuda*+tf32`` matches a spec such as ``cuda:1+tf32``."""
    return fnmatchcase(spec, glob) or fnmatchcase(base_of(spec), glob)


def base_of(spec: str) -> str:
    """``cuda`` of ``cuda:1+tf32``."""
    return re.split("[:+@#]", spec, maxsplit=1)[0]


def without_clutter(part: Any) -> Any:
    """A JSON schema without pydantic's titles and without defaults that stand for missing keys."""
    if isinstance(part, list):
        return [without_clutter(item) for item in part]
    if not isinstance(part, dict):
        return part
    clutter = {"title"} if isinstance(part.get("default"), str) else {"title", "default"}
    return {key: without_clutter(value) for key, value in part.items() if key not in clutter}
