"""Which fault explains a divergence: suspects are played in float64 and compared with what the
backend really returned.

A suspect is named if it explains at least nine tenths of the error (in units of the budget); where
few elements are wrong, which many suspects could hit by accident, only if what it leaves is no more
than rounding. The first of equals wins, and the rooms are asked from the simplest fault to the most
particular.
"""

from __future__ import annotations

import math
import time

from ...core.model import Cause
from . import access, calls, devices, formulas, precision, results
from .context import REFUSALS, Scene, Suspect

ENOUGH = 0.9
_FEW = 6  # wrong elements that many suspects may hit by accident
_ROUNDING = 2.0  # ulp + G·u·S that an element may be off after its fault was played
_CLEARLY = 0.02  # a later suspect must explain so much more to be preferred
SECONDS = 4.0

__all__ = ["ENOUGH", "Scene", "explain", "shorter"]


def explain(
    scene: Scene, seconds: float = SECONDS, only: frozenset[str] | None = None
) -> Cause | None:
    """The cause that explains most of the scene's error, or None if none explains enough. Gives up
    after ``seconds``.

    ``only``: no other causes (by their ids) are tried.
    """
    deadline = time.monotonic() + seconds
    best: tuple[float, Suspect] | None = None
    nothing = _unchanged(scene)
    wrong = int(scene.guilty.sum())
    least = (
        ENOUGH
        if wrong > _FEW or scene.special
        else max(ENOUGH, 1.0 - _ROUNDING * math.sqrt(wrong) / max(scene.size, 1e-300))
    )
    rooms = [
        precision.suspects,
        formulas.suspects,
        access.suspects,
        results.suspects,
        calls.suspects,
        results.fitted,
    ]
    rooms.insert(2 if wrong > _FEW else 3, results.plain)  # a few zeros say little
    if scene.whole:  # places and counts: shorter inputs move them, too, but seldom are the reason
        rooms.append(rooms.pop(0))
        rooms[:0] = [access.narrowed, results.narrowed]
    rooms.insert(0, devices.suspects)
    for room in rooms:
        for suspect in room(scene):
            if time.monotonic() > deadline:
                break
            if only is not None and suspect.name not in only:
                continue
            try:
                share = scene.share(suspect.play())
            except REFUSALS:
                continue
            if (
                not math.isfinite(share)
                or share < least
                or share <= nothing + _CLEARLY
                or wrong < 2 * suspect.fitted
            ):
                continue
            if best is None or share > best[0] + _CLEARLY:
                best = (share, suspect)
            if best[0] > 1.0 - _CLEARLY:
                return _cause(*best)
    return _cause(*best) if best is not None else None


_INPUTS = frozenset({"tf32-inputs", "bfloat16-inputs", "bfloat16x3-inputs"})
_WITHIN_BUDGET = _INPUTS | {"truncating-accumulator"}
# of the root mean square; errors that have nothing to do with the fault would grow instead
_A_QUARTER = 0.25
_NO_CHANCE = 6.0  # standard deviations, by which errors follow a prediction


def shorter(scene: Scene, only: frozenset[str] = _WITHIN_BUDGET) -> Cause | None:
    """The loss of precision that the errors of a result within budget follow, or None. ``only``: no
    others are tried.

    Errors of a healthy sum are independent of what a suspect predicts: taking a prediction of size
    p from errors of size e leaves √(e² + p²). A quarter less needs a correlation of 0.66, over 128
    elements more than seven standard deviations. The share need not be nine tenths here: the
    backend's own rounding, of a like size, is in these errors, too. Where that is the larger part,
    errors may still follow a prediction of shorter inputs by more than chance does
    (:meth:`Scene.follows`); a share above 0 then says that they do so to more than half its size.
    Truncation has one sign everywhere, and that alone proves nothing.
    """
    best: Cause | None = None
    for suspect in precision.suspects(scene):
        if suspect.name in only:
            try:
                predicted = suspect.play()
                share = scene.share(predicted)
            except REFUSALS:
                continue
            if share <= (0.0 if best is None else best.share + _CLEARLY):
                continue
            if share >= _A_QUARTER or (
                suspect.name in _INPUTS and scene.follows(predicted) > _NO_CHANCE
            ):
                best = _cause(share, suspect)
    return best


def _unchanged(scene: Scene) -> float:
    """What plain float64 explains: where something better stands behind it, a fault that changes
    nothing would have this share."""
    if scene.dtype != "float64":
        return 0.0
    try:
        return scene.share(scene.with_inputs(lambda base, position: base))
    except REFUSALS:
        return 0.0


def _cause(share: float, suspect: Suspect) -> Cause:
    return Cause(suspect.name, suspect.words, min(share, 1.0))
