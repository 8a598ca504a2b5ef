"""YAML validated by a pydantic model; every mistake has ``file:line:column`` and a plain
sentence."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypeVar, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ..core.text import one_line, pluralize
from ..errors import ConfigurationError, did_you_mean

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 32
MAX_MISTAKES = 10  # that are told
MAX_LENGTH = 1000  # characters of one of them: keys and values are whatever the file says
Keys = tuple[str | int, ...]
Place = tuple[int, int]  # line and column, both counted from 1
Model = TypeVar("Model", bound=BaseModel)

_EXPECTED_TYPES = {
    "bool_type": "true or false",
    "date_from_datetime_inexact": "a date such as 2026-11-30",
    "date_type": "a date such as 2026-11-30",
    "dict_type": "keys with values, one below the other",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "keys with values, one below the other",
    "string_type": "text (in quotes, if it looks like something else)",
}
_LIMITS = {
    "finite_number": "be a finite number",
    "greater_than": "be greater than {gt:g}",
    "greater_than_equal": "be {ge:g} or more",
    "less_than_equal": "be {le:g} or less",
    "string_too_short": "not be empty",
    "too_short": "not be empty",
}


class _Restricted(yaml.composer.Composer):
    """A composer without aliases, tags and deep nesting."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[attr-defined]
        if isinstance(event, yaml.AliasEvent):
            raise _yaml_error(
                event, f"an alias (*{event.anchor}) is not allowed here; write the value out again"
            )
        if getattr(event, "tag", None) is not None:
            raise _yaml_error(
                event, f"a tag ({event.tag}) is not allowed here; write the plain value"
            )
        if self.depth >= MAX_DEPTH:
            raise _yaml_error(event, f"more than {MAX_DEPTH} levels of nesting")
        self.depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


class _Loader(_Restricted, yaml.SafeLoader):
    """Parses in Python. Its errors are those that people read, whatever PyYAML was built with."""


# libyaml's parser, where PyYAML was built with it.
_Parser: Any = (
    importlib.import_module("yaml.cyaml").CParser if yaml.__with_libyaml__ else yaml.reader.Reader
)


class _LibyamlLoader(
    _Restricted,
    _Parser,  # type: ignore[misc]
    yaml.constructor.SafeConstructor,
    yaml.resolver.Resolver,
):
    """Parses in C, in a seventh of the time, with the same lines and columns."""

    def __init__(self, text: str) -> None:
        _Parser.__init__(self, text)
        _Restricted.__init__(self)
        yaml.constructor.SafeConstructor.__init__(self)
        yaml.resolver.Resolver.__init__(self)


# PyYAML follows YAML 1.1, which reads 8e-4 as text.
_EXPONENT = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$")
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))
_LibyamlLoader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789"))


