"""Text to the standard streams. Whatever is in it, a terminal obeys nothing of it."""

from __future__ import annotations

import click

from ..core.text import printable


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text of one or several lines, without control characters."""
    click.echo(printable(str(text)), err=err, nl=nl)
