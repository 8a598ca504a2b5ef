"""The files for reporting a failure: a folder with a script that needs torch only, the text of an
issue, and the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ...core.model import Result
from ...operators.declare import Operator
from . import issue as _issue
from .script import Script, script_of
from .writer import keep, write

if TYPE_CHECKING:
    from ...diagnose.shrink import MinimalCase

__all__ = ["Script", "issue", "keep", "script", "script_of", "write"]


def script(
    result: Result,
    *,
    spec: str | None = None,
    identity: Mapping[str, str] | None = None,
    operator: Operator | None = None,
) -> str:
    """The text of repro.py as one file that needs torch only. Raises RecipeError for an invalid
    case."""
    return script_of(result, spec, identity, operator).text


def issue(
    result: Result,
    *,
    spec: str | None = None,
    identity: Mapping[str, str] | None = None,
    others: Sequence[Result] = (),
    minimal: MinimalCase | None = None,
    operator: Operator | None = None,
) -> str:
    """The text of issue.md. Raises RecipeError for an invalid case."""
    made = script_of(result, spec, identity, operator)
    return _issue.text(
        result, made, spec=spec, identity=identity or {}, others=others, minimal=minimal
    )
