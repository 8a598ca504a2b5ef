"""What results are judged against: the operator in float64 on the same inputs, and proofs of what
it should have given.

``float64`` holds the reference of a case, ``certified`` encloses the exact result of single
elements in ball arithmetic.
"""

from __future__ import annotations

from .float64 import Reference, quiet

__all__ = ["Reference", "quiet"]
