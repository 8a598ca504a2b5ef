"""Notebooks show a value by its method ``_repr_html_``, which results and runs get here: the rooms
that define them come before the one that writes reports."""

from __future__ import annotations

from ..core.model import Result
from ..engine.result_collector import Run
from ..report.notebook import result_html, run_html

_METHOD = "_repr_html_"


def attach() -> None:
    """Give the methods to the classes."""
    setattr(Result, _METHOD, result_html)
    setattr(Run, _METHOD, run_html)
