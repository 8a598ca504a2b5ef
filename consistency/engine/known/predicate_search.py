"""The short condition that tells the cases that fail from those that pass: tried on cases, never
guessed from one.

Candidates are what is true of the case in hand: its layouts, its arguments, its value classes and
special values, and thresholds on its sizes at the values that other cases have. Conjunctions of up
to three of them are weighed by how many failing and how many passing cases they cover.
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
MOST_THRESHOLDS = 10  # for each size, in each direction
CLEAN = 0.1  # what it is worth that no passing case is covered, beside a balance of 0 … 1
LENGTH = 0.004  # what a condition of length 1 costs there
_RESIDUES = (2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A condition (``""``: none is needed, or none tells them apart), and what it covers of the
    cases that it was tried on."""

    when: str
    failing: int
    of_failing: int
    passing: int
    of_passing: int

    @property
    def rate(self) -> float:
        """The share of the cases covered that fail."""
        return self.failing / max(self.failing + self.passing, 1)

    @property
    def least_rate(self) -> float:
        """Where none of them passes: the least share that fails, with 95% certainty (the exact
        binomial bound)."""
        return 0.05 ** (1.0 / self.failing) if self.failing else 0.0


@dataclass(frozen=True, slots=True)
class _Atom:
    """A candidate with the cases it holds for, as bits of a number. ``cost``: the smaller, the more
    a person likes to read it."""

    text: str
    cost: float
    failing: int
    passing: int


def narrow(case: Case, failing: Sequence[Case], passing: Sequence[Case]) -> Narrowed:
    """The condition that is true of ``case``, of as many failing cases as possible, and of no
    passing one if that can be had."""
    if not passing:
        return Narrowed("", len(failing), len(failing), 0, 0)
    facts = [Facts(one) for one in failing], [Facts(one) for one in passing]
    atoms = [_tried(text, cost, *facts) for text, cost in _candidates(Facts(case), *facts)]
    atoms = _distinct(atoms)[:MOST_ATOMS]
    everything = _Atom("", 0.0, (1 << len(failing)) - 1, (1 << len(passing)) - 1)
    best = min(
        _conjunctions(atoms, everything), key=lambda conjunction: _worth(conjunction, len(failing))
    )
    best = (_settled(best[0], facts[0]), *best[1:])
    return Narrowed(best[0], best[1].bit_count(), len(failing), best[2].bit_count(), len(passing))


def covered(when: str, failing: Iterable[Case], passing: Iterable[Case]) -> tuple[int, int]:
    """How many failing and how many passing cases a condition covers."""
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


def _worth(conjunction: Conjunction, all_failing: int) -> tuple[float, str]:
    """The smaller, the better: a balance of how many failing cases are covered and how few passing
    ones (F-measure), a bonus where it is none of them, and little for what is long.
    """
    failing, passing = conjunction[1].bit_count(), conjunction[2].bit_count()
    recall, precision = failing / max(all_failing, 1), failing / max(failing + passing, 1)
    balance = 2.0 * recall * precision / (recall + precision)
    return -balance - (CLEAN if passing == 0 else 0.0) + LENGTH * conjunction[3], conjunction[0]


def _distinct(atoms: Iterable[_Atom]) -> list[_Atom]:
    """Of candidates that hold for the same cases the one that reads best; those that hold for all
    tell nothing."""
    best: dict[tuple[int, int], _Atom] = {}
    for atom in atoms:
        existing = best.get((atom.failing, atom.passing))
        if atom.failing and (existing is None or atom.cost < existing.cost):
            best[atom.failing, atom.passing] = atom
    return sorted(
        best.values(), key=lambda a: (a.passing.bit_count() - a.failing.bit_count(), a.cost)
    )


def _tried(text: str, cost: float, failing: Sequence[Facts], passing: Sequence[Facts]) -> _Atom:
    predicate = parse(text)
    bits = [
        sum(1 << n for n, facts in enumerate(group) if predicate.holds(facts))
        for group in (failing, passing)
    ]
    return _Atom(text, cost, *bits)


# What is true of the case.


def _candidates(
    facts: Facts, failing: Sequence[Facts], passing: Sequence[Facts]
) -> Iterator[tuple[str, float]]:
    for text, cost in itertools.chain(_of_arguments(facts), _of_sizes(facts, failing, passing)):
        try:
            if parse(text).holds(facts):
                yield text, cost
        except PredicateError:  # a text that predicates cannot hold, such as one with quotes in it
            continue


def _arguments(case: Case) -> Iterator[tuple[str, Any]]:
    """The arguments of a case as predicates call them; tensors by their position, others by their
    name where they have one."""
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
    """What is a number, and may have a threshold."""
    yield from dimension_names(facts.case.operator)
    for name, value in _arguments(facts.case):
        if isinstance(value, (TensorRecipe, Literal)):
            rank = facts.described("dim", value)
            yield from (f"numel({name})", f"dim({name})")
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
        yield from ((f"{name} > {v!r}", cost) for v in _some(below))
        yield from ((f"{name} < {v!r}", cost) for v in _some(above))
        if name.startswith(("dim(", "shape(")) or type(size) is int:
            yield f"{name} == {size!r}", cost + 0.6
        if type(size) is int and size > 0:
            yield from (
                (f"{name} % {modulus} == {size % modulus}", cost + 1.2) for modulus in _RESIDUES
            )


def _some(values: Sequence[float]) -> Sequence[float]:
    """A few of many, spread evenly, the nearest and the farthest among them."""
    if len(values) <= MOST_THRESHOLDS:
        return values
    return [
        values[round(n * (len(values) - 1) / (MOST_THRESHOLDS - 1))] for n in range(MOST_THRESHOLDS)
    ]


def _settled(when: str, failing: Sequence[Facts]) -> str:
    """Thresholds as narrow as the failing cases allow, at a power of two where one lies in the
    gap."""
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
