"""What Python programs call: running, checking one call, recording and judging.

Everything public is imported from ``consistency`` itself.
"""

from __future__ import annotations

from .notebook import attach

attach()
