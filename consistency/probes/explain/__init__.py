"""Why two ways to compute the same differ: the orders of their sums, recovered and replayed on the
actual numbers.

``sides`` are the two that are compared, ``account`` what was established of them, ``words`` how it
is told.
"""

from __future__ import annotations

from .difference import Account, account, of_case, of_formula

__all__ = ["Account", "account", "of_case", "of_formula"]
