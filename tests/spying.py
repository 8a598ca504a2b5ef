"""What a run judges, seen from outside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from consistency import evaluate
from consistency.model import Result


@contextlib.contextmanager
def spied(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str, str]]]:
    """The keys of everything that is judged meanwhile."""
    seen: list[tuple[str, str, str]] = []
    original = evaluate.evaluate

    def spy(*args: Any, **kwargs: Any) -> list[Result]:
        results = original(*args, **kwargs)
        seen.extend(r.key for r in results)
        return results

    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "evaluate", spy)
        yield seen
