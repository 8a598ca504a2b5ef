"""Files of tensors in the safetensors format, written without its package: the length of a JSON
header (8 bytes, little endian), the header, and the numbers one after the other."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import torch

from ..recording.tensors import PLAIN, packed


def as_safetensors(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """The bytes of a file with these tensors, each contiguous and on the CPU afterwards."""
    header, parts, position = {}, [], 0
    for key, tensor in tensors.items():
        plain = packed(tensor.cpu())
        data = _little_endian(plain)
        header[key] = {
            "dtype": PLAIN[plain.dtype],
            "shape": list(plain.shape),
            "data_offsets": [position, position + len(data)],
        }
        parts.append(data)
        position += len(data)
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])


def _little_endian(tensor: torch.Tensor) -> bytes:
    raw = tensor.contiguous().reshape(-1)
    if not raw.numel():
        return b""
    numbers = raw.view(torch.uint8).numpy()
    if sys.byteorder == "big" and tensor.element_size() > 1:
        numbers = numbers.reshape(-1, tensor.element_size())[:, ::-1]
    return numbers.tobytes()
