"""Every float32 input of a function of one number, against float64: the worst inputs, and the
largest error for each exponent.

Bit patterns are walked through in blocks, each with one sign and one exponent, so memory stays
bounded; the state after every few seconds is the result so far, and going on from it is all that
resuming means.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ... import operators
from ...core.recipe import Literal
from ...errors import BundleError, UsageError
from .elementary import reference
from .query import Ask, NotAnswered, call, from_words, words

FORMAT = 1
BLOCK = 1 << 20  # patterns; 2^23 have one exponent
WORST = 20
INFINITY, SIGN, END = 0x7F800000, 0x80000000, 1 << 32
_AHEAD = 4  # blocks that a worker process is told of at once
_LEAST = 2.0**-126
Span = tuple[int, int]  # bit patterns from … below


@dataclass(frozen=True, slots=True)
class Bin:
    """Inputs of one sign and exponent (their first 9 bits): how many, how many misrounded, the
    largest error, its input."""

    head: int
    inputs: int = 0
    misrounded: int = 0
    ulp: float = 0.0
    worst: int = 0

    def with_more(self, other: Bin) -> Bin:
        larger = other if other.ulp > self.ulp else self
        return Bin(
            self.head,
            self.inputs + other.inputs,
            self.misrounded + other.misrounded,
            larger.ulp,
            larger.worst,
        )

    @property
    def power(self) -> int:
        """Exponent of the numbers; -127 stands for subnormal ones, 128 for infinity and NaN."""
        return (self.head & 0xFF) - 127

    @property
    def negative(self) -> bool:
        return self.head >= 256


@dataclass
class ExhaustiveComparison:
    """What is known so far. ``upto`` counts the blocks that are done; ``counts`` are mismatches by
    kind."""

    function: str
    backend: str
    spans: tuple[Span, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    upto: int = 0
    seconds: float = 0.0
    bins: dict[int, Bin] = field(default_factory=dict)
    worst: list[tuple[float, int, int]] = field(default_factory=list)  # error, input, result
    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)  # of each kind of mismatch, an input

    @property
    def total(self) -> int:
        return sum(stop - start for start, stop in self.spans)

    @property
    def blocks(self) -> int:
        return len(list(_blocks(self.spans)))

    @property
    def complete(self) -> bool:
        return self.upto >= self.blocks

    @property
    def inputs(self) -> int:
        return sum(one.inputs for one in self.bins.values())

    @property
    def misrounded(self) -> int:
        return sum(one.misrounded for one in self.bins.values())

    @property
    def ulp(self) -> float:
        """The largest error; 0.5 where every result is the nearest number."""
        return max((one.ulp for one in self.bins.values()), default=0.0)

    def to_json(self) -> dict[str, Any]:
        rows = [
            [one.head, one.inputs, one.misrounded, one.ulp, one.worst]
            for one in sorted(self.bins.values(), key=lambda b: b.head)
        ]
        return {
            "exhaustive": FORMAT, "function": self.function, "dtype": "float32",
            "backend": self.backend,
            "environment": dict(self.environment), "spans": [list(span) for span in self.spans],
            "upto": self.upto,
            "blocks": self.blocks, "complete": self.complete, "seconds": round(self.seconds, 3),
            "ulp": self.ulp,
            "inputs": self.inputs, "misrounded": self.misrounded, "counts": self.counts,
            "examples": self.examples,
            "worst": [list(row) for row in self.worst], "bins": rows,
        }  # fmt: skip

    @staticmethod
    def from_json(data: Any) -> ExhaustiveComparison:
        """Raises BundleError for what is no such result, whatever it is."""
        try:
            if data["exhaustive"] != FORMAT or data["dtype"] != "float32":
                raise ValueError("another format")
            spans = tuple(_span(*map(_whole, span)) for span in data["spans"][:4])
            bins = [
                Bin(_whole(h, 511), _whole(n), _whole(m), _error(u), _whole(w))
                for h, n, m, u, w in data["bins"][:512]
            ]
            return ExhaustiveComparison(
                str(data["function"])[:100], str(data["backend"])[:300], spans,
                {str(k)[:100]: str(v)[:400] for k, v in list(data["environment"].items())[:100]},
                _whole(data["upto"]),
                _error(data["seconds"]), {one.head: one for one in bins},
                [(_error(e), _whole(i), _whole(r)) for e, i, r in data["worst"][:WORST]],
                {str(k)[:40]: _whole(v) for k, v in list(data["counts"].items())[:20]},
                {str(k)[:40]: _whole(v) for k, v in list(data["examples"].items())[:20]},
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise BundleError(
                f"not a result of fingerprint --exhaustive: {type(error).__name__} "
                f"{str(error)[:80]}"
            ) from None

    def literal(self) -> Literal:
        """The worst inputs of all, and of every exponent, as a tensor for a case."""
        chosen = dict.fromkeys(
            [row[1] for row in self.worst]
            + [one.worst for one in self.bins.values() if one.ulp > 0.5]
        )
        patterns = np.array([p for p in chosen if p & ~SIGN <= INFINITY], dtype="<u4")
        return Literal(patterns.tobytes(), "float32", patterns.shape, (1,))


def _whole(value: Any, most: int = END) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{str(value)[:20]} is no count")
    return value


def _error(value: Any) -> float:
    number = float(value)
    if not number >= 0.0:
        raise ValueError(f"{str(value)[:20]} is no error")
    return number


def _span(start: int, stop: int) -> Span:
    if not 0 <= start < stop <= END:
        raise ValueError("no range of bit patterns")
    return start, stop


def function_named(name: str) -> str:
    """The operator's full name. Raises UsageError unless it is a function of one tensor that
    float64 has too."""
    short = {
        known.rpartition(".")[2]: known
        for known in operators.registry()
        if known.startswith(("nn.functional.", "special."))
    }
    full = name if name in operators.registry() else short.get(name, name)
    operator = operators.get(full)
    try:
        with torch.no_grad():
            found = operator(torch.tensor([0.5, 1.5], dtype=torch.float64))
        sound = (
            isinstance(found, torch.Tensor) and found.shape == (2,) and found.dtype == torch.float64
        )
    except Exception:
        sound = False
    if not sound or "random" in operator.traits:
        raise UsageError(
            f"--exhaustive {name}: not a function of one number, such as exp, tanh, gelu"
        )
    return full


_NUMBER = r"\s*([-+]?)(?:(2)\s*\^\s*([-+]?\d+)|(\d+\.?\d*(?:e[-+]?\d+)?|\.\d+|inf))\s*"


def spans_of(text: str) -> tuple[Span, ...]:
    """Bit patterns of ``LOW..HIGH`` (2^-10..2^10, -1..1, 0..inf): those of the positive numbers,
    then of the negative ones.

    Empty text: all of them, NaN too. Raises UsageError.
    """
    if not text:
        return ((0, END),)
    found = re.fullmatch(_NUMBER + r"\.\." + _NUMBER, text.strip())
    if found is None:
        raise UsageError(
            f"--range {text!r}: expected LOW..HIGH such as 2^-10..2^10, -1..1 or 0..inf"
        )
    low, high = (_value(*found.groups()[i : i + 4]) for i in (0, 4))
    if low > high:
        raise UsageError(f"--range {text!r}: {low:g} is not below {high:g}")
    spans = []
    if high >= 0.0:
        spans.append((_inside(max(low, 0.0)), _outside(high)))
    if low < 0.0:
        spans.append((SIGN + _inside(max(-high, 0.0)), SIGN + _outside(-low)))
    return tuple(spans)


def _value(sign: str, two: str | None, power: str | None, number: str | None) -> float:
    size = (
        math.ldexp(1.0, max(-2000, min(int(power), 1023))) if two and power else float(number or 0)
    )
    return -size if sign == "-" else size


def _pattern(value: float) -> int:
    return int(np.array(value, dtype=np.float64).astype(np.float32).view(np.uint32))


def _inside(value: float) -> int:
    """The smallest pattern of a number that is not below ``value``."""
    with np.errstate(over="ignore"):
        found = _pattern(value)
        return found + (float(np.array(found, dtype=np.uint32).view(np.float32)) < value)


def _outside(value: float) -> int:
    """The pattern behind that of the largest number that is not above ``value``."""
    with np.errstate(over="ignore"):
        found = _pattern(value)
        return found + (float(np.array(found, dtype=np.uint32).view(np.float32)) <= value)


def _blocks(spans: Sequence[Span]) -> Iterator[Span]:
    """Pieces with one sign and exponent each."""
    for start, stop in spans:
        while start < stop:
            end = min(stop, (start // BLOCK + 1) * BLOCK)
            yield start, end
            start = end


def sweep(ask: Ask, found: ExhaustiveComparison) -> Iterator[ExhaustiveComparison]:
    """Goes on where ``found`` stands, and yields it after each block. Raises NotAnswered where the
    backend gives no result."""
    todo = list(_blocks(found.spans))[found.upto :]
    for first in range(0, len(todo), _AHEAD):
        part = todo[first : first + _AHEAD]
        given = [np.arange(start, stop, dtype=np.uint32) for start, stop in part]
        asked = [
            call(found.function, "float32", from_words(patterns, "float32")) for patterns in given
        ]
        for patterns, answer in zip(given, ask.many(asked), strict=True):
            if answer.shape != patterns.shape or answer.dtype != torch.float32:
                raise NotAnswered(
                    f"{found.function}: {tuple(answer.shape)} {answer.dtype} came back"
                )
            _add(found, patterns, words(answer))
            found.upto += 1
            yield found


def _add(
    found: ExhaustiveComparison, patterns: np.ndarray[Any, Any], got: np.ndarray[Any, Any]
) -> None:
    wanted = reference(found.function, from_words(patterns, "float32"))
    nearest = words(torch.from_numpy(wanted).to(torch.float32))
    other = np.flatnonzero(got != nearest)
    value, exact = got[other].view(np.float32).astype(np.float64), wanted[other]
    kinds = _kinds(value, exact)
    for kind, members in kinds.items():
        count = int(members.sum())
        if count:
            found.counts[kind] = found.counts.get(kind, 0) + count
            found.examples.setdefault(kind, int(patterns[other[np.argmax(members)]]))
    plain = ~np.logical_or.reduce([*kinds.values(), np.isnan(exact), np.isinf(exact)])
    with np.errstate(over="ignore", invalid="ignore"):
        spacing = np.ldexp(1.0, np.maximum(np.frexp(np.where(plain, exact, 1.0))[1] - 1, -126) - 23)
        error = np.where(plain, np.abs(value - exact) / spacing, 0.0)
    head = int(patterns[0]) >> 23
    counted = int(np.count_nonzero(plain))
    most = float(error.max()) if counted else 0.0
    where = int(patterns[other[np.argmax(error)]]) if counted else int(patterns[0])
    one = Bin(head, len(patterns), counted, max(most, 0.5), where)
    found.bins[head] = found.bins[head].with_more(one) if head in found.bins else one
    least = found.worst[-1][0] if len(found.worst) == WORST else 0.5
    for i in np.flatnonzero(error > least)[
        np.argsort(-error[error > least], kind="stable")[:WORST]
    ]:
        found.worst.append((float(error[i]), int(patterns[other[i]]), int(got[other[i]])))
    found.worst = sorted(found.worst, key=lambda row: (-row[0], row[1]))[:WORST]


def _kinds(
    value: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Mismatches that are no errors in ulp. A payload of NaN is none at all."""
    largest = float(np.finfo(np.float32).max)
    nan = np.isnan(value) != np.isnan(exact)
    infinite = ~nan & (np.isinf(value) != (np.abs(exact) > largest)) & ~np.isnan(exact)
    zero = ~nan & (value == 0.0) & (exact == 0.0)
    flushed = ~nan & (value == 0.0) & (exact != 0.0) & (np.abs(exact) < _LEAST)
    return {
        "NaN": nan,
        "infinity": infinite,
        "sign of zero": zero,
        "subnormal result is 0": flushed,
    }
