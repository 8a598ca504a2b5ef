"""What several commands read in the same way."""

from __future__ import annotations

import re

import click

_UNITS = {"s": 1, None: 1, "m": 60, "min": 60, "h": 3600}


def seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """``90s``, ``5m`` or ``2h`` in seconds."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", value.strip())
    if not match:
        raise click.BadParameter(f"{value!r} is not a time; write 90s, 5m or 2h")
    return float(match[1]) * _UNITS[match[2]]
