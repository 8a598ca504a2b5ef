"""What every page is put together from: its style and scripts in the page itself, data as JSON, and
a policy that admits nothing else."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any


def join_scripts(*scripts: str) -> str:
    """The parts of a script, which share their names, in one function in strict mode."""
    parts = "\n".join(scripts)
    return f'"use strict";\n(() => {{\n{parts}}})();\n'


def source(name: str) -> str:
    """A style or script from the folder of templates."""
    return (Path(__file__).with_name("templates") / name).read_text(encoding="utf-8")


def policy_of(style: str, script: str) -> str:
    """A content security policy that admits only this style and this script, and no requests."""

    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    return (
        f"default-src 'none'; style-src 'sha256-{digest(style)}'; script-src "
        f"'sha256-{digest(script)}'; base-uri 'none'"
    )


def embed_json(value: Any) -> str:
    """JSON that is safe in a script element: it cannot close the element, open a comment, or
    contain a line terminator of JavaScript."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
