"""What results are judged against: the operator in float64 on the same inputs (``float64``), and
proved enclosures of the exact result of single elements (``certified``)."""

from __future__ import annotations

from .float64 import Reference, quiet

__all__ = ["Reference", "quiet"]
