"""The first lines of a run: what is run, and on which backends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.text import pluralize
from ...core.version import __version__
from ...engine.config import RunConfig
from ...engine.events import Started
from ..bundle_view import called

MOST_ENVIRONMENT = 100  # characters


def title(event: Started, where: str) -> str:
    """``consistency 0.1.0 · torch 2.13.0 · 4 operators × dtypes, 5 cases each · seed 0``; ``where``
    replaces this machine's torch version."""
    import torch

    settings = event.config
    pairs = "1 operator × dtype" if event.units == 1 else f"{event.units:,} operators × dtypes"
    cases_each = f"{pairs}, {_cases_in_words(event)}"
    subject = event.title or (
        f"{cases_each} · seed {settings.seed}" if settings.corpus is None else _replaying(settings)
    )
    return f"consistency {__version__} · {where or f'torch {torch.__version__}'} · {subject}"


def backend_lines(
    backends: Mapping[str, Mapping[str, str]], absent: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """A line and its style for each backend: its environment, or why it is unavailable."""
    width = max(map(len, backends), default=0)
    printed: set[tuple[str, str]] = set()
    for name, environment in backends.items():
        reason = absent.get(name)
        about = reason if reason else _about(environment, printed)
        line = f"  {'–' if reason else '✓'} {name:<{width}}  {about}".rstrip()
        yield line, "dim" if reason else ""


def _cases_in_words(event: Started) -> str:
    """``23,000 shipped cases, 2 fresh each and 228 exhaustive``."""
    settings = event.config
    if not settings.examples:
        return "large cases"
    words = f"{pluralize(settings.examples, 'case')} each"
    if event.shipped:
        begin = pluralize(event.shipped, "shipped case")
        words = f"{begin}, {settings.examples} fresh each"
    further = event.exhaustive and settings.corpus is None
    return f"{words} and {event.exhaustive:,} exhaustive" if further else words


def _replaying(settings: RunConfig) -> str:
    assert settings.corpus is not None
    corpus = settings.corpus
    fresh = f", then fresh ones · seed {settings.seed}" if settings.explore else ""
    name = called(corpus.name)
    return f"{len(corpus.cases):,} cases of {name} ({corpus.digest[:12]}){fresh}"


def _about(environment: Mapping[str, str], printed: set[tuple[str, str]]) -> str:
    """A backend's environment, without facts that were printed for an earlier backend."""
    keys = ("device", "driver", "processor", "cuda", "cudnn", "numpy", "blas", "threads", "onednn")
    new = [
        (k, environment[k])
        for k in keys
        if environment.get(k) and (k, environment[k]) not in {*printed, ("device", "cpu")}
    ]
    printed.update(new)
    text = " · ".join(
        value if key in ("device", "processor") else f"{key} {value}" for key, value in new
    )
    return text if len(text) <= MOST_ENVIRONMENT else f"{text[: MOST_ENVIRONMENT - 1]}…"
