"""Notes as text: encoding, front matter, titles, tags and links. Pure.

Bytes in, shapes out. A day log's entries are daylog.py's, chunks chunks.py's.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import date

import yaml

FRONT_MATTER_BYTES = 64 * 1024
FRONT_MATTER_DEPTH = 50
TITLE_CHARS = 120
INLINE_CODE_CHARS = 4_000
"""A longer line is read as if it held no code: to pair its backticks would take long."""

FIRST_YEAR, LAST_YEAR = 1900, 2999
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF16_PROBLEM = "UTF-16: read, but better saved as UTF-8"


def text_digest(text: str) -> str:
    """Return the first 16 hex digits of the SHA-256 of a text's UTF-8 bytes.

    It tells edited words from kept ones; it guards against accident, not attack.
    """
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def decode(data: bytes, *, keep_mark: bool = False) -> tuple[str, bool]:
    """Return the text and whether invalid bytes had to be replaced."""
    try:
        text, broken = data.decode(), False
    except UnicodeDecodeError:
        text, broken = data.decode(errors="replace"), True
    return (text if keep_mark else text.removeprefix("\ufeff")), broken


# --- notes ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FrontMatter:
    title: str = ""
    scope: str = ""
    day: str = ""
    tags: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    problem: str = ""


_FRONT = re.compile(r"\A---[ \t]*\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
_BRACKET = re.compile(r"[\[\]{}]")
_TAG = re.compile(r"(?<![\w/#&])#([\w][\w/-]*[\w]|[\w])")
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")
_WIKILINK = re.compile(r"\[\[([^\[\]\n|#]+)(?:#[^\[\]\n|]*)?(?:\|[^\[\]\n]*)?\]\]")
_DAY_IN_NAME = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)")


def decode_note(data: bytes) -> tuple[str, str]:
    """Return a note's text with plain line ends, and a problem ("" when none)."""
    problem = ""
    if data.startswith(UTF16_MARKS):
        text = data.decode("utf-16", errors="replace").removeprefix("\ufeff")
        problem = UTF16_PROBLEM
    else:
        text, broken = decode(data)
        if broken:
            problem = "invalid UTF-8: the odd bytes are shown as U+FFFD"
    return text.replace("\r\n", "\n").replace("\r", "\n"), problem


def front_matter_of(text: str, body: str) -> str:
    """Return a note's front matter as it stands, given the body split from it."""
    return text[: len(text) - len(body)]


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """Return what a note's front matter says and the text after it."""
    found = _FRONT.match(text)
    if not found:
        return FrontMatter(), text
    source, body = found.group(1), text[found.end() :]
    if len(source) > FRONT_MATTER_BYTES:
        return FrontMatter(problem="front matter over 64 KiB: not read"), text
    try:
        _require_shallow(source)
        said = yaml.safe_load(source)
    except Exception:  # noqa: BLE001 - PyYAML lets KeyError, IndexError and more out
        return FrontMatter(problem="front matter is not valid YAML"), text
    if not isinstance(said, dict):
        return FrontMatter(), text
    return _read_front_matter({_as_text(k).lower(): v for k, v in said.items()}), body


def _require_shallow(source: str) -> None:
    """Raises: ValueError for deep nesting: the time YAML takes grows with its square."""
    depth = 0
    for mark in _BRACKET.findall(source):
        depth += 1 if mark in "[{" else -1
        if depth > FRONT_MATTER_DEPTH:
            raise ValueError


def _read_front_matter(said: dict[str, object]) -> FrontMatter:
    day = next((d for k in ("date", "created") if (d := _as_day(said.get(k)))), "")
    return FrontMatter(
        title=_as_text(said.get("title"))[:TITLE_CHARS],
        scope=_as_text(said.get("scope")),
        day=day,
        tags=tuple(tag.lstrip("#") for tag in _as_texts(said.get("tags"))),
        aliases=_as_texts(said.get("aliases", said.get("alias"))),
    )


def _as_text(value: object) -> str:
    if not isinstance(value, str | int | float):
        return ""
    try:
        text = str(value).strip()
    except ValueError:  # an integer of more than 4,300 digits
        return ""
    # YAML can spell what UTF-8 cannot hold: a lone surrogate.
    return text.encode(errors="replace").decode()


def _as_texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        return ()
    return tuple(text for item in value[:200] if (text := _as_text(item)))


def _as_day(value: object) -> str:
    if isinstance(value, date):
        return value.isoformat()[:10]
    try:
        return date.fromisoformat(_as_text(value)[:10]).isoformat()
    except ValueError:
        return ""


def find_tags(text: str) -> list[str]:
    """Return the #tags of a text, first met first, each once; none out of code."""
    if "#" not in text:
        return []
    found = _TAG.findall(_without_code(text))
    return list(dict.fromkeys(tag for tag in found if not tag.isdigit()))


def find_wikilinks(text: str) -> list[str]:
    """Return the targets of [[wikilinks]], without heading and shown text; none out of
    code.
    """
    if "[[" not in text:
        return []
    found = _WIKILINK.findall(_without_code(text))
    return list(dict.fromkeys(target.strip() for target in found))


def _without_code(text: str) -> str:
    """Return a text without what stands in fences and between backticks."""
    if "`" not in text and "~~~" not in text:
        return text
    kept: list[str] = []
    fence = ""
    for line in text.split("\n"):
        before, fence = fence, fence_after(line, fence)
        if before or fence:
            continue
        is_short = len(line) <= INLINE_CODE_CHARS
        kept.append(_INLINE_CODE.sub(" ", line) if "`" in line and is_short else line)
    return "\n".join(kept)


def first_line(text: str) -> str:
    """Return a title for a text: its first line with words, without `#`."""
    for line in text.splitlines():
        if bare := line.strip().lstrip("#").strip():
            return bare[:TITLE_CHARS]
    return ""


def first_heading(text: str) -> str:
    """Return the heading that a text begins with, "" when it begins otherwise."""
    lines = text[:4_000].splitlines()
    for number, line in enumerate(lines):
        if HEADING.match(line):
            return line.strip().strip("#").strip()[:TITLE_CHARS]
        if line.strip():
            is_setext = _UNDERLINE.fullmatch("".join(lines[number + 1 : number + 2]))
            return line.strip()[:TITLE_CHARS] if is_setext else ""
    return ""


def find_day(path: str) -> str:
    """Return the day that stands in a path, "" when none does."""
    for found in _DAY_IN_NAME.findall(path.rpartition("/")[2]):
        if day := _as_day(found):
            return day
    return ""


def fence_after(line: str, fence: str) -> str:
    """Return the fence that is open after `line`, "" for none."""
    found = _FENCE.match(line)
    if not found:
        return fence
    marks, rest = found.groups()
    if not fence:
        return "" if marks[0] == "`" and "`" in rest else marks
    closes = marks[0] == fence[0] and len(marks) >= len(fence) and not rest.strip()
    return "" if closes else fence
