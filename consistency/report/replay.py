"""The terminal report of a stored run."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from ..core.text import one_line, pluralize
from .bundle_view import BundleView, read
from .terminal import IN_FULL, Screen


def show(folder: Path, *, stream: IO[str] | None = None, not_tested: bool = False) -> None:
    """Print the final report of a stored run. Raises BundleError."""
    from rich.text import Text

    view = read(folder)
    view.read_worst_failures(IN_FULL)
    screen = Screen(stream=stream, out=folder, not_tested=not_tested)
    screen.summary = view.summary
    screen.specs = view.specs
    screen.opening(
        title(view),
        {name: view.environment.get(name, {}) for name in view.backends},
        view.unavailable,
    )
    if view.not_whole:
        screen.console.print(Text(f"not whole: {view.not_whole}", "bold"))
    screen.closing(view.seconds, view.header.get("complete") is False)


def title(view: BundleView) -> str:
    """``consistency 0.1.0 · torch 2.13.0 · 2026-11-21 13:17 · 712 operators, 5 cases each · seed
    0``"""
    header, settings = view.header, view.settings
    torch = next((keys["torch"] for keys in view.environment.values() if keys.get("torch")), "")
    operators = pluralize(len(view.groups.families), "operator")
    examples = int(settings.get("examples") or 0)
    fresh = "fresh " * bool(settings.get("shipped"))
    each = f"{pluralize(examples, f'{fresh}case')} each"
    cases = [f"{operators}, {each}", f"seed {settings.get('seed')}"]
    if view.corpus_lines:
        cases = [operators, *view.corpus_lines]
    parts = (
        f"consistency {header.get('consistency')}", torch and f"torch {torch}",
        str(header.get("created"))[:16].replace("T", " "),
        *cases,
    )  # fmt: skip
    return one_line(" · ".join(part for part in parts if part))