def _yaml_error(event: Any, problem: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


class Located:
    """Data from a YAML text, the location of every key and list item, and mistakes."""

    def __init__(self, text: str, label: str) -> None:
        self.label = label
        self.data: Any = None
        self.places: dict[Keys, Place] = {(): (1, 1)}
        self.mistakes: list[tuple[Place, str]] = []
        if len(text) > MAX_CHARACTERS:
            self._mistake(
                (1, 1),
                f"the file is larger than {MAX_CHARACTERS:,} characters; is it the right one?",
            )
            return
        if yaml.__with_libyaml__ and "\ufeff" not in text:  # which it skips in other places
            with contextlib.suppress(UnicodeError, IndexError):  # it counts bytes
                self._parse(_LibyamlLoader, text)
            if self.data is not None and not self.mistakes:
                return
            # Mistakes are told in PyYAML's words: libyaml's differ, now and then in their place.
            self.data, self.places, self.mistakes = None, {(): (1, 1)}, []
        self._parse(_Loader, text)

    def _parse(self, kind: type[_Loader | _LibyamlLoader], text: str) -> None:
        try:
            loader = kind(text)
            node = loader.get_single_node()
        except yaml.reader.ReaderError as error:
            preceding = text[: error.position]
            place = (preceding.count("\n") + 1, len(preceding) - preceding.rfind("\n"))
            self._mistake(
                place, f"not valid YAML: character U+{ord(text[error.position]):04X} is not allowed"
            )
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self._mistake(
                _place(mark) if mark else (1, 1),
                f"not valid YAML: {error.problem or error.context}",
            )
        else:
            self.data = None if node is None else self._build(loader, node, ())
            if self.data is None and not self.mistakes:
                self._mistake((1, 1), "the file is empty; it needs keys with values")

    def _mistake(self, place: Place, words: str) -> None:
        self.mistakes.append((place, words))

    def _build(self, loader: yaml.constructor.SafeConstructor, node: yaml.Node, path: Keys) -> Any:
        if isinstance(node, yaml.SequenceNode):
            self.places |= {
                (*path, i): _place(item.start_mark) for i, item in enumerate(node.value)
            }
            return [self._build(loader, item, (*path, i)) for i, item in enumerate(node.value)]
        if not isinstance(node, yaml.MappingNode):
            try:
                return loader.construct_object(node)
            except (ValueError, OverflowError, yaml.YAMLError) as error:
                problem = error.problem if isinstance(error, yaml.MarkedYAMLError) else error
                self._mistake(
                    self.places[path], f"{dotted(path)} cannot be read as a value: {problem}"
                )
                return None
        result: dict[str, Any] = {}
        for key_node, value in node.value:
            place = _place(key_node.start_mark)
            if not isinstance(key_node, yaml.ScalarNode):
                self._mistake(
                    place, f"{dotted(path)} has a list or mapping as a key; a key is a word"
                )
                continue
            key = (*path, key_node.value)
            if key_node.value in result:
                first = self.places[key][0]
                self._mistake(
                    place,
                    f"{dotted(key)} is written twice, first on line {first}; keep one of them",
                )
                continue
            self.places[key] = place
            result[key_node.value] = self._build(loader, value, key)
        return result

    def find(self, location: tuple[str | int, ...]) -> tuple[Keys, Place]:
        """The part of ``location`` that exists in the file, and its place; steps of the model
        only are skipped."""
        path: Keys = ()
        for step in location:
            if (*path, step) in self.places:
                path = (*path, step)
        return path, self.places[path]

    def line(self, location: tuple[str | int, ...]) -> str:
        """``tolerances.yaml:41`` for a location."""
        return f"{self.label}:{self.find(location)[1][0]}"

    def validate(self, model: type[Model], synonyms: Mapping[str, str]) -> Model:
        """The data as ``model``. ``synonyms`` maps wrong key names to the right ones for
        suggestions.

        Raises ConfigurationError with one line per mistake, in file order; of a file that is
        something else, the first few.
        """
        validated = None
        if self.data is not None:
            try:
                validated = model.model_validate(self.data)
            except ValidationError as error:
                reported = {place for place, _ in self.mistakes}
                for error_detail in error.errors(include_url=False):
                    path, place = self.find(error_detail["loc"])
                    if place not in reported:
                        self._mistake(place, _error_text(error_detail, path, model, synonyms))
        if validated is None or self.mistakes:
            found = sorted(set(self.mistakes))
            lines = [
                one_line(f"{self.label}:{line}:{column}  {words}", MAX_LENGTH)
                for (line, column), words in found[:MAX_MISTAKES]
            ]
            if len(found) > MAX_MISTAKES:
                more = pluralize(len(found) - MAX_MISTAKES, "more mistake")
                lines.append(f"{self.label}  … and {more}")
            raise ConfigurationError("\n".join(lines))
        return validated


def dotted(path: Keys) -> str:
    """``operators.matmul.float32.ranges[0]`` for a path of keys and list positions."""
    words = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return words.removeprefix(".") or "the file"


def _place(mark: Any) -> Place:
    return mark.line + 1, mark.column + 1


def _value_text(value: object) -> str:
    if isinstance(value, (dict, list)):
        return "a list" if isinstance(value, list) else "keys with values"
    text = (
        "nothing"
        if value is None
        else repr(value)
        if isinstance(value, str)
        else str(value).lower()
    )
    return text if len(text) <= 60 else f"{text[:57]}…"


def _error_text(
    error: ErrorDetails, path: Keys, model: type[BaseModel], synonyms: Mapping[str, str]
) -> str:
    """One of pydantic's errors as a sentence with the remedy."""
    name, kind, value_text, last = (
        dotted(path),
        error["type"],
        _value_text(error["input"]),
        str(("", *error["loc"])[-1]),
    )
    context = error.get("ctx", {})
    if kind == "extra_forbidden":
        known = _keys(model, error["loc"][:-1])
        suggestion = synonyms.get(_closest(last, synonyms))
        hint = f"; did you mean {suggestion}?" if suggestion in known else did_you_mean(last, known)
        return f"{name} is not a key here{hint or '; known: ' + ', '.join(known)}"
    if kind == "missing":
        place = "here, or one level up for all that stands below it" if last == "source" else "here"
        return f"{name} has no {last}; add it {place}"
    if kind == "literal_error":
        known = re.findall(r"'([^']+)'", context["expected"])
        suggestion = did_you_mean(str(error["input"]), known)
        if last == "[key]":
            return f"{name} is not a key here{suggestion or '; known: ' + ', '.join(known)}"
        return f"{name} is {value_text}; it must be {context['expected']}{suggestion}"
    if kind in _EXPECTED_TYPES:
        return f"{name} wants {_EXPECTED_TYPES[kind]}, not {value_text}"
    if kind in _LIMITS:
        return f"{name} is {value_text}; it must {_LIMITS[kind].format(**context)}"
    return f"{name} {error['msg']}"


def _closest(word: str, known: Iterable[str]) -> str:
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.75)), "")


def _keys(model: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    """The keys of ``model`` at a location, without internal ones in brackets."""
    kind: Any = model
    for step in location:
        while get_origin(kind) is Annotated:
            kind = get_args(kind)[0]
        if get_origin(kind) in (dict, list):
            kind = get_args(kind)[-1]
        else:
            kind = next(
                field.annotation
                for name, field in kind.model_fields.items()
                if step in (name, field.alias)
            )
    names = [field.alias or name for name, field in kind.model_fields.items()]
    return [name for name in names if not name.startswith("(")]
