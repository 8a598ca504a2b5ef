"""What a run judges, seen from outside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from consistency.core.model import Result
from consistency.diagnose import evaluation


@contextlib.contextmanager
def spied(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str, str]]]:
    """The keys of everything that is judged meanwhile."""
    seen: list[tuple[str, str, str]] = []
    original = evaluation.evaluate

    def spy(*args: Any, **kwargs: Any) -> list[Result]:
        results = original(*args, **kwargs)
        seen.extend(r.key for r in results)
        return results

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "evaluate", spy)
        yield seen
