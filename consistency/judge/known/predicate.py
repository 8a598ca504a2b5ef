"""Predicates on a case, such as ``layout(arg0) != contiguous and K > 256``: parsed, checked and
evaluated; no code is executed.

The text is parsed as a Python expression; a short list of node types is translated into functions
of :class:`~consistency.judge.known.case_facts.Facts`
(:mod:`consistency.judge.known.predicate_logic`). There are no powers, shifts, attributes,
comprehensions or calls except of :data:`FUNCTIONS`, and length and depth are bounded, so that
evaluation takes microseconds.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ...errors import ConfigurationError, did_you_mean
from . import predicate_logic
from .case_facts import FUNCTIONS, VOCABULARY, Facts
from .predicate_logic import Ask, Relation

MAX_LENGTH = 400  # characters
MAX_DEPTH = 12
MAX_NUMBER = 10**18  # of whole ones, whose products grow without limit

_COMPARE: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
_ARITHMETIC: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_NUMBERS: Final[dict[str, Callable[..., Any]]] = {"min": min, "max": max, "abs": abs, "len": len}
_ALLOWED = (
    "comparisons, and, or, not, in, + - * / // %, numbers, 'text', names and functions of arguments"
)


class PredicateError(ConfigurationError):
    """A predicate that cannot be parsed; the message says why, and the remedy."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on a case, as :func:`parse` returns it. ``text`` is its normal form, which is
    translated when it is first asked."""

    text: str

    @property
    def names(self) -> frozenset[str]:
        """The names it uses."""
        return _translated(self.text).names

    def holds(self, facts: Facts) -> bool:
        """Whether the predicate is true of a case; False if it does not apply."""
        return predicate_logic.truth(_translated(self.text).ask(facts)) is True

    def __str__(self) -> str:
        return self.text


class _Translated(NamedTuple):
    normal: str
    names: frozenset[str]
    ask: Ask


def parse(text: str) -> Predicate:
    """Parse a predicate. Raises only PredicateError."""
    return Predicate(_translated(text).normal)


@functools.lru_cache(maxsize=4096)
def _translated(text: str) -> _Translated:
    if len(text) > MAX_LENGTH:
        raise PredicateError(f"is longer than {MAX_LENGTH} characters; write two entries")
    if "\\" in text or "\0" in text:
        raise PredicateError("has a backslash in it, which means nothing here")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the code is never executed
            tree = ast.parse(" ".join(text.split()), mode="eval").body
    except SyntaxError as error:
        place = f" near {text[max((error.offset or 1) - 1, 0) :][:20]!r}" if error.offset else ""
        raise PredicateError(
            f"is no condition{place}; write it like 'layout(arg0) != contiguous and K > 256'"
        ) from None
    except (ValueError, RecursionError, MemoryError):
        raise PredicateError(
            "is no condition; write it like 'layout(arg0) != contiguous and K > 256'"
        ) from None
    reader = _Reader()
    ask = reader.condition(tree, 0)
    normal = ast.unparse(_Normal(reader.words).visit(tree))
    if len(normal) > MAX_LENGTH:
        raise PredicateError(
            f"is longer than {MAX_LENGTH} characters when it is written out; write two entries"
        )
    return _Translated(normal, frozenset(reader.names), ask)


@functools.lru_cache(maxsize=4096)
def value_of(text: str) -> Ask:
    """A function of Facts for an expression such as ``shape(arg0)[-1]``. Raises PredicateError."""
    parse(f"{text} == 0")
    return _Reader().value(ast.parse(text, mode="eval").body, 0)


class _Reader:
    """Translates nodes into functions, and collects the names used."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.words: dict[int, str] = {}  # words by id of their node

    def condition(self, node: ast.expr, depth: int) -> Ask:
        """Translate a node that must be a condition."""
        if depth > MAX_DEPTH:
            raise PredicateError(f"is nested more than {MAX_DEPTH} deep; write it flatter")
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                return predicate_logic.every([self.condition(part, depth + 1) for part in parts])
            case ast.BoolOp(op=ast.Or(), values=parts):
                return predicate_logic.some([self.condition(part, depth + 1) for part in parts])
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return predicate_logic.opposite(self.condition(part, depth + 1))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._comparison([left, *others], ops, depth)
            case ast.Call() if _vocabulary(node):
                raise PredicateError(
                    f"has {_source_text(node)} alone; compare it: {ast.unparse(node)[:60]} == "
                    f"{VOCABULARY[_vocabulary(node)][0]}"
                )
            case ast.Constant(value=bool()) | ast.Name() | ast.Call() | ast.Subscript():
                return self.value(node, depth)
        raise PredicateError(
            f"has {_source_text(node)} where a condition is wanted; compare it with something"
        )

    def _comparison(self, nodes: Sequence[ast.expr], ops: Sequence[ast.cmpop], depth: int) -> Ask:
        kind = next((kind for kind in map(_vocabulary, nodes) if kind), None)
        parts = [self.value(node, depth + 1, kind) for node in nodes]
        links = [(parts[i], _relation(op), parts[i + 1]) for i, op in enumerate(ops)]
        return predicate_logic.every(
            [functools.partial(predicate_logic.related, *link) for link in links]
        )

    def value(self, node: ast.expr, depth: int, kind: str | None = None) -> Ask:
        """Translate a number, text, argument, … ``kind`` is the vocabulary of bare words."""
        if depth > MAX_DEPTH:
            raise PredicateError(f"is nested more than {MAX_DEPTH} deep; write it flatter")
        word = _word(node) if kind is not None else None
        if word is not None and kind is not None:
            if word not in VOCABULARY[kind]:
                suggestion = (
                    did_you_mean(word, VOCABULARY[kind])
                    or f"; known: {', '.join(VOCABULARY[kind])}"
                )
                raise PredicateError(f"has {word!r:.40}, which is no {kind}{suggestion}")
            self.words[id(node)] = word
            return predicate_logic.constant(word)
        match node:
            case ast.Constant(value=None | bool() as value):
                return predicate_logic.constant(value)
            case ast.Constant(value=str() as text) if text.isprintable() and not {"'", '"'} & set(
                text
            ):
                return predicate_logic.constant(text)
            case ast.Constant(value=int() as value) if abs(value) <= MAX_NUMBER:
                return predicate_logic.constant(value)
            case ast.Constant(value=float() as value) if math.isfinite(value):
                return predicate_logic.constant(value)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                return predicate_logic.several(
                    [self.value(item, depth + 1, kind) for item in items]
                )
            case ast.UnaryOp(op=ast.USub(), operand=part):
                return predicate_logic.calculated(
                    operator.sub, predicate_logic.constant(0), self.value(part, depth + 1)
                )
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                return predicate_logic.calculated(
                    _ARITHMETIC[type(op)], self.value(left, depth + 1), self.value(right, depth + 1)
                )
            case ast.Subscript(value=inner, slice=place):
                return predicate_logic.item(self.value(inner, depth + 1), _integer(place))
            case ast.Name(id=name):
                self.names.add(name)
                return functools.partial(predicate_logic.argument, name)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self._call(name, args, depth)
        raise PredicateError(
            f"has {_source_text(node)}, which is not allowed; allowed are {_ALLOWED}"
        )

    def _call(self, name: str, args: Sequence[ast.expr], depth: int) -> Ask:
        if name in _NUMBERS:
            if not args or (len(args) > 1 and name in ("abs", "len")):
                raise PredicateError(f"has {name}() with {len(args)} arguments; give it one")
            return functools.partial(
                predicate_logic.applied,
                _NUMBERS[name],
                [self.value(arg, depth + 1) for arg in args],
            )
        if name not in FUNCTIONS:
            known = (*FUNCTIONS, *_NUMBERS)
            raise PredicateError(
                f"has {name[:40]!r}, which is no function "
                f"here{did_you_mean(name, known) or '; known: ' + ', '.join(known)}"
            )
        if len(args) != 1 or not isinstance(args[0], (ast.Name, ast.Subscript)):
            raise PredicateError(
                f"has {name}() of something that is no argument; write it like {name}(arg0)"
            )
        return functools.partial(predicate_logic.described, name, self.value(args[0], depth + 1))


