"""What changed for good, and on which night: new failures, fixes, errors that grew or shrank, what
is no longer tested.

Each case is followed over the nights by itself (:mod:`.segmentation`), so that like is compared
with like; what the cases of a group (operator, dtype, direction) did on the same night is one turn.
Cases that fail now and then are flaky, with their rate, and no turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from . import segmentation
from .changes import LEAST_SHIFT, shift_of
from .series import FAILED, PASSED, UNTESTED, Block, Environment

KINDS = ("new", "drifted", "untested", "fixed", "calmed", "tested")
REGRESSIONS = ("new", "drifted", "untested")
FEW, MANY = 0.25, 0.65  # rates: from at most one to at least the other is a turn
ODD = 4.0  # octaves; what one case adds to the mean move of its group is bounded by that
LEAST_CHANCE, LEAST_RATIO = (
    0.02,
    5.0,
)  # of cases that moved, by signs and ranks, and of their mean move to its uncertainty
LEAST_SCATTER = 0.05  # octaves
NOBODYS = -6.7  # octaves (a hundredth of the budget): errors below that may move as they like
NEAR = 2  # nights between which turns of one group are one


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of one group in one environment, on ``night`` (its place among the environment's
    nights), where it was seen first; on the night ``last`` it was not there yet.

    ``cases`` of ``of`` took part. ``before`` and ``after``: × budget, in octaves; of verdicts, that
    of the worst such case (NaN where there is no number). ``item`` is a case that shows it.
    ``moved`` tells whether the environment changed that night.
    """

    env: int
    group: int
    night: int
    last: int
    kind: str
    cases: int
    of: int
    before: float
    after: float
    item: int
    moved: bool

    @property
    def regression(self) -> bool:
        return self.kind in REGRESSIONS


@dataclass(frozen=True, slots=True)
class Line:
    """A group over the nights of an environment: median and largest × budget (octaves), how many
    cases fail and were tested.

    ``flaky`` holds, of the case that fails now and then most often, how many of how many nights
    since it did so; ``odd`` counts cases that fail on the last night alone, where nothing has
    changed in the environment.
    """

    env: int
    group: int
    middle: NDArray[np.float32]
    largest: NDArray[np.float32]
    failing: NDArray[np.int32]
    tested: NDArray[np.int32]
    flaky: tuple[int, int] | None
    odd: int


def follow(environment: Environment, block: Block) -> tuple[list[Turn], list[Line]]:
    """All groups of a block."""
    penalty = segmentation.penalties(environment.changed())
    failing = np.where(block.state >= PASSED, block.state == FAILED, -1).astype(np.int8)
    missing = np.where(block.state < UNTESTED, -1, block.state == UNTESTED).astype(np.int8)
    often, never = _each(failing, penalty), _each(missing, penalty)
    found_moves = [_moves(block, place) for place in range(len(block.groups))]
    moves, scatter = (
        np.stack([each for each, _ in found_moves]),
        np.array([one for _, one in found_moves], dtype=np.float32),
    )
    plain = (
        np.nan_to_num(
            np.nanmax(moves, axis=1, initial=-np.inf) - np.nanmin(moves, axis=1, initial=np.inf),
            neginf=0.0,
        )
        < LEAST_SHIFT
    )
    height = np.zeros_like(moves)
    if not plain.all():
        height[~plain] = segmentation.levels(moves[~plain], penalty, scatter[~plain])
    changed = environment.changed()
    turns, lines = [], []
    for place in range(len(block.groups)):
        rows = block.of(place)
        found = [
            *_verdicts(environment, block, place, often[rows], changed),
            *_tests(environment, block, place, never[rows], changed),
        ]
        if not plain[place]:
            found += _drifts(environment, block, place, moves[place], height[place], changed, found)
        turns += found
        lines.append(_line(environment, block, place, often[rows]))
    return turns, lines


def _each(events: NDArray[np.int8], penalty: segmentation.Floats) -> segmentation.Floats:
    """Rates of every case by night; what is alike is found once, and what never changes costs
    nothing."""
    lowest = np.where(events < 0, 2, events).min(axis=1)
    highest = events.max(axis=1)
    found = np.repeat(
        np.where(highest > 0, segmentation.RATES[-1], segmentation.RATES[0])[:, None],
        events.shape[1],
        axis=1,
    )
    mixed = np.flatnonzero((lowest == 0) & (highest == 1))
    if len(mixed):
        kinds, which = np.unique(events[mixed], axis=0, return_inverse=True)
        for start in range(0, len(kinds), 512):
            chosen = segmentation.rates(kinds[start : start + 512], penalty)
            mine = (which.ravel() >= start) & (which.ravel() < start + 512)
            found[mixed[mine]] = chosen[which.ravel()[mine] - start]
    return found.astype(np.float32)


