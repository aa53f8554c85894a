"""One HTML file of a template, a style, a script and data, which only that style and that script can act on."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

import msgspec

__all__ = ["render", "write_private"]

_PERMITTED: Final = (
    "default-src 'none'; script-src '{script}'; style-src '{style}'; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Nothing is loaded or sent, nothing inline runs but what has these hashes, and no string becomes markup."""
_UNSAFE: Final = re.compile("[<>&\x7f-\U0010ffff]")
"""What could end the element that holds the data, or make its source look like something else."""


def render(data: Any) -> str:
    """The page that shows `data`, which becomes JSON. Its shape is what report.js reads."""
    style, script = _part("report.css"), _part("report.js")
    policy = _PERMITTED.format(script=_hash(script), style=_hash(style))
    return Template(_part("page.html")).substitute(policy=policy, style=style, script=script, data=_embedded(data))


def write_private(path: Path, text: str) -> int:
    """Write `text` whole or not at all, readable by its owner only; the bytes written. Raises `OSError`."""
    encoded = text.encode()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(encoded)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return len(encoded)


def _part(name: str) -> str:
    return files("actionspan.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: Any) -> str:
    """`data` as JSON of harmless ASCII: no tag, no comment, no line separator, no bidirectional mark."""
    return _UNSAFE.sub(_escaped, msgspec.json.encode(data, enc_hook=str).decode())


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
