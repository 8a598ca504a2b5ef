"""A function of one number at every float32 input, compared with float64: the worst inputs, and the
largest error per exponent.

Bit patterns are processed in blocks of one sign and one exponent each, so that memory stays
bounded. The state after any block is a valid partial result from which the comparison can resume.
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
_AHEAD = 4  # blocks submitted to a worker process at once
_LEAST = 2.0**-126
Span = tuple[int, int]  # bit patterns from … below


@dataclass(frozen=True, slots=True)
class Bin:
    """Inputs of one sign and exponent (``head``, their first 9 bits): their number, the number
    misrounded, the largest error in ulp and its input (``worst``)."""

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
        """Exponent of the inputs; -127 for subnormal numbers, 128 for infinity and NaN."""
        return (self.head & 0xFF) - 127

    @property
    def negative(self) -> bool:
        return self.head >= 256


@dataclass
class ExhaustiveComparison:
    """A comparison, possibly partial. ``upto`` counts finished blocks, ``counts`` mismatches by
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
    examples: dict[str, int] = field(default_factory=dict)  # one input per kind of mismatch

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
        return sum(bin_.inputs for bin_ in self.bins.values())

    @property
    def misrounded(self) -> int:
        return sum(bin_.misrounded for bin_ in self.bins.values())

    @property
    def ulp(self) -> float:
        """The largest error; 0.5 if all results are correctly rounded."""
        return max((bin_.ulp for bin_ in self.bins.values()), default=0.0)

    def to_json(self) -> dict[str, Any]:
        rows = [
            [bin_.head, bin_.inputs, bin_.misrounded, bin_.ulp, bin_.worst]
            for bin_ in sorted(self.bins.values(), key=lambda b: b.head)
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
        """Raises BundleError for any other data."""
        try:
            if data["exhaustive"] != FORMAT or data["dtype"] != "float32":
                raise ValueError("another format")
            spans = tuple(_span(*map(_count, span)) for span in data["spans"][:4])
            bins = [
                Bin(_count(h, 511), _count(n), _count(m), _error(u), _count(w))
                for h, n, m, u, w in data["bins"][:512]
            ]
            return ExhaustiveComparison(
                str(data["function"])[:100], str(data["backend"])[:300], spans,
                {str(k)[:100]: str(v)[:400] for k, v in list(data["environment"].items())[:100]},
                _count(data["upto"]),
                _error(data["seconds"]), {bin_.head: bin_ for bin_ in bins},
                [(_error(e), _count(i), _count(r)) for e, i, r in data["worst"][:WORST]],
                {str(k)[:40]: _count(v) for k, v in list(data["counts"].items())[:20]},
                {str(k)[:40]: _count(v) for k, v in list(data["examples"].items())[:20]},
            )  # fmt: skip
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise BundleError(
                f"not a result of fingerprint --exhaustive: {type(error).__name__} "
                f"{str(error)[:80]}"
            ) from None

    def literal(self) -> Literal:
        """The worst inputs overall and per exponent, as a tensor for a case."""
        chosen = dict.fromkeys(
            [row[1] for row in self.worst]
            + [bin_.worst for bin_ in self.bins.values() if bin_.ulp > 0.5]
        )
        patterns = np.array([p for p in chosen if p & ~SIGN <= INFINITY], dtype="<u4")
        return Literal(patterns.tobytes(), "float32", patterns.shape, (1,))


def _count(value: Any, max_value: int = END) -> int:
    if type(value) is not int or not 0 <= value <= max_value:
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
    """The operator's full name. Raises UsageError unless it is an elementwise function of one
    tensor that supports float64."""
    short = {
        registered.rpartition(".")[2]: registered
        for registered in operators.registry()
        if registered.startswith(("nn.functional.", "special."))
    }
    full = name if name in operators.registry() else short.get(name, name)
    operator = operators.get(full)
    try:
        with torch.no_grad():
            result = operator(torch.tensor([0.5, 1.5], dtype=torch.float64))
        is_elementwise = (
            isinstance(result, torch.Tensor)
            and result.shape == (2,)
            and result.dtype == torch.float64
        )
    except Exception:
        is_elementwise = False
    if not is_elementwise or "random" in operator.traits:
        raise UsageError(
            f"--exhaustive {name}: not a function of one number, such as exp, tanh, gelu"
        )
    return full


_NUMBER = r"\s*([-+]?)(?:(2)\s*\^\s*([-+]?\d+)|(\d+\.?\d*(?:e[-+]?\d+)?|\.\d+|inf))\s*"


def spans_of(text: str) -> tuple[Span, ...]:
    """Bit patterns of ``LOW..HIGH`` (2^-10..2^10, -1..1, 0..inf), positive numbers first.

    Empty text means all, including NaN. Raises UsageError.
    """
    if not text:
        return ((0, END),)
    match = re.fullmatch(_NUMBER + r"\.\." + _NUMBER, text.strip())
    if match is None:
        raise UsageError(
            f"--range {text!r}: expected LOW..HIGH such as 2^-10..2^10, -1..1 or 0..inf"
        )
    low, high = (_value(*match.groups()[i : i + 4]) for i in (0, 4))
    if low > high:
        raise UsageError(f"--range {text!r}: {low:g} is not below {high:g}")
    spans = []
    if high >= 0.0:
        spans.append((_first_pattern(max(low, 0.0)), _end_pattern(high)))
    if low < 0.0:
        spans.append((SIGN + _first_pattern(max(-high, 0.0)), SIGN + _end_pattern(-low)))
    return tuple(spans)


def _value(sign: str, two: str | None, power: str | None, number: str | None) -> float:
    size = (
        math.ldexp(1.0, max(-2000, min(int(power), 1023))) if two and power else float(number or 0)
    )
    return -size if sign == "-" else size


def _pattern(value: float) -> int:
    return int(np.array(value, dtype=np.float64).astype(np.float32).view(np.uint32))


def _first_pattern(value: float) -> int:
    """The pattern of the smallest number ≥ ``value``."""
    with np.errstate(over="ignore"):
        pattern = _pattern(value)
        return pattern + (float(np.array(pattern, dtype=np.uint32).view(np.float32)) < value)


def _end_pattern(value: float) -> int:
    """The pattern after that of the largest number ≤ ``value``."""
    with np.errstate(over="ignore"):
        pattern = _pattern(value)
        return pattern + (float(np.array(pattern, dtype=np.uint32).view(np.float32)) <= value)


def _blocks(spans: Sequence[Span]) -> Iterator[Span]:
    """Ranges of one sign and exponent each."""
    for start, stop in spans:
        while start < stop:
            end = min(stop, (start // BLOCK + 1) * BLOCK)
            yield start, end
            start = end


def sweep(ask: Ask, found: ExhaustiveComparison) -> Iterator[ExhaustiveComparison]:
    """Continue the comparison ``found`` and yield it after each block. Raises NotAnswered if the
    backend gives no result."""
    todo = list(_blocks(found.spans))[found.upto :]
    for first in range(0, len(todo), _AHEAD):
        part = todo[first : first + _AHEAD]
        blocks = [np.arange(start, stop, dtype=np.uint32) for start, stop in part]
        requests = [
            call(found.function, "float32", from_words(patterns, "float32")) for patterns in blocks
        ]
        for patterns, answer in zip(blocks, ask.many(requests), strict=True):
            if answer.shape != patterns.shape or answer.dtype != torch.float32:
                raise NotAnswered(
                    f"{found.function}: {tuple(answer.shape)} {answer.dtype} came back"
                )
            _add(found, patterns, words(answer))
            found.upto += 1
            yield found


def _add(
    comparison: ExhaustiveComparison, patterns: np.ndarray[Any, Any], got: np.ndarray[Any, Any]
) -> None:
    expected = reference(comparison.function, from_words(patterns, "float32"))
    nearest = words(torch.from_numpy(expected).to(torch.float32))
    mismatched = np.flatnonzero(got != nearest)
    value, exact = got[mismatched].view(np.float32).astype(np.float64), expected[mismatched]
    kinds = _kinds(value, exact)
    for kind, members in kinds.items():
        count = int(members.sum())
        if count:
            comparison.counts[kind] = comparison.counts.get(kind, 0) + count
            comparison.examples.setdefault(kind, int(patterns[mismatched[np.argmax(members)]]))
    plain = ~np.logical_or.reduce([*kinds.values(), np.isnan(exact), np.isinf(exact)])
    with np.errstate(over="ignore", invalid="ignore"):
        spacing = np.ldexp(1.0, np.maximum(np.frexp(np.where(plain, exact, 1.0))[1] - 1, -126) - 23)
        error = np.where(plain, np.abs(value - exact) / spacing, 0.0)
    head = int(patterns[0]) >> 23
    counted = int(np.count_nonzero(plain))
    max_error = float(error.max()) if counted else 0.0
    max_error_input = int(patterns[mismatched[np.argmax(error)]]) if counted else int(patterns[0])
    block_bin = Bin(head, len(patterns), counted, max(max_error, 0.5), max_error_input)
    comparison.bins[head] = (
        comparison.bins[head].with_more(block_bin) if head in comparison.bins else block_bin
    )
    worst_threshold = comparison.worst[-1][0] if len(comparison.worst) == WORST else 0.5
    for i in np.flatnonzero(error > worst_threshold)[
        np.argsort(-error[error > worst_threshold], kind="stable")[:WORST]
    ]:
        comparison.worst.append(
            (float(error[i]), int(patterns[mismatched[i]]), int(got[mismatched[i]]))
        )
    comparison.worst = sorted(comparison.worst, key=lambda row: (-row[0], row[1]))[:WORST]


def _kinds(
    value: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Masks of mismatches that cannot be measured in ulp. NaN payloads are not compared."""
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
