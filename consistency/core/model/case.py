"""A case: one operator with concrete arguments and dtype, as a recipe."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from ...errors import RecipeError, did_you_mean
from .. import recipe
from ..text import MAX_REPR, one_line, shown
from ..tiling import Tiling

# Of drawn cotangents: contiguous; one number for all elements without a stride (what sum's backward
# passes on); the same with memory of its own; the last dimension outermost in memory.
COTANGENT_LAYOUTS = ("", "expanded", "constant", "transposed")


@dataclass(frozen=True)
class Case:
    """One operator with concrete arguments and dtype, as a recipe.

    ``cotangent`` is ``(value class …, stop)`` of the tensors that gradients are taken against: one
    per differentiable output, each shaped like its output. ``source`` tells what a case that our
    strategies did not draw calls: ``opinfo``, ``opinfo/VARIANT``, ``call/torch.add`` for a function
    named by the case itself, or ``aten/add.Tensor`` for an overload of torch's own operators, as
    captured from a program. ``cotangents`` are literal ones that replace the drawn ones: one per
    returned value, None where it has no gradient. ``cotangent_layout`` is one of
    ``COTANGENT_LAYOUTS``, for drawn ones. ``tiling``: in a large case, how its tensors repeat.
    """

    operator: str
    dtype: str
    args: tuple[recipe.Arg, ...] = ()
    kwargs: Mapping[str, recipe.Arg] = field(default_factory=dict)
    cotangent: int = 0
    source: str = ""
    cotangents: tuple[recipe.Literal | None, ...] = ()
    cotangent_layout: str = ""
    tiling: Tiling | None = None

    def __post_init__(self) -> None:
        # Tensors are numbered in the order of the arguments, which must survive the way through
        # sorted JSON.
        object.__setattr__(self, "kwargs", dict(sorted(self.kwargs.items())))

    def __repr__(self) -> str:  # one line, however many arguments and bytes there are
        shapes = [
            str(list(t.shape if isinstance(t, recipe.Literal) else t.base)) for t in self.tensors
        ]
        more = ", …" if len(shapes) > 4 else ""
        told = f"{self.operator} {self.dtype} {', '.join(shapes[:4])}{more}"
        return one_line(f"<Case {self.id}: {told}>", MAX_REPR)

    @cached_property
    def line(self) -> str:
        """The case as one line of canonical JSON: what is hashed, pasted, and sent to workers."""
        return recipe.canonical(self.to_json())

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.line.encode("utf-8")).hexdigest()

    @cached_property
    def id(self) -> str:
        """Short name such as ``matmul-3fa1c2d409``: the operator's last part and the first ten
        digits of the hash."""
        return f"{self.operator.rpartition('.')[2]}-{self.digest[:10]}"

    def to_json(self) -> dict[str, Any]:
        kwargs = {name: recipe.encode(value) for name, value in self.kwargs.items()}
        body: dict[str, Any] = {
            "operator": self.operator,
            "dtype": self.dtype,
            "args": [recipe.encode(a) for a in self.args],
        }
        body = {**body, "kwargs": kwargs, "cotangent": self.cotangent}
        body |= {"source": self.source} if self.source else {}
        body |= {"cotangent_layout": self.cotangent_layout} if self.cotangent_layout else {}
        body |= {"tiling": self.tiling.to_json()} if self.tiling is not None else {}
        return body | (
            {"cotangents": [recipe.encode(c) for c in self.cotangents]} if self.cotangents else {}
        )

    @cached_property
    def tensors(self) -> tuple[recipe.TensorRecipe | recipe.Literal, ...]:
        """The tensors among the arguments, in the order in which they are materialized."""
        return (*recipe.tensors(self.args), *recipe.tensors(self.kwargs))

    def with_tensors(self, tensors: Iterable[recipe.TensorRecipe | recipe.Literal]) -> Case:
        """The case with other tensors among its arguments, in the order of :attr:`tensors`."""
        source = iter(tensors)

        def swap(value: recipe.Arg) -> recipe.Arg:
            if isinstance(value, recipe.TENSORS):
                return next(source)
            if isinstance(value, (list, tuple)):
                return type(value)([swap(item) for item in value])
            return value

        args = tuple([swap(a) for a in self.args])
        return replace(self, args=args, kwargs={k: swap(v) for k, v in self.kwargs.items()})

    @property
    def literals(self) -> tuple[recipe.Literal, ...]:
        """The tensors given by their bits, cotangents included."""
        if not self._is_read and '"literal":' not in self.line:
            return ()
        return tuple(t for t in (*self.tensors, *self.cotangents) if isinstance(t, recipe.Literal))

    @staticmethod
    def from_json(data: Any, literals: Mapping[str, bytes] | None = None) -> Case:
        """The case that parsed JSON describes. Raises RecipeError, never anything else."""
        if not isinstance(data, dict):
            raise RecipeError("a case is a JSON object with operator, dtype, args and kwargs")
        unknown = set(data) - {
            "operator",
            "dtype",
            "args",
            "kwargs",
            "cotangent",
            "source",
            "cotangents",
            "cotangent_layout",
            "tiling",
        }
        if unknown:
            raise RecipeError(f"{sorted(map(str, unknown))[0]!r:.40} is not a key of a case")
        operator, dtype, cotangent = (
            data.get("operator"),
            data.get("dtype"),
            data.get("cotangent", 0),
        )
        source = data.get("source", "")
        args, kwargs = data.get("args", []), data.get("kwargs", {})
        if (
            not isinstance(operator, str)
            or not isinstance(dtype, str)
            or not isinstance(source, str)
        ):
            raise RecipeError(
                "a case needs 'operator' and 'dtype' as text, and 'source' where it has one"
            )
        if not isinstance(args, list) or not isinstance(kwargs, dict) or type(cotangent) is not int:
            raise RecipeError(
                "a case's 'args' is a list, its 'kwargs' an object and its 'cotangent' a whole "
                "number"
            )
        decoded = {name: recipe.decode(value, literals) for name, value in kwargs.items()}
        arguments = tuple(recipe.decode(a, literals) for a in args)
        against = data.get("cotangents", [])
        if not isinstance(against, list):
            raise RecipeError("a case's 'cotangents' are a list of literal tensors and nulls")
        cotangents = tuple(recipe.decode(c, literals) for c in against)
        if not all(c is None or isinstance(c, recipe.Literal) for c in cotangents):
            raise RecipeError("a case's 'cotangents' are a list of literal tensors and nulls")
        layout = data.get("cotangent_layout", "")
        if not isinstance(layout, str) or layout not in COTANGENT_LAYOUTS:
            known = ", ".join(COTANGENT_LAYOUTS[1:])
            raise RecipeError(
                f"{shown(layout)} is not the layout of a cotangent"
                f"{did_you_mean(str(layout), COTANGENT_LAYOUTS[1:])}; known: {known}"
            )
        window = recipe.position(cotangent)
        tiling = Tiling.from_json(data["tiling"]) if "tiling" in data else None
        return Case(
            operator,
            dtype,
            arguments,
            decoded,
            window,
            source,
            cotangents,
            cotangent_layout=layout,
            tiling=tiling,
        )

    @staticmethod
    def unread(
        operator: str, dtype: str, source: str, line: str, literals: Mapping[str, bytes]
    ) -> Case:
        """The case with this :attr:`line`, of which the rest is read when it is first asked for:
        whoever counts results, or hands cases on, needs no more than this. A line that is no
        case raises RecipeError then."""
        case = object.__new__(Case)
        case.__dict__.update(
            operator=operator, dtype=dtype, source=source, line=line, _literals=literals
        )
        return case

    @property
    def _is_read(self) -> bool:
        return "_literals" not in self.__dict__

    def _read(self) -> None:
        whole = Case.from_line(self.line, self.__dict__["_literals"])
        self.__dict__.update({name: whole.__dict__[name] for name in _READ_LATER})
        del self.__dict__["_literals"]

    @staticmethod
    def from_canonical(line: str, literals: Mapping[str, bytes] | None = None) -> Case:
        """The case with this :attr:`line`, which is not made anew for its id. Raises
        RecipeError."""
        case = Case.from_line(line, literals)
        case.__dict__["line"] = line
        return case

    @staticmethod
    def from_line(line: str, literals: Mapping[str, bytes] | None = None) -> Case:
        """The case in one line of JSON. Raises RecipeError."""
        try:
            data = json.loads(line)
        except (
            ValueError,
            RecursionError,
        ) as error:  # ValueError: also integers of thousands of digits
            raise RecipeError(f"not a case: {str(error)[:120]} in {line[:60]!r}") from None
        return Case.from_json(data, literals)


class _ReadLater:
    """A field of a case that :meth:`Case.unread` leaves in its line; one that is set hides it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, case: Case | None, owner: type[Case]) -> Any:
        if case is None:
            raise AttributeError(self._name)
        if not case._is_read:
            case._read()
        return case.__dict__[self._name]


_READ_LATER = ("args", "kwargs", "cotangent", "cotangents", "cotangent_layout", "tiling")
for _name in _READ_LATER:
    setattr(Case, _name, _ReadLater(_name))
