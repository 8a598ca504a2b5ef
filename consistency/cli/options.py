"""What several commands read in the same way."""

from __future__ import annotations

import re

import click

INTERRUPTED = 130  # the exit status, as shells report SIGINT
_UNITS = {"s": 1, None: 1, "m": 60, "min": 60, "h": 3600}


def seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """``90s``, ``5m`` or ``2h`` in seconds."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", value.strip())
    if not match:
        raise click.BadParameter(f"{value!r} is not a time; write 90s, 5m or 2h")
    return float(match[1]) * _UNITS[match[2]]


expectations_option = click.option(
    "--expectations",
    multiple=True,
    metavar="FILE",
    help=(
        "Known divergences, beside those of the tolerances (repeatable; `consistency expect` "
        "writes them)."
    ),
)

_BYTES = {
    "": 1,
    "kb": 1 << 10,
    "mb": 1 << 20,
    "gb": 1 << 30,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
}


def size(ctx: click.Context, param: click.Parameter, value: str | None) -> int:
    """``8GB`` or ``512MB`` in bytes, of which a kilobyte has 1024; 0 where nothing is said."""
    if value is None:
        return 0
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmg]i?b|)", value.strip().lower())
    found = int(float(match[1]) * _BYTES[match[2]]) if match else 0
    if found < 1 << 20:
        raise click.BadParameter(f"{value!r} is no size of at least a megabyte; write 512MB or 8GB")
    return found
