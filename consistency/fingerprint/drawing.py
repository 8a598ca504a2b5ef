"""A summation tree as a picture (SVG): terms at the bottom, sums above, what repeats drawn once or twice.

A block is a running sum over its terms. Blocks (and anything else) that join a running sum hang below one line, on which it goes
from left to right; a triangle stands for levels of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .notation import BIAS, Form, Run, form
from .trees import Tree

STYLE = """
svg{background:var(--b);color:var(--f);font:13px system-ui,-apple-system,"Segoe UI",sans-serif}
svg{--b:#fff;--f:#1f2328;--m:#656d76;--k:#dbe9f6;--s:#0072b2;--o:#d55e00;--p:#fbe3d2;--t:#e8f3ec;--u:#009e73}
@media (prefers-color-scheme:dark){svg{--b:#0d1117;--f:#e6edf3;--m:#8d96a0}
svg{--k:#12304a;--s:#56b4e9;--p:#46250c;--o:#f08c4a;--t:#11301f;--u:#3fc28f}}
text{fill:var(--f);text-anchor:middle} .m{fill:var(--m);font-size:11px} .l{stroke:var(--f);stroke-width:1.4;fill:none}
.k{fill:var(--k);stroke:var(--s);stroke-width:1.2}
.p{fill:var(--p);stroke:var(--o);stroke-width:1.4} .t{fill:var(--t);stroke:var(--u)}
.j{fill:var(--b);stroke:var(--f);stroke-width:1.4} .d{fill:none;stroke:var(--m);stroke-dasharray:4 3}
.h{text-anchor:start;font-size:17px;font-weight:600} .i{text-anchor:start} .n{text-anchor:start;font-size:12px;fill:var(--m)}
"""
MARGIN, BETWEEN, LEAF, TALL, RISE = 24, 14, 30, 52, 34
SHOWN = 7  # more equal parts than this are drawn as the first two and the last


@dataclass(frozen=True)
class _Box:
    """A drawn subtree: its size, the place on its upper edge from which its sum goes on, and what is drawn, from (0, 0) on."""

    width: float
    height: float
    out: float
    body: tuple[str, ...]

    def at(self, x: float, y: float) -> str:
        return f'<g transform="translate({x:.1f} {y:.1f})">{"".join(self.body)}</g>'


def drawing(title: str, trees: Sequence[tuple[str, str, Tree]], notes: Sequence[str] = ()) -> str:
    """One SVG document: ``(name, words, tree)`` below each other, and ``notes`` as lines under the title."""
    boxes = [_of(form(tree), 0) for _, _, tree in trees]
    width = max(800.0, *(box.width + 2 * MARGIN for box in boxes))
    lines = [part for note in notes for part in _wrapped(note, int(width / 7.2))]
    parts = [f'<text class="h" x="{MARGIN}" y="34">{escape(title)}</text>']
    y = 54.0
    for line in lines:
        parts.append(f'<text class="n" x="{MARGIN}" y="{y:.0f}">{escape(line)}</text>')
        y += 18
    for (name, words, _), box in zip(trees, boxes, strict=True):
        y += 26
        parts.append(f'<text class="i" font-weight="600" x="{MARGIN}" y="{y:.0f}">{escape(name)}</text>')
        for line in _wrapped(words, int(width / 7.2)):
            y += 18
            parts.append(f'<text class="n" x="{MARGIN}" y="{y:.0f}">{escape(line)}</text>')
        y += 44
        out = MARGIN + box.out
        parts.append(f'<line class="l" x1="{out:.1f}" x2="{out:.1f}" y1="{y - 18:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{out:.1f}" y="{y - 22:.1f}" font-weight="600">Σ</text>')
        parts.append(box.at(MARGIN, y))
        y += box.height + 10
    size = f'viewBox="0 0 {width:.0f} {y + 10:.0f}" width="{width:.0f}" height="{y + 10:.0f}"'
    told = escape(" · ".join([*notes, *(f"{name}: {words}" for name, words, _ in trees)]))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{escape(title)}</title><desc>{told}</desc>'
    return "\n".join([head, f"<style>{STYLE}</style>", *parts, "</svg>", ""])


def _of(whole: Form, first: int) -> _Box:
    if not whole.runs:
        return _leaf(BIAS if whole.how == BIAS else str(first), BIAS if whole.how == BIAS else "")
    if whole.how in ("pairwise", "halving"):
        return _levels(whole, first)
    if whole.how.startswith("at once"):
        return _once(whole, first)
    boxes = [box for run in whole.runs for box in _run(run, first)]
    return _line(boxes) if len(boxes) > 1 else boxes[0]


def _run(run: Run, first: int) -> list[_Box]:
    start = first + run.offset
    if not run.part.runs:
        if run.part.how == BIAS or run.count == 1:
            return [_of(run.part, start)]
        return [_block(run.count, start, run.step)]
    if run.part.how == "on the way":
        words = str(run.part)
        return [_text(f"{run.count} × ({words if len(words) < 40 else words[:38] + '…'})", "in one running sum")]
    places = range(run.count)
    if run.count <= SHOWN:
        return [_of(run.part, start + k * run.step) for k in places]
    ends = [_of(run.part, start + k * run.step) for k in (0, 1, run.count - 1)]
    return [*ends[:2], _dots(run.count - 3), ends[2]]


def _block(count: int, first: int, step: int) -> _Box:
    """A running sum over single terms."""
    last = first + (count - 1) * step
    below = f"{first} … {last}" + (f", step {abs(step)}" if abs(step) > 1 else "")
    width = max(46.0, 7.0 * len(below) + 8, min(30 + count / 4, 110))
    staircase = "".join(f"M{width / 2 - 16 + 8 * k:.1f} 30v-5h8" for k in range(4))
    body = (
        f'<rect class="k" width="{width:.1f}" height="{TALL - 16}" rx="4"/>',
        f'<path class="l" d="{staircase}" opacity="0.55"/><text x="{width / 2:.1f}" y="16" font-weight="600">{count}</text>',
        f'<text class="m" x="{width / 2:.1f}" y="{TALL}">{below}</text>',
    )
    return _Box(width, TALL + 4, width / 2, body)


def _leaf(words: str, kind: str) -> _Box:
    width = max(LEAF, 9.0 * len(words) + 8)
    style = "p" if kind == BIAS else "k"
    body = (
        f'<rect class="{style}" width="{width:.1f}" height="24" rx="12"/><text x="{width / 2:.1f}" y="16">{escape(words)}</text>',
    )
    return _Box(width, 28, width / 2, body)


def _text(words: str, below: str) -> _Box:
    width = 7.4 * len(words) + 16
    body = (
        f'<rect class="k" width="{width:.1f}" height="{TALL - 16}" rx="4"/><text x="{width / 2:.1f}" y="23">{escape(words)}</text>',
        f'<text class="m" x="{width / 2:.1f}" y="{TALL}">{escape(below)}</text>',
    )
    return _Box(width, TALL + 4, width / 2, body)


def _dots(count: int) -> _Box:
    body = (f'<text x="30" y="12">⋯</text><text class="m" x="30" y="30">{count} more alike</text>',)
    return _Box(84, 34, -1, tuple(part.replace('x="30"', 'x="42"') for part in body))


def _line(boxes: Sequence[_Box]) -> _Box:
    """Boxes that join a running sum, which goes on a line above them from left to right; the sum leaves above the last."""
    body, x, outs = [], 0.0, []
    for box in boxes:
        body.append(box.at(x, RISE))
        if box.out >= 0:
            outs.append(x + box.out)
        x += box.width + BETWEEN
    drawn = [f'<path class="l" d="M{outs[0]:.1f} {RISE}V14H{outs[-1]:.1f}V0"/>']
    drawn += [f'<line class="l" x1="{o:.1f}" x2="{o:.1f}" y1="14" y2="{RISE}"/>' + _plus(o, 14) for o in outs[1:]]
    return _Box(x - BETWEEN, RISE + max(box.height for box in boxes), outs[-1], (*drawn, *body))


def _levels(whole: Form, first: int) -> _Box:
    """Balanced pairs over equal parts: a triangle."""
    (run,) = whole.runs
    if run.part.runs:
        boxes = _run(run, first)
    else:
        boxes = [_block(run.count, first + run.offset, run.step)]
        boxes = [_Box(b.width, b.height, b.out, (b.body[0], b.body[1].split("/>", 1)[1], *b.body[2:])) for b in boxes]
    top, x, body = 44.0, 0.0, []
    for box in boxes:
        body.append(box.at(x, top + 8))
        if box.out >= 0 and run.part.runs:
            body.append(f'<line class="l" x1="{x + box.out:.1f}" x2="{x + box.out:.1f}" y1="{top}" y2="{top + 8}"/>')
        x += box.width + BETWEEN
    width = max(x - BETWEEN, 110.0)
    words = f"{whole.how} {run.count}"
    body.insert(0, f'<path class="t" d="M0 {top}L{width / 2 - 60:.1f} 0h120L{width:.1f} {top}Z"/>')
    body.insert(1, f'<text x="{width / 2:.1f}" y="27">{words}</text>')
    return _Box(width, top + 8 + max(box.height for box in boxes), width / 2, tuple(body))


def _once(whole: Form, first: int) -> _Box:
    """One addition that takes several terms."""
    boxes = []
    for run in whole.runs:
        single = not run.part.runs and run.part.how != BIAS
        boxes += (
            [_of(run.part, first + run.offset + k * run.step) for k in range(run.count)]
            if single and run.count <= SHOWN
            else [_text(f"{run.count} terms", f"from {first + run.offset}")]
            if single
            else _run(run, first)
        )
    x, body = 0.0, []
    for box in boxes:
        body.append(box.at(x, 34))
        if box.out >= 0:
            body.append(f'<line class="l" x1="{x + box.out:.1f}" x2="{x + box.out:.1f}" y1="22" y2="34"/>')
        x += box.width + 6
    width = max(x - 6, 60.0)
    extra = " + sum so far" if whole.how.endswith("sum") else ""
    body.append(f'<rect class="t" width="{width:.1f}" height="22" rx="4"/><text x="{width / 2:.1f}" y="15">at once{extra}</text>')
    return _Box(width, 34 + max(box.height for box in boxes), width / 2, tuple(body))


def _plus(x: float, y: float) -> str:
    return f'<circle class="j" cx="{x:.1f}" cy="{y}" r="8"/><path class="l" d="M{x - 4.5:.1f} {y}h9M{x:.1f} {y - 4.5}v9"/>'


def _wrapped(text: str, width: int) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) + 1 > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return [*lines, line] if line else lines
