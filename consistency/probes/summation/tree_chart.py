"""A summation tree as an SVG chart: terms at the bottom, sums above, repeated parts drawn once or
twice.

A block is a running sum over its terms. A horizontal line is a running sum from left to right:
partial sums hang below it, single terms are a block *on* it. A triangle stands for levels of
pairwise additions.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...core import svg
from .notation import BIAS, Form, Repetition, form
from .trees import Tree

STYLE = """
svg{--k:#dbe9f6;--s:#0072b2;--o:#d55e00;--p:#fbe3d2;--t:#e8f3ec;--u:#009e73}
@media (prefers-color-scheme:dark){svg{--k:#12304a;--s:#56b4e9;--p:#46250c;--o:#f08c4a}
svg{--t:#11301f;--u:#3fc28f}}
text{text-anchor:middle} .small{fill:var(--m);font-size:11px}
.wire{stroke:var(--f);stroke-width:1.4;fill:none}
.terms{fill:var(--k);stroke:var(--s);stroke-width:1.2}
.bias{fill:var(--p);stroke:var(--o);stroke-width:1.4}
.levels{fill:var(--t);stroke:var(--u)}
.joint{fill:var(--b);stroke:var(--f);stroke-width:1.4}
.start{text-anchor:start} .note{text-anchor:start;font-size:12px;fill:var(--m)}
"""
MARGIN, BETWEEN, LEAF, TALL, RISE = 24, 14, 30, 52, 34
LINE = 20  # distance of the running sum's line from the upper edge
WIDEST = 1240  # a wider chart omits more repeated parts
# Levels of detail for equal parts, in decreasing order: the largest number shown without omission,
# and whether all of these are drawn in full or only the first.
DETAIL = ((7, True), (3, True), (3, False))


@dataclass(frozen=True)
class _Box:
    """A drawn subtree: its size, the position on its upper edge at which its sum leaves (``out``),
    and its SVG elements relative to (0, 0)."""

    width: float
    height: float
    out: float
    body: tuple[str, ...]
    inline: bool = False

    def at(self, x: float, y: float) -> str:
        return svg.group(x, y, self.body)


def tree_chart(
    title: str, trees: Sequence[tuple[str, str, Tree]], notes: Sequence[str] = ()
) -> str:
    """One SVG document: each ``(name, words, tree)`` below the previous, ``notes`` as lines under
    the title."""
    forms = [form(tree) for _, _, tree in trees]
    for detail in DETAIL:
        boxes = [_Draws(*detail).of(whole, 0) for whole in forms]
        if max(box.width for box in boxes) <= WIDEST - 2 * MARGIN:
            break
    width = max(800.0, *(box.width + 2 * MARGIN for box in boxes))
    lines = [part for note in notes for part in textwrap.wrap(note, int(width / 7.2))]
    parts = [svg.text(MARGIN, 34, title, class_="title start")]
    y = 54.0
    for line in lines:
        parts.append(svg.text(MARGIN, y, line, class_="note"))
        y += 18
    for (name, words, _), box in zip(trees, boxes, strict=True):
        y += 26
        parts.append(svg.text(MARGIN, y, name, class_="strong start"))
        for line in textwrap.wrap(words, int(width / 7.2)):
            y += 18
            parts.append(svg.text(MARGIN, y, line, class_="note"))
        y += 44
        out = MARGIN + box.out
        parts.append(_wire(out, y - 18, y))
        parts.append(svg.text(out, y - 22, "Σ", class_="strong"))
        parts.append(box.at(MARGIN, y))
        y += box.height + 10
    described = " · ".join([*notes, *(f"{name}: {words}" for name, words, _ in trees)])
    return svg.document(title, described, round(width), round(y + 10), parts, STYLE)


def _wire(x: float, top: float, bottom: float) -> str:
    return svg.line(x, top, x, bottom, class_="wire")


@dataclass(frozen=True)
class _Draws:
    """Draws forms. Of equal parts it shows at most ``shown``: all in full if ``alike``, otherwise
    only the first."""

    shown: int
    alike: bool

    def of(self, form_: Form, first: int) -> _Box:
        if not form_.runs:
            return _leaf(
                BIAS if form_.how == BIAS else str(first), BIAS if form_.how == BIAS else ""
            )
        if form_.how in ("pairwise", "halving"):
            return self.levels(form_, first)
        if form_.how.startswith("at once"):
            return self.once(form_, first)
        boxes = [box for run in form_.runs for box in self.run(run, first)]
        return _line(boxes) if len(boxes) > 1 else replace(boxes[0], inline=False)

    def run(self, run: Repetition, first: int) -> list[_Box]:
        start = first + run.offset
        if not run.part.runs:
            if run.part.how == BIAS or run.count == 1:
                return [self.of(run.part, start)]
            return [replace(_block(run.count, start, run.step), inline=True)]
        if run.part.how == "on the way":
            words = str(run.part)
            text = f"{run.count} × ({words if len(words) < 40 else words[:38] + '…'})"
            return [replace(_text(text, f"from {start} on"), inline=True)]
        places = [start + k * run.step for k in range(run.count)]
        omitted = run.count - self.shown
        if omitted > 0:
            places = (
                [*places[: self.shown - 1], places[-1]]
                if self.shown <= 3
                else [*places[:2], places[-1]]
            )
            omitted = run.count - len(places)
        boxes = [
            self.of(run.part, place) if self.alike or not k else _repeated_part(run.part, place)
            for k, place in enumerate(places)
        ]
        return [*boxes[:-1], _dots(omitted), boxes[-1]] if omitted > 0 else boxes

    def levels(self, form_: Form, first: int) -> _Box:
        """Balanced pairwise additions of equal parts: a triangle."""
        (run,) = form_.runs
        boxes = [replace(box, inline=False) for box in self.run(run, first)]
        if not run.part.runs:
            boxes = [_plain(run.count, first + run.offset, run.step)]
        top, x, body = 44.0, 0.0, []
        for box in boxes:
            body.append(box.at(x, top + 8))
            if box.out >= 0 and run.part.runs:
                body.append(_wire(x + box.out, top, top + 8))
            x += box.width + BETWEEN
        width = max(x - BETWEEN, 110.0)
        corners = [(0.0, top), (width / 2 - 60, 0.0), (width / 2 + 60, 0.0), (width, top)]
        shape = svg.path(corners, "Z", class_="levels")
        title = svg.text(width / 2, 27, f"{form_.how} {run.count}")
        return _Box(
            width, top + 8 + max(box.height for box in boxes), width / 2, (shape, title, *body)
        )

    def once(self, form_: Form, first: int) -> _Box:
        """One addition of several operands."""
        boxes: list[_Box] = []
        for run in form_.runs:
            start = first + run.offset
            if run.part.runs or run.part.how == BIAS:
                boxes += self.run(run, first)
            elif run.count <= self.shown:
                boxes += [self.of(run.part, start + k * run.step) for k in range(run.count)]
            else:
                boxes.append(_plain(run.count, start, run.step))
        x, body = 0.0, []
        for box in boxes:
            body.append(box.at(x, 34))
            if box.out >= 0:
                body.append(_wire(x + box.out, 22, 34))
            x += box.width + 6
        width = max(x - 6, 150.0)
        extra = " with the sum" if form_.how.endswith("sum") else ""
        body.append(svg.rect(0, 0, width, 22, rx=4, class_="levels"))
        body.append(svg.text(width / 2, 15, f"at once{extra}"))
        return _Box(width, 34 + max(box.height for box in boxes), width / 2, tuple(body))


def _block(count: int, first: int, step: int) -> _Box:
    """A running sum over single terms."""
    last = first + (count - 1) * step
    caption = f"{first} … {last}" + (f", step {abs(step)}" if abs(step) > 1 else "")
    width = max(46.0, 7.0 * len(caption) + 8, min(30 + count / 4, 110))
    staircase = "".join(f"M{width / 2 - 16 + 8 * k:.1f} 30v-5h8" for k in range(4))
    body = (
        svg.rect(0, 0, width, TALL - 16, rx=4, class_="terms"),
        svg.element("path", class_="wire", d=staircase, opacity=0.55),
        svg.text(width / 2, 16, str(count), class_="strong"),
        svg.text(width / 2, TALL, caption, class_="small"),
    )
    return _Box(width, TALL + 4, width / 2, body)


def _leaf(words: str, kind: str) -> _Box:
    width = max(LEAF, 9.0 * len(words) + 8)
    body = (
        svg.rect(0, 0, width, 24, rx=12, class_="bias" if kind == BIAS else "terms"),
        svg.text(width / 2, 16, words),
    )
    return _Box(width, 28, width / 2, body)


def _text(words: str, caption: str) -> _Box:
    width = 7.4 * len(words) + 16
    body = (
        svg.rect(0, 0, width, TALL - 16, rx=4, class_="terms"),
        svg.text(width / 2, 23, words),
        svg.text(width / 2, TALL, caption, class_="small"),
    )
    return _Box(width, TALL + 4, width / 2, body)


def _dots(count: int) -> _Box:
    body = (svg.text(42, 12, "⋯"), svg.text(42, 30, f"{count} more alike", class_="small"))
    return _Box(84, 34, -1, body)


def _repeated_part(part: Form, first: int) -> _Box:
    """An equal part that was drawn in full before."""
    return _text(f"{part.size} terms", f"likewise, from {first}")


def _plain(count: int, first: int, step: int) -> _Box:
    """Single terms, without the symbol of a running sum."""
    box = _block(count, first, step)
    return replace(box, body=tuple(part for part in box.body if "<path" not in part))


def _line(boxes: Sequence[_Box]) -> _Box:
    """A running sum over boxes: a line above or through them from left to right, which leaves above
    the last."""
    body, x, drawn, start, height = [], 0.0, [], (0.0, 0.0), 0.0
    for k, box in enumerate(boxes):
        y = LINE - (TALL - 16) / 2 if box.inline else LINE + RISE - 14
        body.append(box.at(x, y))
        height = max(height, y + box.height)
        out = x + box.out
        if box.out >= 0 and not box.inline:
            drawn.append(_wire(out, LINE, y) + (_plus(out, LINE) if k else ""))
        if k == 0:
            start = (out, y)
        if box.out >= 0:
            end = out if not box.inline else x + box.width + 10
        x += box.width + BETWEEN
    line = svg.path([(start[0], LINE), (end, LINE), (end, 0)], class_="wire")
    return _Box(max(x - BETWEEN, end), height, end, (line, *drawn, *body))


def _plus(x: float, y: float) -> str:
    cross = f"M{x - 4.5:.1f} {y}h9M{x:.1f} {y - 4.5}v9"
    return svg.circle(x, y, 8, class_="joint") + svg.element("path", class_="wire", d=cross)
