"""Find a short condition that separates failing from passing cases. It is tested on cases, never
derived from a single one.

Candidates hold for the given case: its layouts, arguments, value classes and special values, and
thresholds on its sizes at the values of other cases. Conjunctions of up to three are ranked by the
failing and passing cases they cover.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...core.model import Case
from ...core.recipe import Literal, TensorRecipe
from ...judge.known.argument_names import argument_name
from ...judge.known.case_facts import UNKNOWN, Facts
from ...judge.known.dimensions import dimension_names
from ...judge.known.predicate import PredicateError, parse, value_of

MOST_ATOMS = 240
MOST_IN_TRIPLES = 70
MOST_THRESHOLDS = 10  # per size and direction
CLEAN = 0.1  # bonus if no passing case is covered; the F-measure is in 0 … 1
LENGTH = 0.004  # penalty per unit of length
_RESIDUES = (2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A condition (``""``: none is needed or found), and how many of the tested cases it covers."""

    when: str
    failing: int
    of_failing: int
    passing: int
    of_passing: int

    @property
    def rate(self) -> float:
        """The share of failing cases among those covered."""
        return self.failing / max(self.failing + self.passing, 1)

    @property
    def least_rate(self) -> float:
        """Lower bound of the failure rate if no covered case passes, with 95% confidence (exact
        binomial bound)."""
        return 0.05 ** (1.0 / self.failing) if self.failing else 0.0


@dataclass(frozen=True, slots=True)
class _Atom:
    """A candidate and the cases it covers, as bits of an integer. ``cost``: lower for conditions
    that are easier to read."""

    text: str
    cost: float
    failing: int
    passing: int


def narrow(case: Case, failing: Sequence[Case], passing: Sequence[Case]) -> Narrowed:
    """The condition that holds for ``case``, for as many failing cases as possible, and for no
    passing one if possible."""
    if not passing:
        return Narrowed("", len(failing), len(failing), 0, 0)
    facts = [Facts(one) for one in failing], [Facts(one) for one in passing]
    atoms = [_atom(text, cost, *facts) for text, cost in _candidates(Facts(case), *facts)]
    atoms = _distinct(atoms)[:MOST_ATOMS]
    everything = _Atom("", 0.0, (1 << len(failing)) - 1, (1 << len(passing)) - 1)
    best = min(
        _conjunctions(atoms, everything), key=lambda conjunction: _score(conjunction, len(failing))
    )
    best = (_tighten_thresholds(best[0], facts[0]), *best[1:])
    return Narrowed(best[0], best[1].bit_count(), len(failing), best[2].bit_count(), len(passing))


def covered(when: str, failing: Iterable[Case], passing: Iterable[Case]) -> tuple[int, int]:
    """The numbers of failing and of passing cases that a condition covers."""
    predicate = parse(when) if when else None
    return (
        sum(predicate is None or predicate.holds(Facts(one)) for one in failing),
        sum(predicate is None or predicate.holds(Facts(one)) for one in passing),
    )


Conjunction = tuple[
    str, int, int, float
]  # its text, the failing and the passing cases as bits, what it costs to read


def _conjunctions(atoms: Sequence[_Atom], everything: _Atom) -> Iterator[Conjunction]:
    yield "", everything.failing, everything.passing, 0.0
    telling = sorted(atoms, key=lambda a: (a.passing.bit_count() - a.failing.bit_count(), a.cost))[
        :MOST_IN_TRIPLES
    ]
    for size, chosen in ((1, atoms), (2, atoms), (3, telling)):
        for group in itertools.combinations(chosen, size):
            failing, passing, cost = everything.failing, everything.passing, 0.0
            for atom in group:
                failing, passing, cost = (
                    failing & atom.failing,
                    passing & atom.passing,
                    cost + atom.cost,
                )
            if failing:
                yield (
                    " and ".join(atom.text for atom in sorted(group, key=lambda a: a.cost)),
                    failing,
                    passing,
                    cost + 2 * size,
                )


def _score(conjunction: Conjunction, all_failing: int) -> tuple[float, str]:
    """A score, lower is better: the F-measure of the covered cases, a bonus if no passing case is
    covered, and a small penalty for length."""
    failing, passing = conjunction[1].bit_count(), conjunction[2].bit_count()
    recall, precision = failing / max(all_failing, 1), failing / max(failing + passing, 1)
    balance = 2.0 * recall * precision / (recall + precision)
    return -balance - (CLEAN if passing == 0 else 0.0) + LENGTH * conjunction[3], conjunction[0]


def _distinct(atoms: Iterable[_Atom]) -> list[_Atom]:
    """Of candidates that cover the same cases, the most readable; those that cover all cases are
    dropped."""
    best: dict[tuple[int, int], _Atom] = {}
    for atom in atoms:
        existing = best.get((atom.failing, atom.passing))
        if atom.failing and (existing is None or atom.cost < existing.cost):
            best[atom.failing, atom.passing] = atom
    return sorted(
        best.values(), key=lambda a: (a.passing.bit_count() - a.failing.bit_count(), a.cost)
    )


def _atom(text: str, cost: float, failing: Sequence[Facts], passing: Sequence[Facts]) -> _Atom:
    predicate = parse(text)
    bits = [
        sum(1 << n for n, facts in enumerate(group) if predicate.holds(facts))
        for group in (failing, passing)
    ]
    return _Atom(text, cost, *bits)


# Facts of the case.


def _candidates(
    facts: Facts, failing: Sequence[Facts], passing: Sequence[Facts]
) -> Iterator[tuple[str, float]]:
    for text, cost in itertools.chain(_of_arguments(facts), _of_sizes(facts, failing, passing)):
        try:
            if parse(text).holds(facts):
                yield text, cost
        except PredicateError:  # a text that a predicate cannot contain, such as one with quotes
            continue


