"""The arguments of an operator, for the help of commands: ``consistency sweep linear --help``."""

from __future__ import annotations

from collections.abc import Sequence


def operator_rows(words: Sequence[str], *, formulas: bool) -> list[tuple[str, str]]:
    """A row for each operator among the words of a command line: how torch calls it, and with
    ``formulas`` what its arguments are called in one, and its sizes."""
    names = [word for word in words if not word.startswith("-")]
    if not names:
        return []  # without torch, which takes seconds to import
    from ..operators import registry
    from ..operators.call_signature import call_signature
    from ..operators.public_names import find_name

    rows = []
    for name in dict.fromkeys(filter(None, (find_name(word, registry()) for word in names))):
        signature = call_signature(registry()[name]) or name
        rows.append((name, ". ".join(filter(None, [signature, _plan(name) if formulas else ""]))))
    return rows


def _plan(name: str) -> str:
    from ..errors import UsageError
    from ..probes.sweep.plans import plan_of

    try:
        plan = plan_of(name)
    except UsageError:
        return ""
    spelled = {short: long for long, short in plan.spelled.items()}
    arguments = ", ".join(
        f"{spelled[short]} (or {short})" if short in spelled else short for short in plan.arguments
    )
    sizes = ", ".join(f"{size}={value}" for size, value in plan.usual.items())
    return f"In a formula: {arguments}; sizes: {sizes}"
