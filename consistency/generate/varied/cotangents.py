"""What comes on the way back in another layout: programs end in ``sum``, whose gradient is one
number that is expanded, and in ``transpose``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...core.model import Case
from ...operators.declare import Operator
from ..memory_safety import ends_the_process

LAYOUTS = ("expanded", "transposed")


def of(operator: Operator, case: Case) -> Iterator[Case]:
    """The case with its cotangent in each other layout; none where there are no gradients."""
    if case.cotangent:
        for layout in LAYOUTS:
            changed = replace(case, cotangent_layout=layout)
            if changed != case and not ends_the_process(operator, changed):
                yield changed