def _moves(block: Block, place: int) -> tuple[segmentation.Floats, float]:
    """How far the errors of a group lie, night by night, from where each of its cases usually lies
    (mean, in octaves).

    Only of cases that pass. Cases that were not there on all nights are aligned with the others by
    turns. The second value is what the cases' disagreement makes of the mean's uncertainty.
    """
    rows = block.of(place)
    size = np.where(block.state[rows] == PASSED, block.size[rows], np.float32(np.nan))
    known = ~np.isnan(size)
    many = known.sum(axis=0)
    night = np.zeros(size.shape[1], dtype=np.float32)
    for _ in range(1 if known.all() else 3):
        usual = np.nan_to_num(segmentation.median(size - night, axis=1))
        middle = segmentation.median(size - usual[:, None], axis=0)
        night = np.nan_to_num(middle)
    off = np.clip(size - usual[:, None] - night, -ODD, ODD)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(known, off, 0.0).sum(axis=0) / many
    scatter = segmentation.median(
        np.abs(np.where(known, off, np.float32(np.nan))), axis=0
    ) * np.float32(1.4826)
    uncertain = segmentation.median(
        (scatter / np.sqrt(np.maximum(many, 1))).astype(np.float32)[None, :], axis=1
    )
    return np.where(many > 0, night + mean, np.nan).astype(np.float32), float(
        np.nan_to_num(uncertain[0])
    )


def _steps(levels: segmentation.Floats) -> Iterator[tuple[int, float, float]]:
    for night in np.flatnonzero(levels[1:] != levels[:-1]) + 1:
        yield int(night), float(levels[night - 1]), float(levels[night])


def _verdicts(
    environment: Environment,
    block: Block,
    place: int,
    often: segmentation.Floats,
    changed: NDArray[np.bool_],
) -> Iterator[Turn]:
    for kind, night, cases in _crossings(often, ("new", "fixed")):
        yield _turn(environment, block, place, night, kind, cases, changed)


def _tests(
    environment: Environment,
    block: Block,
    place: int,
    never: segmentation.Floats,
    changed: NDArray[np.bool_],
) -> Iterator[Turn]:
    for kind, night, cases in _crossings(never, ("untested", "tested")):
        yield _turn(environment, block, place, night, kind, cases, changed)


def _crossings(
    rate: segmentation.Floats, kinds: tuple[str, str]
) -> Iterator[tuple[str, int, NDArray[np.intp]]]:
    """Nights on which cases begin, or cease, to do something for good; turns of the same kind close
    together are one."""
    if (rate[:, 1:] == rate[:, :-1]).all():
        return
    for kind, low, high in (
        (kinds[0], rate[:, :-1], rate[:, 1:]),
        (kinds[1], rate[:, 1:], rate[:, :-1]),
    ):
        here = (low <= FEW) & (high >= MANY)
        nights = np.flatnonzero(here.any(axis=0))
        while len(nights):
            together = nights[nights <= nights[0] + NEAR]
            many = here[:, together].sum(axis=0)
            yield (
                kind,
                int(together[many.argmax()]) + 1,
                np.flatnonzero(here[:, together].any(axis=1)),
            )
            nights = nights[len(together) :]


def _turn(
    environment: Environment,
    block: Block,
    place: int,
    night: int,
    kind: str,
    cases: NDArray[np.intp],
    changed: NDArray[np.bool_],
) -> Turn:
    rows = block.of(place)
    size = block.size[rows][cases]
    night, last = _seen(np.any(block.state[rows][cases] >= UNTESTED, axis=0), night)
    shown = size[:, last] if kind == "fixed" else size[:, night]
    worst = int(np.nan_to_num(shown, nan=np.inf).argmax())
    before, after = float(size[worst, last]), float(size[worst, night])
    item = int(block.items[rows][cases[worst]])
    of = int(rows.stop - rows.start)
    moved = bool(changed[last + 1 : night + 1].any())
    return Turn(
        environment.env,
        int(block.groups[place]),
        night,
        last,
        kind,
        len(cases),
        of,
        before,
        after,
        item,
        moved,
    )


def _seen(known: NDArray[np.bool_], night: int) -> tuple[int, int]:
    """The first night from this one on of which something is known, and the last one before it."""
    later, earlier = np.flatnonzero(known[night:]), np.flatnonzero(known[:night])
    return night + int(later[0]) if len(later) else night, int(earlier[-1]) if len(
        earlier
    ) else night - 1


