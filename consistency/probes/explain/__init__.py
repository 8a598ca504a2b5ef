"""Why two computations of the same result differ: their summation orders, recovered and replayed on
the actual data.

``compared_sides`` defines the two computations, ``difference`` compares them, ``rendering``
describes the result.
"""

from __future__ import annotations

from .difference import Account, account, of_case, of_formula

__all__ = ["Account", "account", "of_case", "of_formula"]
