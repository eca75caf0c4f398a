"""A note's bytes with other words in them: encoding, mark and line ends stay. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from .errors import Conflict, Invalid
from .markdown import find_encoding

Spans = Sequence[tuple[int, int]]

REDACTED = "[redacted]"
"""Stands where words were taken out, so that nobody takes the rest for the whole."""

_LINE_END = re.compile(r"\r\n|\r|\n")


def encode_like(old: bytes, text: str) -> bytes:
    """Return `text` as it is to follow `old` in its file: with the same encoding, byte
    order mark and line ends (those of the first line). Raises: Conflict.
    """
    mark, encoding, said = _decode(old)
    first = _LINE_END.search(said)
    if first is not None and first.group() != "\n":
        text = text.replace("\r\n", "\n").replace("\n", first.group())
    return mark + text.encode(encoding)


def cut_words(old: bytes, spans: Spans) -> bytes:
    """Return a note's bytes without the words at `spans`, code points of its text as
    it is read (without mark, each line end one character). Raises: Conflict.
    """
    mark, encoding, said = _decode(old)
    # Where, in the text as read, a line end stands for two characters of the file.
    doubles = [found.start() for found in re.finditer("\r\n", said)]
    doubles = [start - earlier for earlier, start in enumerate(doubles)]
    there = [
        (start + bisect_left(doubles, start), stop + bisect_left(doubles, stop))
        for start, stop in spans
    ]
    return mark + cut(said, there).encode(encoding)


def cut(text: str, spans: Spans) -> str:
    """Return `text` with REDACTED in the place of each span; spans are sorted."""
    kept: list[str] = []
    position = 0
    for start, stop in spans:
        kept += [text[position:start], REDACTED]
        position = stop
    return "".join([*kept, text[position:]])


def check_spans(spans: object, length: int) -> list[tuple[int, int]]:
    """Return spans sorted, those that touch made one. Raises: Invalid naming one."""
    if not isinstance(spans, list) or not spans:
        message = "spans is empty: name the words as [[start, end], ...]"
        raise Invalid(message)
    found: list[tuple[int, int]] = []
    for span in spans:
        ends = list(span) if isinstance(span, list | tuple) else []
        is_pair = len(ends) == 2 and all(type(end) is int for end in ends)
        if not is_pair or not 0 <= ends[0] < ends[1] <= length:
            message = (
                f"span {str(span)[:40]} is not [start, end] with "
                f"0 <= start < end <= {length:,}"
            )
            raise Invalid(message)
        found.append((ends[0], ends[1]))
    merged: list[tuple[int, int]] = []
    for start, stop in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
        else:
            merged.append((start, stop))
    return merged


def _decode(data: bytes) -> tuple[bytes, str, str]:
    """Return byte order mark, encoding and text with its own line ends."""
    mark, encoding = find_encoding(data)
    try:
        return mark, encoding, data[len(mark) :].decode(encoding)
    except UnicodeError as fault:
        message = "the file holds bytes that are no text: save it as UTF-8 first"
        raise Conflict(message) from fault
