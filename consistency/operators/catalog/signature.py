"""The facts in torch's schema and tags of an overload, cached because reading them is slower than
many a call."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

# Arguments that are written to although no schema says so.
_RUNNING = ("running_mean", "running_var")
_UNDECLARED_WRITES: dict[str, tuple[str, ...]] = {
    "batch_norm": _RUNNING, "native_batch_norm": _RUNNING, "_native_batch_norm_legit": _RUNNING,
    "_native_batch_norm_legit_no_training": _RUNNING, "_batch_norm_with_update": _RUNNING,
    "_batch_norm_no_update": _RUNNING, "cudnn_batch_norm": _RUNNING,
    "miopen_batch_norm": _RUNNING, "mkldnn_rnn_layer_backward": ("workspace",),
}  # fmt: skip
# By their schema they return a view, but they compute something where the arguments ask for it.
_MAY_COPY = frozenset({"to", "type_as", "dropout", "feature_dropout"})
# Tagged as views in place, but they put other memory or names under a tensor.
_CHANGE_STORAGE = frozenset({"resize_", "resize_as_", "set_", "rename_"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a schema: its name, type (``"Tensor[]"``), and default, if any."""

    name: str
    type: str
    keyword_only: bool
    has_default: bool
    default: Any


@dataclass(frozen=True)
class Signature:
    """An overload of the operator ``space::name``.

    ``written`` are the arguments that its schema marks as written to, ``only_written`` those of
    them that merely take results (``out=``, or under the names of several results), ``all_written``
    also those that it fails to mark. ``aliases`` is true where a result shares its memory with an
    argument, ``is_view`` where that argument is not written (``may_copy``: not always),
    ``is_inplace_view`` where only the argument's shape and strides change.
    """

    space: str
    name: str
    parameters: tuple[Parameter, ...]
    written: tuple[str, ...]
    only_written: frozenset[str]
    all_written: tuple[str, ...]
    takes_tensors: bool
    returns: int
    aliases: bool
    is_view: bool
    may_copy: bool
    is_inplace_view: bool
    is_random: bool
    reads_number: bool

    def __str__(self) -> str:
        return f"{self.space}::{self.name}"

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by the schema's names, defaults filled in."""
        positional = len(args)
        return {
            p.name: args[position]
            if position < positional and not p.keyword_only
            else kwargs.get(p.name, p.default)
            for position, p in enumerate(self.parameters)
        }

    def arguments_named(
        self, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[Any]:
        """The arguments among ``names`` of one call, in the schema's order; None for a missing
        one."""
        return [
            args[position] if position < len(args) else kwargs.get(p.name)
            for position, p in enumerate(self.parameters)
            if p.name in names
        ]


@functools.cache
def signature(overload: Any) -> Signature:
    """That of ``torch.ops.aten.add.Tensor``, for instance."""
    schema, tags = overload._schema, overload.tags
    space, _, name = schema.name.partition("::")
    writes = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    names = tuple(a.name for a in writes)
    undeclared = _UNDECLARED_WRITES.get(name, ()) if space == "aten" else ()
    returned = [r.alias_info for r in schema.returns if r.alias_info is not None]
    return Signature(
        space, name,
        tuple(_parameter(a) for a in schema.arguments),
        written=names,
        only_written=frozenset(a.name for a in writes if a.kwarg_only),
        all_written=tuple(
            a.name for a in schema.arguments if a.name in names or a.name in undeclared
        ),
        takes_tensors=any("Tensor" in str(a.type) for a in schema.arguments),
        returns=len(schema.returns),
        aliases=bool(returned),
        is_view=any(not alias.is_write for alias in returned) and not writes,
        may_copy=space == "aten" and name in _MAY_COPY,
        is_inplace_view=torch.Tag.inplace_view in tags and name not in _CHANGE_STORAGE,
        is_random=torch.Tag.nondeterministic_seeded in tags,
        reads_number=torch.Tag.data_dependent_output in tags or name == "is_nonzero",
    )  # fmt: skip


def _parameter(argument: Any) -> Parameter:
    default = argument.has_default_value()
    value = argument.default_value if default else None
    return Parameter(argument.name, str(argument.type), argument.kwarg_only, default, value)


def draws_numbers(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether this call is random: attention, dropout and recurrent layers may have probability 0,
    or only evaluate."""
    names = _dropout_switches(overload)
    if not names:
        return signature(overload).is_random
    parameters = signature(overload).parameters
    defaults = {p.name: p.default for p in parameters if p.has_default}
    defaults |= dict(zip((p.name for p in parameters), args, strict=False)) | dict(kwargs)
    probability = next(
        (defaults[name] for name in ("dropout_p", "dropout", "p") if name in names), 1.0
    )
    return bool(defaults.get("train", True)) and probability != 0.0


@functools.cache
def _dropout_switches(overload: Any) -> frozenset[str]:
    """The arguments of an operator with dropout that say whether there is any."""
    schema = signature(overload)
    names = {p.name for p in schema.parameters}
    of_dropout = (
        "dropout_p" in names
        or {"dropout", "train"} <= names
        or ({"p", "train"} <= names and schema.is_random)
    )
    return frozenset(names & {"dropout_p", "dropout", "p", "train"}) if of_dropout else frozenset()


def argument_names(base: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """(positional names, keyword-only names) of every overload of ``aten::base``; none if the
    operator does not exist."""
    torch_c: Any = torch._C
    schemas = torch_c._jit_get_schemas_for_operator(f"aten::{base}") if base.isidentifier() else []
    for schema in schemas:
        yield (
            tuple(a.name for a in schema.arguments if not a.kwarg_only),
            tuple(a.name for a in schema.arguments if a.kwarg_only),
        )