class _Normal(ast.NodeTransformer):
    """Writes words as names if possible, else as strings (``'-nan'``)."""

    def __init__(self, words: dict[int, str]) -> None:
        self._words = words

    def visit(self, node: ast.AST) -> Any:
        word = self._words.get(id(node))
        if word is not None:
            return ast.Name(word) if word.isidentifier() else ast.Constant(word)
        return super().visit(node)

    def visit_List(self, node: ast.List) -> ast.expr:
        return ast.Tuple([self.visit(item) for item in node.elts])


def _vocabulary(node: ast.expr) -> str:
    """The vocabulary of a function's values: ``layout`` for ``layout(arg0)``; empty for others."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if FUNCTIONS.get(name, "") in VOCABULARY:
            return FUNCTIONS[name]
    return ""


def _word(node: ast.expr) -> str | None:
    """The word that a node spells: ``contiguous``, ``'contiguous'``, ``positive-definite``,
    ``-nan``, 0."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.Constant(value=int() as number) if not isinstance(number, bool):
            return str(number)[:40]
        case ast.Name(id=name):
            return name
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name() | ast.Constant(value=int()) as part):
            return f"-{_word(part)}"
        case ast.BinOp(left=ast.Name(id=left), op=ast.Sub(), right=ast.Name(id=right)):
            return f"{left}-{right}"
    return None


def _integer(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int() as place) if not isinstance(place, bool):
            return place
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as place)):
            return -place
    raise PredicateError(
        f"has [{ast.unparse(node)[:40]}]; what is in brackets is a whole number, as in "
        f"shape(arg0)[-1]"
    )


def _source_text(node: ast.expr) -> str:
    try:
        return repr(ast.unparse(node)[:60])
    except (ValueError, RecursionError):
        return "something"


def _relation(op: ast.cmpop) -> Relation:
    match op:
        case ast.Eq():
            return predicate_logic.equal
        case ast.NotEq():
            return lambda a, b: predicate_logic.negated(predicate_logic.equal(a, b))
        case ast.In():
            return predicate_logic.within
        case ast.NotIn():
            return lambda a, b: predicate_logic.negated(predicate_logic.within(a, b))
    comparison = _COMPARE.get(type(op))
    if comparison is None:
        raise PredicateError("has 'is' in it; write == or !=")
    return functools.partial(predicate_logic.ordered, comparison)
