"""What a run does in which order: the cases of a corpus, in rounds that reach every operator early;
then drawn ones, in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .. import operators
from ..core.model import Case
from ..errors import ConsistencyError, Untestable
from ..generate import search
from ..generate.calls import aten, opinfo
from ..operators.declare import Operator
from .config import Settings, examples_of, groups

ROUNDS = (
    2,
    10,
    24,
)  # cases of an operator × dtype that are replayed at a time; the last number again and again
# cases that are drawn at a time where a time budget may end the run before every operator has had
# its turn
EXPLORED = 25
REPLAYED, FRESH = "replayed", "explored"


@dataclass(frozen=True)
class Group:
    """Cases of one operator × dtype, or the ``problem`` because of which there are none. ``turn``
    counts from 0.

    ``origin`` says of a run with a corpus whether they were ``replayed`` or ``explored``, ``seed``
    what they were drawn with; ``part`` counts the rounds of a corpus, and ``more`` of them follow
    for the same operator × dtype.
    """

    operator: Operator
    dtype: str
    cases: tuple[Case, ...]
    problem: str = ""
    turn: int = 0
    origin: str = ""
    seed: int = 0
    part: int = 0
    more: bool = False

    @property
    def first(self) -> bool:
        """Whether a run comes to this operator × dtype for the first time."""
        return self.turn == self.part == 0

    @property
    def measured(self) -> bool:
        """Whether precision scaling and repeatability are measured with these cases: once, and not
        with the first two."""
        return self.turn == 0 and (self.part == 1 or (self.part == 0 and not self.more))


def plan(chosen: Settings, out_of_time: Callable[[], bool]) -> Iterator[Group]:
    """The groups of a run, one by one; with a time budget with fresh cases again and again until it
    is used up."""
    if chosen.corpus is None:
        yield from drawn(chosen, out_of_time)
        return
    replay, seen, begun = list(replayed(chosen)), set[str](), set[tuple[str, str]]()
    for group in replay:
        if out_of_time():
            return
        seen.update(case.id for case in group.cases)
        begun.add((group.operator.name, group.dtype))
        yield group
    if chosen.explore:
        yield from explored(chosen, out_of_time, seen, begun)


def drawn(chosen: Settings, out_of_time: Callable[[], bool]) -> Iterator[Group]:
    """Freshly drawn groups of a run without a corpus."""
    seen: set[str] = set()  # later turns draw some simple cases again
    turn = 0
    while turn == 0 or (chosen.time_budget is not None and not out_of_time()):
        for operator, dtype in groups(chosen):
            cases, problem = draw(operator, dtype, examples_of(chosen, dtype), chosen.seed + turn)
            if chosen.time_budget is not None:
                cases = [case for case in cases if case.id not in seen]
                seen.update(case.id for case in cases)
            yield Group(operator, dtype, tuple(cases), problem, turn, seed=chosen.seed + turn)
            if out_of_time():
                break
        turn += 1


def replayed(chosen: Settings) -> Iterator[Group]:
    """The cases of the corpus that the settings choose: two of every operator × dtype, then more
    and more of each."""
    assert chosen.corpus is not None
    found: dict[tuple[str, str, str, int], list[Case]] = {}
    known: dict[tuple[str, str, str], list[Operator]] = {}
    for case in chosen.corpus.cases:
        named = (case.operator, case.dtype, case.source)
        if named not in known:
            first = operator_in(chosen, case)
            known[named] = [] if first is None else [first]
        kinds = known[named]
        if not kinds:
            continue
        # What is known of a call of aten's depends on its arguments: a convolution's rank, a number
        # that float32 does not hold.
        operator = (
            operator_in(chosen, case) if case.source.startswith(f"{aten.NAME}/") else kinds[0]
        )
        if operator is None:
            continue
        if operator not in kinds:
            kinds.append(operator)
        found.setdefault((*named, kinds.index(operator)), []).append(case)
    places = {operator.name: i for i, operator in enumerate(chosen.operators)}
    order = sorted(
        found, key=lambda key: (places.get(key[0], len(places)), key)
    )  # of a corpus whose lines stand in any order
    begin = part = 0
    while any(begin < len(cases) for cases in found.values()):
        end = begin + ROUNDS[min(part, len(ROUNDS) - 1)]
        for key in order:
            cases = tuple(found[key][begin:end])
            if cases:
                more = end < len(found[key])
                yield Group(
                    known[key[:3]][key[3]], key[1], cases, origin=REPLAYED, part=part, more=more
                )
        begin, part = end, part + 1


def operator_in(chosen: Settings, case: Case) -> Operator | None:
    """The operator of a corpus's case, if it is known here and chosen. All are chosen where every
    registered one is."""
    names = {operator.name: operator for operator in chosen.operators}
    if chosen.dtypes is not None and case.dtype not in chosen.dtypes:
        return None
    if not case.source:
        operator = names.get(case.operator)
        return operator if operator is not None and case.dtype in operator.dtypes else None
    if case.operator not in names and len(names) < len(operators.registry()):
        return None
    try:
        return opinfo.operator_of(case)
    except ConsistencyError:
        return None


def explored(
    chosen: Settings, out_of_time: Callable[[], bool], seen: set[str], begun: set[tuple[str, str]]
) -> Iterator[Group]:  # fmt: skip
    """Cases that are in no corpus; each run begins with another operator, so that none is always
    the last."""
    pairs = groups(chosen)
    first = chosen.seed % len(pairs)
    turn = 0
    while turn == 0 or (chosen.time_budget is not None and not out_of_time()):
        for operator, dtype in [*pairs[first:], *pairs[:first]]:
            if out_of_time():
                return
            examples = examples_of(chosen, dtype)
            many, seed = (
                min(examples, EXPLORED) if chosen.time_budget is not None else examples,
                chosen.seed + turn,
            )
            cases, problem = draw(operator, dtype, many, seed)
            fresh = tuple(case for case in cases if case.id not in seen)
            seen.update(case.id for case in fresh)
            before = (operator.name, dtype) in begun
            yield Group(
                operator, dtype, fresh, "" if before else problem, turn + before, FRESH, seed
            )
        turn += 1


def draw(operator: Operator, dtype: str, examples: int, seed: int) -> tuple[list[Case], str]:
    """The cases of one operator × dtype, or none and why: a ``sample`` that raises costs its
    operator only."""
    try:
        cases = search.batch(operator, dtype, examples, seed)
    except Untestable as reason:
        return [], str(reason)
    except Exception as error:
        return (
            [],
            (
                f"no case could be drawn ({type(error).__name__}: {str(error)[:200]}); please "
                f"report "
                f"it"
            ),
        )
    return cases, "" if cases else "no case could be drawn in which anything could be told"