def _drifts(
    environment: Environment,
    block: Block,
    place: int,
    moves: segmentation.Floats,
    height: segmentation.Floats,
    changed: NDArray[np.bool_],
    others: list[Turn],
) -> list[Turn]:
    """Errors that moved for good: levels between nights whose medians really differ."""
    bounds = [0, *(night for night, _, _ in _steps(height)), len(moves)]
    middles = [_middle(moves[a:b]) for a, b in itertools.pairwise(bounds)]
    found: list[Turn] = []
    last = middles[0]
    for night, after in zip(bounds[1:-1], middles[1:], strict=True):
        if np.isnan(after):
            continue
        if np.isnan(last):
            last = after
            continue
        if abs(after - last) < LEAST_SHIFT:
            continue
        before, last = last, after
        # Where cases begin or cease to fail, those that are left are other cases, and the verdict
        # says it already.
        if any(abs(other.night - night) <= NEAR for other in others):
            continue
        turn = _drift(
            environment, block, place, _seen(~np.isnan(moves), night), after - before, changed
        )
        if turn is not None:
            found.append(turn)
    return found


def _drift(
    environment: Environment,
    block: Block,
    place: int,
    nights: tuple[int, int],
    move: float,
    changed: NDArray[np.bool_],
) -> Turn | None:
    """The turn, unless the cases that moved disagree: another kernel, as good as the one before,
    moves each by chance."""
    rows, (night, last) = block.of(place), nights
    size = np.where(block.state[rows] == PASSED, block.size[rows], np.float32(np.nan))
    first, end = max(night - 14, 0), min(night + 14, size.shape[1])
    before, after = (
        segmentation.median(size[:, first:night], axis=1),
        segmentation.median(size[:, night:end], axis=1),
    )
    shift = after - before
    moved = np.abs(shift) >= LEAST_SHIFT / 2
    if (
        not _agree(shift[moved].astype(np.float64))
        or float(np.nanmedian(np.fmax(before, after))) < NOBODYS
    ):
        return None
    most = int(np.nan_to_num(shift if move > 0 else -shift, nan=-np.inf).argmax())
    middle = float(np.nanmedian(before)) if not np.isnan(before).all() else float("nan")
    return Turn(
        environment.env, int(block.groups[place]), night, last, "drifted" if move > 0 else "calmed",
        int(moved.sum()), len(size),
        middle, middle + move, int(block.items[rows][most]),
        bool(changed[last + 1 : night + 1].any()),
    )  # fmt: skip


def _agree(moves: NDArray[np.float64]) -> bool:
    if len(moves) < 3 or shift_of(moves).chance > LEAST_CHANCE:
        return False
    uncertain = max(float(moves.std(ddof=1)), LEAST_SCATTER) / len(moves) ** 0.5
    return bool(abs(float(moves.mean())) >= LEAST_RATIO * uncertain)


def _middle(values: segmentation.Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _line(environment: Environment, block: Block, place: int, often: segmentation.Floats) -> Line:
    rows = block.of(place)
    state, size = block.state[rows], block.size[rows]
    tested = (state >= PASSED).sum(axis=0, dtype=np.int32)
    failing = (state == FAILED).sum(axis=0, dtype=np.int32)
    largest = np.where(tested > 0, np.nan_to_num(size, nan=-np.inf).max(axis=0), -np.inf)
    largest = np.where(np.isinf(largest), np.nan, largest).astype(np.float32)
    return Line(
        environment.env, int(block.groups[place]), segmentation.median(size, axis=0), largest,
        failing, tested,
        _flaky(state, often), _odd(state, often),
    )  # fmt: skip


def _flaky(state: NDArray[np.int8], often: segmentation.Floats) -> tuple[int, int] | None:
    """(nights it failed, nights it ran) at its present rate, of the case that fails now and then
    most often."""
    last = often[:, -1]
    worst: tuple[int, int] | None = None
    for case in np.flatnonzero(
        (last > segmentation.SELDOM) & (last < segmentation.OFTEN) & ~_first(state)
    ):
        steps = np.flatnonzero(often[case, 1:] != often[case, :-1])
        start = int(steps[-1]) + 1 if len(steps) else 0
        ran = state[case, start:]
        found = (int((ran == FAILED).sum()), int((ran >= PASSED).sum()))
        if found[0] and (worst is None or found[0] * worst[1] > worst[0] * found[1]):
            worst = found
    return worst


def _odd(state: NDArray[np.int8], often: segmentation.Floats) -> int:
    """Cases that fail on the last night and are known to pass, or have passed until then: seen
    once, which few nights cannot tell from a flake."""
    last = often[:, -1]
    return int(
        (
            (state[:, -1] == FAILED)
            & ((last <= segmentation.SELDOM) | (last < segmentation.OFTEN) & _first(state))
        ).sum()
    )


def _first(state: NDArray[np.int8]) -> NDArray[np.bool_]:
    """By case, whether it failed for the first time on the last night."""
    before = state[:, :-1]
    first: NDArray[np.bool_] = (
        (state[:, -1] == FAILED) & (before >= PASSED).any(axis=1) & ~(before == FAILED).any(axis=1)
    )
    return first
