"""Text that a reader of the page would not see, shown with a label. Pure.

An agent must not follow words that its owner cannot see: HTML comments, Unicode tag
characters, bidirectional overrides, and characters without a width of their own where
they are not at home.
"""

from __future__ import annotations

import re

_COMMENT = re.compile(r"<!--(.*?)(?:-->|\Z)", re.DOTALL)
_OPENING = "<!--"
_LABEL, _LABEL_END = "[hidden HTML comment: ", "]"
CONTINUED = "[hidden HTML comment, continued: "

_TAGS = "\U000e0000-\U000e007f"
_OVERRIDES = "\u202a-\u202e\u2066-\u2069"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef\u180b-\u180d\u180f"
# One alone joins emoji, shapes Persian and Indic words, parts a long word or chooses
# the form of a character; a run carries a message.
_JOINERS = "\u200c\u200d\u2060\ufeff\u00ad\u034f"
# At home nowhere in running text.
_BLANKS = "\u200b\u2061-\u2064\u115f\u1160\u3164\uffa0\u180e"
_CHARACTERS = re.compile(
    f"[{_TAGS}]+|[{_OVERRIDES}]+"
    f"|[{_JOINERS}{_BLANKS}{_SELECTORS}]{{2,}}|[{_BLANKS}]"
    # A selector chooses among the forms of a symbol or an ideograph: a Latin letter,
    # a space or nothing at all has no forms.
    f"|(?:(?<=[A-Za-z\\s])|\\A)[{_SELECTORS}]"
)
# As emoji are written: a sign, its form, a joiner, the next sign.
_EMOJI_JOINT = "\ufe0f\u200d"
_FIRST_TAG = 0xE0000


def show(text: str, *, inside: bool = False) -> str:
    """Return `text` with what is hidden in it labelled, nothing left out.

    `[hidden HTML comment: words]`, `[hidden characters: words or code points]`.
    `inside`: the text begins within a comment that was opened before it.
    """
    return _show(text, inside=inside)[0]


def show_from(text: str, offset: int) -> tuple[str, bool]:
    """Return a whole text as shown, and whether `offset` (in what is shown) is within
    the label of a comment.
    """
    shown, labels = _show(text, inside=False)
    return shown, any(start < offset < end for start, end in labels)


def _show(text: str, *, inside: bool) -> tuple[str, list[tuple[int, int]]]:
    if not text.isascii():
        text = _CHARACTERS.sub(_label, text)
    if inside:
        text = _OPENING + text
    if _OPENING not in text:
        return text, []
    parts: list[str] = []
    labels: list[tuple[int, int]] = []
    size = end = 0
    for found in _COMMENT.finditer(text):
        before = text[end : found.start()]
        label = f"{_LABEL}{found.group(1).strip()}{_LABEL_END}"
        size += len(before)
        labels.append((size, size + len(label)))
        size += len(label)
        parts += (before, label)
        end = found.end()
    parts.append(text[end:])
    return "".join(parts), labels


def _label(found: re.Match[str]) -> str:
    hidden = found.group()
    if hidden == _EMOJI_JOINT:
        return hidden
    said = "".join(map(_spell, hidden))
    return f"[hidden characters: {said.strip()}]"


def _spell(character: str) -> str:
    code = ord(character)
    if _FIRST_TAG + 0x20 <= code < _FIRST_TAG + 0x7F:
        return chr(code - _FIRST_TAG)
    return f" U+{code:04X}"
