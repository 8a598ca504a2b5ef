"""Publicly reported wrong results, each as a backend: torch on the CPU, with the reported defect
under the reported condition.

Only facts are taken from a report (which operator, which arguments, what comes out); the
emulations are ours. A row is declared by :func:`reported` above its *deed*, a function that takes a
:class:`~tests.support.catalog.model.Call` and returns what the operator returns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from consistency import operators
from tests.support.catalog.model import Call, Deed, Played
from tests.support.catalog.precision import computed_wider

N = "nn.functional."


class Reported(Played):
    """A backend of whose reports some are about strides and views."""

    keeps_contract = True


@dataclass(frozen=True)
class Bug:
    """A reported defect.

    ``issue``: repository and number; ``where``: what computed wrongly; ``what``: one sentence;
    ``operators``: those of ours that would call the faulty kernel; ``dtypes``: those that show the
    defect, whether our operators draw them or not; ``sound``: a deed that computes rightly in
    another way, or the same emulation outside its condition; ``cause``: the ids that would be right
    (``a|b``), None where nothing has a name; ``layout``: the report is about strides, which numbers
    do not show. Why our inputs do not go where a bug shows is told in ``reasons.py``.
    """

    issue: str
    where: str
    operators: tuple[str, ...]
    what: str
    make: Callable[[], Deed]
    sound: Deed
    dtypes: tuple[str, ...] = ()
    directions: tuple[str, ...] = ("forward",)
    cause: str | None = None
    topic: str = ""
    layout: bool = False

    @property
    def url(self) -> str:
        """Where the report is."""
        repository, number = self.issue.split("#")
        return f"https://github.com/{repository}/issues/{number}"

    @property
    def causes(self) -> tuple[str, ...]:
        """The ids that would be right; none where nothing has a name."""
        return tuple(self.cause.split("|")) if self.cause else ()

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The operator × dtype pairs that a run draws and that could show the defect."""
        return [
            (name, dtype)
            for name in self.operators
            for dtype in operators.get(name).dtypes
            if (not self.dtypes or dtype in self.dtypes)
            and ("forward" in self.directions or operators.get(name).differentiable)
        ]

    def backend(self) -> Played:
        """A fresh faulty backend."""
        return Reported(self._called("reported"), self.make())

    def healthy(self) -> Played:
        """A backend that computes the same rightly."""
        return Reported(self._called("healthy"), self.sound)

    def _called(self, kind: str) -> str:
        """The name, which tells the rules of a compiler, which owes more of strides. Reports about
        numbers do without: some are expected of compilers, and here every report is news."""
        compiler = self.layout and "Inductor" in self.where
        return f"{'cpu+compile:' if compiler else ''}{kind}:{self.issue}"


BUGS: list[Bug] = []


def reported(
    issue: str,
    where: str,
    names: str,
    what: str,
    *,
    dtypes: str = "",
    sound: Deed = computed_wider,
    fresh: bool = False,
    **more: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declares the function below it as the deed of a bug, or with ``fresh`` as a maker of deeds.

    ``names``: operators, separated by blanks; a leading dot stands for ``nn.functional``.
    """

    def declare(deed: Callable[..., Any]) -> Callable[..., Any]:
        BUGS.append(
            Bug(
                issue,
                where,
                tuple(N + name[1:] if name[0] == "." else name for name in names.split()),
                what,
                deed if fresh else lambda: deed,
                sound,
                tuple(dtypes.split()),
                topic=deed.__module__.rpartition(".")[2].replace("_", " "),
                **more,
            )
        )
        return deed

    return declare


def plain(call: Call) -> Any:
    """Torch's own result: what the emulation gives outside its condition."""
    return call.run()
