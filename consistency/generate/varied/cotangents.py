"""What comes on the way back in another layout: programs end in ``sum``, whose gradient is one
number that is expanded, and in ``transpose``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...core.model import Case

LAYOUTS = ("expanded", "transposed")


def of(case: Case) -> Iterator[Case]:
    """The case with its cotangent in each other layout; none where there are no gradients."""
    if case.cotangent:
        for layout in LAYOUTS:
            if layout != case.cotangent_layout:
                yield replace(case, cotangent_layout=layout)
