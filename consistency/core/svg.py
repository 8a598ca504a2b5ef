"""SVG charts: elements with escaped attributes, scales, axes, and documents in light and dark with
a title and a description for accessibility."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from html import escape

# Distinct in hue and in lightness (Okabe and Ito 2008).
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9")
STYLE = """
svg{background:var(--b);color:var(--f);font:13px system-ui,-apple-system,"Segoe UI",sans-serif}
svg{--b:#fff;--f:#1f2328;--g:#d9dde2;--m:#656d76}
@media (prefers-color-scheme:dark){svg{--b:#0d1117;--f:#e6edf3;--g:#30363d;--m:#8d96a0}}
text{fill:var(--f)} .muted{fill:var(--m)} .grid{stroke:var(--g)} .line{fill:none}
.title{font-size:17px;font-weight:600} .strong{font-weight:600}
"""
Scale = Callable[[float], float]
Point = tuple[float, float]


def element(tag: str, content: str = "", /, **attributes: object) -> str:
    """One element around ``content``, which is markup. ``class_`` means class, ``text_anchor``
    text-anchor; attributes that are None are left out."""
    named = (
        f' {name.rstrip("_").replace("_", "-")}="{_value(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    head = f"<{tag}{''.join(named)}"
    return f"{head}>{content}</{tag}>" if content else f"{head}/>"


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(str(value))


def text(x: float, y: float, words: str, **attributes: object) -> str:
    return element("text", escape(words), x=x, y=y, **attributes)


def line(x1: float, y1: float, x2: float, y2: float, tip: str = "", **attributes: object) -> str:
    """``tip``: the tooltip."""
    return element("line", _title(tip), x1=x1, y1=y1, x2=x2, y2=y2, **attributes)


def _title(tip: str) -> str:
    return element("title", escape(tip)) if tip else ""


def circle(x: float, y: float, radius: float, **attributes: object) -> str:
    return element("circle", cx=x, cy=y, r=radius, **attributes)


def rect(
    x: float, y: float, width: float, height: float, tip: str = "", **attributes: object
) -> str:
    return element("rect", _title(tip), x=x, y=y, width=width, height=height, **attributes)


def path(points: Sequence[Point], end: str = "", /, **attributes: object) -> str:
    """Straight lines from point to point; ``end`` is Z for a closed one."""
    places = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return element("path", **attributes, d=f"M{places}{end}")


def group(x: float, y: float, parts: Iterable[str]) -> str:
    return element("g", "".join(parts), transform=f"translate({x:.1f} {y:.1f})")


def document(
    title: str, description: str, width: float, height: float, parts: Iterable[str], style: str = ""
) -> str:
    """A complete file."""
    size = (_value(float(width)), _value(float(height)))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" '
        f'width="{size[0]}" height="{size[1]}" role="img">'
    )
    labels = element("title", escape(title)) + element("desc", escape(description))
    return "\n".join([head, labels, f"<style>{STYLE}{style}</style>", *parts, "</svg>", ""])


def inline(
    label: str, width: float, height: float, parts: Iterable[str], class_: str | None = None
) -> str:
    """A chart inside a page with the page's style. Without a label it is decoration."""
    kind = {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    size = f"0 0 {_value(float(width))} {_value(float(height))}"
    return element("svg", "\n".join(parts), class_=class_, viewBox=size, **kind)


def log_scale(values: Sequence[float], start: float, end: float) -> Scale:
    """A logarithmic map from numbers to positions, with a margin at both ends."""
    low, high = math.log(min(values)), math.log(max(values))
    margin = 0.04 * (high - low) or 1.0
    return lambda value: (
        start + (end - start) * (math.log(value) - low + margin) / (high - low + 2.0 * margin)
    )


def linear_scale(low: float, high: float, start: float, end: float) -> Scale:
    return lambda value: start + (end - start) * (value - low) / ((high - low) or 1.0)


def decades(low: float, high: float, most: int) -> range:
    """Powers of ten between two numbers, about ``most`` of them."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    return range(first, last + 1, max((last - first) // most + ((last - first) % most > 0), 1))


def y_axis(
    ticks: Iterable[tuple[float, str]], left: float, right: float, gap: float = 8, **words: object
) -> Iterator[str]:
    """Horizontal grid lines, each with its label to the left."""
    for y, label in ticks:
        yield line(left, y, right, y, class_="grid")
        yield text(left - gap, y + 4, label, text_anchor="end", **words)


def x_axis(
    ticks: Iterable[tuple[float, str]], top: float, bottom: float, **words: object
) -> Iterator[str]:
    """Vertical grid lines, each with its label below."""
    for x, label in ticks:
        yield line(x, top, x, bottom, class_="grid")
        yield text(x, bottom + 17, label, text_anchor="middle", **words)
