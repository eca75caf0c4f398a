"""Text that a reader of the page would not see, shown with a label. Pure.

An agent must not follow words that its owner cannot see: HTML comments, Unicode tag
characters, bidirectional overrides, runs of zero-width characters.
"""

from __future__ import annotations

import re

_COMMENT = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)
_TAGS = "\U000e0000-\U000e007f"
_OVERRIDES = "\u202a-\u202e\u2066-\u2069"
# One alone joins emoji and shapes Persian and Indic words; a run carries a message.
_CHARACTERS = re.compile(
    f"[{_TAGS}]+|[{_OVERRIDES}]+|[\u200b-\u200d\u2060\ufeff]{{2,}}|\u200b"
)
_FIRST_TAG = 0xE0000


def show(text: str) -> str:
    """Return `text` with what is hidden in it labelled, nothing left out.

    `[hidden HTML comment: words]`, `[hidden characters: words or code points]`.
    """
    if "<!--" in text:
        text = _COMMENT.sub(
            lambda found: f"[hidden HTML comment: {found.group(1).strip()}]", text
        )
    return text if text.isascii() else _CHARACTERS.sub(_label, text)


def _label(found: re.Match[str]) -> str:
    said = "".join(
        chr(ord(character) - _FIRST_TAG)
        if _FIRST_TAG + 0x20 <= ord(character) < _FIRST_TAG + 0x7F
        else f" U+{ord(character):04X}"
        for character in found.group()
    )
    return f"[hidden characters: {said.strip()}]"