def _arguments(case: Case) -> Iterator[tuple[str, Any]]:
    """The arguments of a case as predicates name them; tensors by position, others by name if they
    have one."""
    for number, value in enumerate(case.args[:12]):
        if isinstance(value, (list, tuple)) and any(
            isinstance(item, (TensorRecipe, Literal)) for item in value
        ):
            yield from ((f"arg{number}[{i}]", item) for i, item in enumerate(value[:3]))
        else:
            yield (
                (
                    f"arg{number}"
                    if isinstance(value, (TensorRecipe, Literal))
                    else argument_name(case, number)
                ),
                value,
            )
    yield from case.kwargs.items()


def _of_arguments(facts: Facts) -> Iterator[tuple[str, float]]:
    for name, value in _arguments(facts.case):
        if isinstance(value, (TensorRecipe, Literal)):
            yield from _of_tensor(facts, name, value)
        elif isinstance(value, bool):
            yield (name if value else f"not {name}"), 1.0
        elif (
            value is None
            or isinstance(value, str)
            or (isinstance(value, (int, float)) and math.isfinite(value))
        ):
            yield f"{name} == {value!r}", 1.2
        elif (
            isinstance(value, (list, tuple)) and value and all(type(item) is int for item in value)
        ):
            yield f"{name} == {tuple(value)!r}", 2.0


def _of_tensor(
    facts: Facts, name: str, tensor: TensorRecipe | Literal
) -> Iterator[tuple[str, float]]:
    layouts = facts.described("layout", tensor)
    if layouts is not UNKNOWN:
        if "contiguous" not in layouts:
            yield f"layout({name}) != contiguous", 0.9
        yield from (
            (f"layout({name}) == {word}", 1.0 if word != "contiguous" else 1.4)
            for word in sorted(layouts)
        )
    values = facts.described("values", tensor)
    if values != "literal":
        yield f"values({name}) == {values if str(values).isidentifier() else repr(values)}", 1.6
    specials = facts.described("special", tensor)
    yield from (
        (f"special({name}) == {word if word.isidentifier() else repr(word)}", 1.7)
        for word in sorted(specials)
    )
    for function in ("has_nan", "has_inf"):
        yield (
            (
                f"{function}({name})"
                if facts.described(function, tensor)
                else f"not {function}({name})"
            ),
            1.5,
        )
    dtype = facts.described("dtype", tensor)
    if dtype != facts.case.dtype:
        yield f"dtype({name}) == {dtype}", 1.4


def _sizes(facts: Facts) -> Iterator[str]:
    """The numeric facts, which may have a threshold."""
    yield from dimension_names(facts.case.operator)
    for name, value in _arguments(facts.case):
        if isinstance(value, (TensorRecipe, Literal)):
            rank = facts.described("dim", value)
            yield from (f"numel({name})", f"dim({name})")
            if isinstance(facts.described("bound", value), int):
                yield f"bound({name})"
            yield from (
                f"shape({name})[{-place}]"
                for place in range(1, min(rank, 4) + 1)
                if rank is not UNKNOWN
            )
        elif type(value) in (int, float):
            yield name


def _of_sizes(
    facts: Facts, failing: Sequence[Facts], passing: Sequence[Facts]
) -> Iterator[tuple[str, float]]:
    for name in _sizes(facts):
        cost = 1.3 if name.isidentifier() else 1.8 if name.startswith("numel") else 2.0
        size = value_of(name)(facts)
        if not isinstance(size, (int, float)):
            continue
        other_sizes = {
            v for one in passing if isinstance(v := value_of(name)(one), (int, float)) and v != size
        }
        below, above = (
            sorted((v for v in other_sizes if v < size), reverse=True),
            sorted(v for v in other_sizes if v > size),
        )
        yield from ((f"{name} > {v!r}", cost) for v in _spread(below))
        yield from ((f"{name} < {v!r}", cost) for v in _spread(above))
        if name.startswith(("dim(", "shape(")) or type(size) is int:
            yield f"{name} == {size!r}", cost + 0.6
        if type(size) is int and size > 0:
            yield from (
                (f"{name} % {modulus} == {size % modulus}", cost + 1.2) for modulus in _RESIDUES
            )


def _spread(values: Sequence[float]) -> Sequence[float]:
    """A few of many, spread evenly, with the nearest and the farthest."""
    if len(values) <= MOST_THRESHOLDS:
        return values
    return [
        values[round(n * (len(values) - 1) / (MOST_THRESHOLDS - 1))] for n in range(MOST_THRESHOLDS)
    ]


def _tighten_thresholds(when: str, failing: Sequence[Facts]) -> str:
    """Thresholds as tight as the failing cases allow, at a power of two if one lies in the gap."""
    parts = when.split(" and ") if when else []
    inside = [one for one in failing if when and parse(when).holds(one)]
    for place, part in enumerate(parts):
        name, _, sign, bound = (*part.rpartition(" ")[0].rpartition(" "), part.rpartition(" ")[2])
        if sign not in ("<", ">"):
            continue
        tightest = min if sign == ">" else max
        reached = tightest(value_of(name)(one) for one in inside)
        parts[place] = _rounded(name, sign, float(bound), reached)
    settled = " and ".join(parts)
    same = [parse(settled).holds(one) for one in inside] if parts else []
    return settled if all(same) else when


def _rounded(name: str, sign: str, bound: float, reached: float) -> str:
    if not (isinstance(reached, int) and reached > 0):
        return f"{name} {sign}= {reached!r}"
    if sign == ">":
        power = 1 << (reached.bit_length() - 1)
        return f"{name} >= {power if power > bound else reached}"
    power = 1 << (reached - 1).bit_length()
    return f"{name} <= {power if power < bound else reached}"
