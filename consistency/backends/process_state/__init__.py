"""Global state of Python, torch, NumPy and the C library that a user's backend may change.

A backend in this process shares all of it with the reference and with every other backend. It is
read before a call of code that is not this package's, set back afterwards, and each change is the
verdict of the backend that made it.
"""

from .guard import STATES, StateGuard

__all__ = ["STATES", "StateGuard"]
