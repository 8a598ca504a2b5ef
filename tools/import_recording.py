"""``python tools/import_recording.py SOURCE DEST``: a folder of recorded calls becomes a recording
that can be judged.

SOURCE holds manifest.jsonl, tensors.safetensors and environment.json, as docs/record-and-judge.md
describes; DEST is new.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parent.parent)
)  # the checkout that this file is in, installed or not

from consistency.errors import ConsistencyError
from consistency.storage.recording.import_folder import convert


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0].startswith("-"):
        print("usage: python tools/import_recording.py SOURCE DEST", file=sys.stderr)
        return 2
    source, folder = (Path(argument) for argument in arguments)
    try:
        count, problems = convert(source, folder)
    except ConsistencyError as error:
        print(f"import_recording: {error}", file=sys.stderr)
        return 2
    apart = f", {problems} of them without a reference" if problems else ""
    print(f"{count} outcomes{apart} in {folder}; judge them with: consistency judge {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
