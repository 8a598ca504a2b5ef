"""One call of an operator as an ONNX model: translated once per signature, and kept.

The signature is the operator, and of each argument the dtype and shape if it is a tensor, else its
value. Shapes are fixed in the graph: what holds for one shape is never assumed of another.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...core.trees import flatten, map_leaves
from ...errors import Unsupported
from ...operators.declare import Operator
from .._messages import first_line, text_of, told
from . import exporter

MAX_TRANSLATIONS = 4096  # graphs of one operator are a few hundred bytes
MAX_TENSORS = 256  # that a call returns; the exporter's cost grows faster: 2 s for 100, 5 s for 200


@dataclass(frozen=True, slots=True)
class Translation:
    """A serialized ONNX model of a call; its outputs are the tensors that the call returns, then
    the arguments that it writes.

    ``leaves`` are the call's returned values, of each tensor its dtype. ``written`` are the
    positions of the written tensors among the arguments'. ``signature`` identifies it.
    """

    model: bytes
    leaves: tuple[tuple[bool, Any], ...]
    written: tuple[int, ...]
    signature: str

    def returned(self, outputs: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> Any:
        """What the call returns, from the graph's outputs; the written arguments are written."""
        remaining = iter(outputs)
        values = [
            _as_dtype(next(remaining), leaf) if is_tensor else leaf
            for is_tensor, leaf in self.leaves
        ]
        for position, result in zip(self.written, remaining, strict=True):
            try:
                tensors[position].copy_(result)
            except RuntimeError as error:  # its elements share memory
                raise Unsupported(f"what it writes cannot be put back: {told(error)}") from None
        return values


def _as_dtype(output: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A graph's output as the exporter means it: complex numbers are pairs in a last dimension."""
    pairs = dtype.is_complex and output.is_floating_point() and output.shape[-1:] == (2,)
    return torch.view_as_complex(output.contiguous()) if pairs else output


class Signatures:
    """What identifies a call but its tensors' numbers, within one process."""

    def __init__(self) -> None:
        self._functions: dict[int, Any] = {}  # keeps their ids from being used again

    def of(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The operator, and of each argument dtype and shape if it is a tensor, else its value."""
        function = operator.callable
        self._functions[id(function)] = function
        described = map_leaves(_described, [list(args), dict(kwargs)])
        return f"{operator.name} {id(function)} {described}"


class Translator:
    """Translates calls for one opset version (None: the exporter's own), each signature once."""

    def __init__(self, opset: int | None = None) -> None:
        self._opset = opset
        self._known: OrderedDict[str, Translation | Exception] = OrderedDict()
        self._signatures = Signatures()

    def translate(
        self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Translation:
        """Raises Unsupported with the exporter's reason; if torch itself refuses the call, what
        torch raises."""
        key = self._signatures.of(operator, args, kwargs)
        # A graph knows no strides, but torch refuses some tensors for theirs: a refusal is kept for
        # tensors laid out like these.
        refused = f"{key} {[tensor.stride() for tensor in tensors_of(args, kwargs)]}"
        for name in (key, refused):
            if name in self._known:
                self._known.move_to_end(name)
                return _given(self._known[name])
        try:
            found: Translation | Exception = _translated(operator, args, kwargs, self._opset, key)
        except Exception as error:
            found = error.with_traceback(None)
        self._known[refused if isinstance(found, Exception) else key] = found
        if len(self._known) > MAX_TRANSLATIONS:
            self._known.popitem(last=False)
        return _given(found)


def _given(found: Translation | Exception) -> Translation:
    if isinstance(found, Exception):
        raise found
    return found


def _described(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return f"{leaf.dtype}{list(leaf.shape)}"
    return f"{type(leaf).__name__}:{leaf!r}"


def tensors_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """The tensors among the arguments, in order."""
    return [leaf for leaf in flatten((args, kwargs)) if isinstance(leaf, torch.Tensor)]


def _translated(
    operator: Operator,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    opset: int | None,
    signature: str,
) -> Translation:
    tensors = tensors_of(args, kwargs)
    written = tuple(i for i in operator.mutates if i < len(tensors))
    leaves: list[tuple[bool, Any]] = []

    def traced(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # The graph must not write its inputs: what is written is one of its outputs.
        copies = [t.clone() if i in written else t for i, t in enumerate(given)]
        remaining = iter(copies)

        def placed(leaf: Any) -> Any:
            return next(remaining) if isinstance(leaf, torch.Tensor) else leaf

        result = operator(*map_leaves(placed, tuple(args)), **map_leaves(placed, dict(kwargs)))
        leaves[:] = [
            (True, leaf.dtype) if isinstance(leaf, torch.Tensor) else (False, leaf)
            for leaf in flatten(result)
        ]
        returned = [leaf for leaf in flatten(result) if isinstance(leaf, torch.Tensor)]
        if len(returned) > MAX_TENSORS:
            raise Unsupported(f"it returns {len(returned):,} tensors; {MAX_TENSORS} are exported")
        return (*returned, *(copies[i] for i in written))

    try:
        model = exporter.export(traced, [tensor.detach() for tensor in tensors], opset)
    except Exception as error:
        raise_as_torch(operator, args, kwargs)
        raise Unsupported(reason(error)) from None
    if not any(is_tensor for is_tensor, _ in leaves) and not written:
        raise Unsupported("it returns no tensor: nothing of it is in the graph")
    if any(isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)) for _, leaf in leaves):
        raise Unsupported("it returns a number that depends on those in its tensors")
    return Translation(model, tuple(leaves), written, signature)


def raise_as_torch(operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises what torch raises for this call, if it does."""

    def copied(leaf: Any) -> Any:
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

    with torch.no_grad():
        operator(*map_leaves(copied, tuple(args)), **map_leaves(copied, dict(kwargs)))


def reason(error: BaseException) -> str:
    """The exporter's sentence in a few words: the innermost cause that says something."""
    texts = [_sentence(each) for each in _chain(error)]
    sentence = next((text for text in reversed(texts) if text), type(error).__name__)
    missing = _MISSING.search(sentence)
    return f"no ONNX graph: {f'none for {missing[1]}.{missing[2]}' if missing else sentence}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _sentence(error: BaseException) -> str:
    """The first line that is no heading of the exporter's report."""
    lines = (first_line(line) for line in text_of(error).splitlines())
    return next((line[:160] for line in lines if line and not line.startswith(_HEADINGS)), "")


_MISSING = re.compile(r"No ONNX function found for <OpOverload\(op='(.+?)', overload='(.+?)'\)>")
_HEADINGS = ("Failed to ", "This is step", "## ", "(Refer to", "- ", "<class", "\x1b", "While exec")
