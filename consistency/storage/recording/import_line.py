"""One line of the manifest of an imported folder: a case and what became of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ...backends._messages import fallback_in, raised
from ...core import dtypes, recipe
from ...core.bits import to_bytes
from ...core.case_source import call_source
from ...core.model import Case, Outcome, Output
from ...core.verdict import OutcomeStatus
from ...errors import BundleError, ConsistencyError
from ...generate.calls.torch_functions import declared_as
from ...operators.catalog.functions import function_named
from .import_tensors import Tensors
from .views import chain_of

_SIGNALS = {"abort": "crash", "segfault": "crash", "timeout": "timeout"}
_WORDS = {
    "abort": "the process was aborted",
    "segfault": "the process died of a segmentation fault",
    "timeout": "timed out",
}
_STAGES = {
    "inputs": "while its inputs were copied to the device", "call": "in the call",
    "backward": "in the backward pass",
    "readback": "while its result was read back",
}  # fmt: skip


class Line:
    """One line of the manifest as a case and its outcome. ``problem`` is the reason why it cannot
    be judged, or empty."""

    def __init__(self, line: Mapping[str, Any], tensors: Tensors) -> None:
        self._line, self._tensors = line, tensors
        self.id, self.direction = _text(line["id"]), _text(line["direction"])
        if self.direction not in ("forward", "backward"):
            raise BundleError(f"unknown direction {self.direction!r:.40}")
        self.configuration = _text(line.get("configuration", ""))
        self.order = list(_named([line["args"], dict(sorted(line["kwargs"].items()))]))
        self.problem = ""
        operator, call = self._operator_and_call()
        backward = self.direction == "backward"
        literals = {name: self._tensor(entry, backward) for name, entry in line["tensors"].items()}
        if len(set(self.order)) < len(self.order) and (backward or line.get("mutates")):
            self.problem = self.problem or (
                "one tensor is given twice, and written or differentiated: a recipe cannot say that"
            )
        args = tuple(_argument(value, literals) for value in line["args"])
        kwargs = {
            name: _argument(value, literals)
            for name, value in line["kwargs"].items()
            if not _is_device(value)
        }
        writes = tuple(
            i for i, name in enumerate(self.order) if name in (line.get("mutates") or ())
        )
        cotangents = tuple(
            None if c is None else _literal(tensors.get(c)) for c in line.get("cotangents") or ()
        )
        self.case = Case(
            operator, _text(line["dtype"]), args, kwargs, 0, call_source(call, writes), cotangents
        )
        self.outcome = self._outcome(writes)

    def _operator_and_call(self) -> tuple[str, str]:
        """The operator's name (the registered one for the same function) and the name of the called
        function."""
        line, call = self._line, _text(self._line["call"])
        recorded_name = ".".join(
            filter(None, (_text(line["operator"]), _text(line.get("variant", ""))))
        )
        try:
            declared = declared_as(call, function_named(call))
        except ConsistencyError as error:
            self.problem = str(error)
            return recorded_name, call
        return (declared.name if declared is not None else recorded_name), call

    def _tensor(self, entry: Mapping[str, Any], backward: bool) -> recipe.Literal:
        leaf = not backward or entry.get("requires_grad") is True
        strided = "stride" in entry
        base = self._tensors.get(entry, whole=not strided)
        if not strided:
            return _literal(base, leaf)
        shape, stride, offset = (
            tuple(entry["shape"]),
            tuple(entry["stride"]),
            entry.get("storage_offset", 0),
        )
        chain = chain_of(base, entry.get("view") or (), (shape, stride, offset))
        return recipe.Literal(
            to_bytes(base),
            dtypes.name_of(base.dtype),
            shape,
            stride,
            offset,
            leaf,
            tuple(base.shape) if chain else (),
            chain,
        )

    def _outcome(self, writes: tuple[int, ...]) -> Outcome:
        line = self._line
        texts = tuple(dict.fromkeys(_text(w["message"]) for w in line.get("warnings", ())))
        seconds, unsteady = float(line.get("wall_ms") or 0.0) / 1000.0, ""
        if line.get("repeats_identical") is False:
            unsteady = (
                f"{line.get('repeated', 'further')} more recordings of this call did not "
                f"all give the same bits"
            )
        common: dict[str, Any] = {"warnings": texts, "seconds": seconds, "unsteady": unsteady}
        status, exception = line["outcome"], line.get("exception") or {}
        text, stage = (
            _text(exception.get("message") or ""),
            _STAGES.get(line.get("stage") or "", ""),
        )
        if status in _SIGNALS:
            return Outcome(
                OutcomeStatus(_SIGNALS[status]),
                (),
                "",
                " ".join(filter(None, (_WORDS[status], stage))) + (f": {text}" if text else ""),
                **common,
            )
        if status == "raises":
            failure = raised(_text(exception.get("type") or ""), text)
            prefix = f"{stage}: " if stage and line["stage"] != "call" else ""
            return Outcome(
                failure.status, (), failure.exception, prefix + failure.message, **common
            )
        if status != "ok":
            raise BundleError(f"unknown outcome {status!r:.40}")
        outputs = tuple(self._outputs(writes))
        returned = [
            output
            for output in outputs
            if output.tensor is not None and not output.name.startswith("arg/")
        ]
        on_cpu = (
            bool(returned)
            and all(output.device == "cpu" for output in returned)
            and line["call"] != "Tensor.cpu"
        )
        reason = fallback_in(texts) or (
            f"{returned[0].name} came back on the CPU" if on_cpu else ""
        )
        return Outcome(
            OutcomeStatus.FALLBACK if reason else OutcomeStatus.OK, outputs, "", reason, **common
        )

    def _outputs(self, writes: tuple[int, ...]) -> Iterator[Output]:
        leaves = [name for name in self.order if self._line["tensors"][name].get("requires_grad")]
        if self.direction == "backward":
            grads = {_text(o["name"]).partition("/")[2]: o for o in self._line["outputs"]}
            extra = sorted(set(grads) - set(leaves))
            if extra:
                self.problem = self.problem or f"a gradient of {extra[0]!r:.40}, which needs none"
            for number, name in enumerate(leaves):
                yield self._output(f"grad/{number}", grads.get(name, {"value": None}))
            return
        for output in self._line["outputs"]:
            yield self._output(_text(output["name"]), output)
        after = {entry["tensor"]: entry for entry in self._line.get("after") or ()}
        for position in writes:
            name = self.order[position]
            if name not in after:
                self.problem = self.problem or f"nobody kept what {name!r:.40} held after the call"
                continue
            tensor = self._tensors.get(after[name])
            yield Output(f"arg/{position}", tensor.reshape(-1), dtypes.name_of(tensor.dtype), "")

    def _output(self, name: str, entry: Mapping[str, Any]) -> Output:
        if "key" not in entry:
            return Output(name, None, device="", value=_argument(entry.get("value"), {}))
        return Output(
            name, self._tensors.get(entry), _text(entry["dtype"]), _text(entry.get("device", ""))
        )


def _argument(value: Any, tensors: Mapping[str, recipe.Literal]) -> recipe.Arg:
    """Decode an argument. Raises RecipeError."""
    if isinstance(value, list):
        return [_argument(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"tensor"}:
        if value["tensor"] not in tensors:
            raise BundleError(f"there is no tensor {value['tensor']!r:.40} in this case")
        return tensors[value["tensor"]]
    if set(value) == {"tuple"}:
        return tuple(_argument(item, tensors) for item in value["tuple"])
    if _is_device(value):
        return "cpu"
    return recipe.decode(value)


def _is_device(value: Any) -> bool:
    return isinstance(value, dict) and set(value) == {"device"}


def _named(value: Any) -> Iterator[str]:
    """The names of the tensors in ``value`` in order of materialization."""
    if isinstance(value, dict) and set(value) == {"tensor"}:
        yield value["tensor"]
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _named(item)


def _literal(tensor: torch.Tensor, leaf: bool = True) -> recipe.Literal:
    tensor = tensor.contiguous()
    return recipe.Literal(
        to_bytes(tensor),
        dtypes.name_of(tensor.dtype),
        tuple(tensor.shape),
        tuple(tensor.stride()),
        0,
        leaf,
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is no text")
    return value
