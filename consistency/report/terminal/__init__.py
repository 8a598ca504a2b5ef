"""The terminal report of a run: its backends, progress with rate and remaining time, a table of
families × backends, the failures."""

from .closing import IN_FULL
from .last_line import exit_status
from .screen import Screen, console

__all__ = ["IN_FULL", "Screen", "console", "exit_status"]
