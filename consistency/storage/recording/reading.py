"""Reading a recording, which may be damaged."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ...backends._messages import classified_again
from ...core import recipe
from ...core.codec import CodecError, Json, decode_outcome, text_in
from ...core.model import DIRECTIONS, Outcome
from ...core.reading import lines
from ...core.text import one_line
from ...errors import BundleError
from ..cases import read_cases
from .header import RECORDING, read_header
from .tensors import TensorReader


@dataclass(frozen=True, slots=True)
class OutcomeRow:
    """One line of outcomes.jsonl: one case in one direction, without its tensors' data."""

    id: str
    case_id: str
    direction: str
    configuration: str
    problem: str
    # Its tensors are on the meta device; :meth:`Recording.outcome` reads them.
    outcome: Outcome
    keys: tuple[str, ...]


class Recording:
    """A recording: header, cases by id, and rows; tensors are read on access. Raises
    BundleError."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.header = read_header(self.folder)
        if self.header.kind != RECORDING:
            raise BundleError(
                f"{self.folder} is a corpus: it has cases, but no outcomes; record them with "
                f"--corpus"
            )
        self.cases = {entry.case.id: entry.case for entry in read_cases(self.folder)}
        self._tensors = TensorReader(self.folder)
        path = self.folder / "outcomes.jsonl"
        self.rows: list[OutcomeRow] = []
        ids: set[str] = set()
        for number, data in lines(path):
            row = self._row(f"{path}:{number}", data)
            if row.id in ids:
                raise BundleError(
                    f"{path}:{number}  damaged: the id {row.id[:80]!r} stands there twice"
                )
            ids.add(row.id)
            self.rows.append(row)

    def outcome(self, row: OutcomeRow) -> Outcome:
        """The row's outcome with its tensors. Raises BundleError if one cannot be read."""
        keys = iter(row.keys)
        outputs = []
        for output in row.outcome.outputs:
            if output.tensor is None or output.tensor.layout != torch.strided:
                outputs.append(output)
                continue
            key = next(keys)
            tensor = self._tensors.get(key, output.tensor.dtype)
            if tensor.shape != output.tensor.shape:
                raise BundleError(
                    f"{self.folder}: the tensor {key!r:.120} has shape {list(tensor.shape)}, not "
                    "what its outcome says"
                )
            outputs.append(replace(output, tensor=tensor))
        return replace(row.outcome, outputs=tuple(outputs))

    def close(self) -> None:
        self._tensors.close()

    def _row(self, place: str, data: dict[str, Any]) -> OutcomeRow:
        try:
            name, case_id, direction = (
                text_in(data, key) for key in ("id", "case_id", "direction")
            )
            if case_id not in self.cases:
                raise BundleError(f"{place}  damaged: cases.jsonl has no case {case_id[:80]!r}")
            if direction not in DIRECTIONS:
                raise BundleError(f"{place}  damaged: direction {direction[:40]!r}")
            keys: list[str] = []
            outcome = classified_again(
                decode_outcome(data, functools.partial(self._placeholder, place, keys))
            )
            configuration, problem = (
                one_line(text_in(data, key, "")) for key in ("configuration", "problem")
            )
            return OutcomeRow(
                name, case_id, direction, configuration, problem, outcome, tuple(keys)
            )
        except KeyError as error:
            raise BundleError(f"{place}  damaged: it has no {error}") from None
        except CodecError as error:
            raise BundleError(f"{place}  damaged: {error}") from None
        except BundleError:
            raise
        except (TypeError, ValueError, AttributeError, OverflowError, RuntimeError) as error:
            raise BundleError(
                f"{place}  damaged: {type(error).__name__} {str(error).splitlines()[0][:100]}"
            ) from None

    def _placeholder(
        self,
        place: str,
        keys: list[str],
        fields: Json,
        dtype: torch.dtype | None,
        _: tuple[int, ...],
    ) -> torch.Tensor:
        """An empty tensor like the stored one, whose key is added to ``keys``."""
        name = str(fields["name"])[:40]
        if dtype is None:
            raise BundleError(
                f"{place}  damaged: {name} has the dtype {str(fields['dtype'])[:40]!r}, which "
                f"torch {torch.__version__} lacks"
            )
        shape = recipe.sizes(fields["shape"])
        if "layout" in fields and fields["layout"] != "strided":
            if not isinstance(getattr(torch, text_in(fields, "layout"), None), torch.layout):
                raise BundleError(f"{place}  damaged: {name} has an unknown layout")
            return torch.empty(shape, dtype=dtype, layout=torch.sparse_coo)
        key = text_in(fields, "key")
        if key not in self._tensors:
            raise BundleError(f"{place}  no file of the recording holds the tensor {key[:120]!r}")
        keys.append(key)
        return torch.empty(shape, dtype=dtype, device="meta")
