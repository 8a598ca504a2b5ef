"""What a user of the package can catch.

Every error of our own derives from :class:`ConsistencyError`; its text is one line that names the
offending value, the place and the remedy. The command line turns it into that line and exit status
2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType

MAX_LINE = 1_000  # characters of a line of a message


class ConsistencyError(Exception):
    """Base of everything this package raises on purpose.

    Its text is safe to print, whatever the values in it: control characters are replaced, and of a
    line of more than :data:`MAX_LINE` characters the middle is left out.
    """

    _lines = False  # whether the text has several lines

    def __str__(self) -> str:
        text = super().__str__()
        lines = text.split("\n") if self._lines else [" ".join(text.splitlines())]
        return "\n".join(map(_bounded, lines))


class UsageError(ConsistencyError, ValueError):
    """An argument that cannot be used: an unknown operator, backend, dtype or direction."""


class ConfigurationError(ConsistencyError):
    """A mistake in a configuration file; the text holds one ``file:line:column  key …`` line per
    mistake."""

    _lines = True


class RecipeError(ConsistencyError, ValueError):
    """A recipe (pasted, or read from a file) that does not describe a case."""


class BundleError(ConsistencyError):
    """A bundle that is damaged, of another format, or not a bundle at all."""


class OutputError(ConsistencyError):
    """Something could not be written: the disk is full, or the folder is read-only or gone.

    ``results`` holds what a run had judged until then
    (:class:`~consistency.core.model.Result` values); ``what`` names the file, ``full`` says that
    room was missing, ``remedy`` what to do.
    """

    def __init__(
        self, message: str, *, what: str = "", full: bool = False, remedy: str = "",
        results: tuple[object, ...] = (),
    ) -> None:  # fmt: skip
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.message, self.what, self.full = message, what, full
        self.remedy, self.results = remedy, results

    def then(self, remedy: str, results: tuple[object, ...] = ()) -> OutputError:
        """The same error with what to do about it, in the imperative; an earlier remedy stays."""
        first = "make room, then " if self.full else ""
        return type(self)(
            self.message, what=self.what, full=self.full,
            remedy=self.remedy or f"{first}{remedy}",
            results=results or self.results,
        )  # fmt: skip


class OutputClosed(OutputError):  # noqa: N818 - what a reader did, and no error of anybody's
    """Whoever read standard output does so no longer (``consistency … | head``)."""


class Untestable(ConsistencyError):  # noqa: N818 - says what is so, is not an error of anybody's
    """Raised where an operator has no case that could tell anything; its text says why, and nothing
    is wrong with that."""


class Unsupported(ConsistencyError):  # noqa: N818 - says what happened, is not an error of anybody's
    """Raised by a backend that does not offer an operator, dtype or argument; becomes the verdict
    ``unsupported``."""


class Divergence(AssertionError):  # noqa: N818 - the name that users catch
    """Raised by :func:`consistency.assert_consistent` when a result fails; catch it as an
    ``AssertionError``.

    ``results`` holds the failing :class:`~consistency.core.model.Result` values; ``specs`` what a
    command calls their backends, by name, as far as it is another name.
    """

    def __init__(
        self, message: str, results: tuple[object, ...] = (), specs: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.results, self.specs = results, dict(specs or {})


def _bounded(line: str) -> str:
    left_out = len(line) - MAX_LINE
    if left_out > 0:
        end = MAX_LINE // 4
        line = f"{line[: MAX_LINE - end]}… ({left_out:,} characters left out) …{line[-end:]}"
    if line.isprintable():
        return line
    return "".join(
        c if c.isprintable() or c == "\xa0" else "\N{REPLACEMENT CHARACTER}" for c in line
    )


def did_you_mean(
    value: str, known: Iterable[str], other_names: Mapping[str, str] = MappingProxyType({})
) -> str:
    """``"; did you mean matmul?"``, or an empty string when nothing known is close to ``value``.

    Names with the same last part come first (``conv2d``, ``nn.Conv2d``), then those that are
    spelled nearly like it. ``other_names`` are what others call something.
    """
    names, tail = list(known), value.rpartition(".")[2]
    close = [other_names[value.lower()]] if value.lower() in other_names else []
    close = close or [name for name in names if tail and name.rpartition(".")[2] == tail]
    close = close or [name for name in names if tail and _folded(name) == _folded(tail)]
    close = close or difflib.get_close_matches(value, names, n=2, cutoff=0.6)
    return f"; did you mean {' or '.join(close[:2])}?" if close else ""


def _folded(name: str) -> str:
    return name.rpartition(".")[2].lower().replace("_", "")
