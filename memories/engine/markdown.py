"""Notes as text: encoding, front matter, titles, tags and links. Pure.

Bytes in, shapes out. A day log's entries are daylog.py's, chunks chunks.py's.
"""

from __future__ import annotations

import codecs
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
GUESS_BYTES = 4_096
UTF8_MARK = b"\xef\xbb\xbf"
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
_FRONT_BEGIN = re.compile(r"---[ \t]*\n[\w-]+[ \t]*:(?:[ \t].*)?\n")
_FRONT_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_TEXT_KEYS = ("title", "scope")
_BRACKET = re.compile(r"[\[\]{}]")
_TAG = re.compile(r"(?<![\w/#&])#([\w][\w/-]*[\w]|[\w])")
_INLINE_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)")
_WIKILINK = re.compile(r"\[\[([^\[\]\n|#]+)(?:#[^\[\]\n|]*)?(?:\|[^\[\]\n]*)?\]\]")
_DAY_IN_NAME = re.compile(r"(?<!\d)\d{4}-\d{2}-\d{2}(?!\d)")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*")
HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|$)")


class _Loader(yaml.SafeLoader):
    """Takes a day that no calendar has for what it is, a text."""

    def construct_day(self, node: yaml.ScalarNode) -> object:
        try:
            return self.construct_yaml_timestamp(node)
        except (ValueError, AttributeError):
            return self.construct_scalar(node)


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _Loader.construct_day)


def decode_note(data: bytes) -> tuple[str, str]:
    """Return a note's text with plain line ends, and a problem ("" when none)."""
    problem = ""
    mark, encoding = find_encoding(data)
    if encoding != "utf-8":
        text = data[len(mark) :].decode(encoding, errors="replace")
        problem = UTF16_PROBLEM
    else:
        text, broken = decode(data)
        if broken:
            problem = "invalid UTF-8: the odd bytes are shown as U+FFFD"
    return text.replace("\r\n", "\n").replace("\r", "\n"), problem


def find_encoding(data: bytes) -> tuple[bytes, str]:
    """Return a note's byte order mark and encoding: `utf-8`, `utf-16-le` or `-be`."""
    if data.startswith(UTF8_MARK):
        return UTF8_MARK, "utf-8"
    for mark, encoding in zip(UTF16_MARKS, ("utf-16-le", "utf-16-be"), strict=True):
        if data.startswith(mark):
            return mark, encoding
    return b"", _guess_encoding(data[:GUESS_BYTES])


def _guess_encoding(head: bytes) -> str:
    """Tell UTF-16 without a mark by its zero bytes, which stand on one side alone:
    every second byte in Latin text; in any other, which is no UTF-8, at white space.
    """
    high, low = head[::2].count(0), head[1::2].count(0)
    if bool(high) == bool(low):
        return "utf-8"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
        least = len(head) // 3
    except UnicodeDecodeError:
        least = max(len(head) // 50, 1)
    if low >= least and not high:
        return "utf-16-le"
    if high >= least and not low:
        return "utf-16-be"
    return "utf-8"


def front_matter_of(text: str, body: str) -> str:
    """Return a note's front matter as it stands, given the body split from it."""
    return text[: len(text) - len(body)]


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """Return what a note's front matter says and the text after it."""
    found = _FRONT.match(text, 0, FRONT_MATTER_BYTES)
    if not found:
        return FrontMatter(problem=_why_no_front(text)), text
    source, body = found.group(1), text[found.end() :]
    if not source.strip(" \n"):
        return FrontMatter(), body
    try:
        _require_shallow(source)
        said = yaml.load(source, _Loader)  # noqa: S506 - a SafeLoader
    except Exception:  # noqa: BLE001 - PyYAML lets KeyError, IndexError and more out
        return FrontMatter(problem="front matter is not valid YAML"), text
    if not isinstance(said, dict):
        return FrontMatter(), text
    return _read_front_matter({_as_text(k).lower(): v for k, v in said.items()}), body


def _why_no_front(text: str) -> str:
    """Return what is wrong with a front matter that does not end, "" for a text that
    has none: a rule on the first line may be all that it is.
    """
    begins = text.startswith("---") and _FRONT_BEGIN.match(text)
    if not begins:
        return ""
    is_long = _FRONT_END.search(text, begins.end())
    return f"front matter {'over 64 KiB' if is_long else 'has no end'}: not read"


def _require_shallow(source: str) -> None:
    """Raises: ValueError for deep nesting: the time YAML takes grows with its square."""
    depth = 0
    for mark in _BRACKET.findall(source):
        depth += 1 if mark in "[{" else -1
        if depth > FRONT_MATTER_DEPTH:
            raise ValueError


def _read_front_matter(said: dict[str, object]) -> FrontMatter:
    day = next((d for k in ("date", "created") if (d := _as_day(said.get(k)))), "")
    odd = [key for key in _TEXT_KEYS if not _is_text(said.get(key))]
    odd += [
        key
        for key in ("tags", "aliases", "alias")
        if not (isinstance(said.get(key), list) or _is_text(said.get(key)))
    ]
    odd += [key for key in ("date", "created") if said.get(key) and not day]
    return FrontMatter(
        problem=f"front matter: not understood: {', '.join(odd)}" if odd else "",
        title=_as_text(said.get("title"))[:TITLE_CHARS],
        scope=_as_text(said.get("scope")),
        day=day,
        tags=tuple(tag.lstrip("#") for tag in _as_texts(said.get("tags"))),
        aliases=_as_texts(said.get("aliases", said.get("alias"))),
    )


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | date)


def _as_text(value: object) -> str:
    if isinstance(value, date):
        value = value.isoformat()
    if not isinstance(value, str | int | float):
        return ""
    try:
        text = str(value).strip()
    except ValueError:  # an integer of more than 4,300 digits
        return ""
    # YAML can spell what UTF-8 cannot hold: a lone surrogate.
    return text.encode(errors="replace").decode()


def _as_texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        value = _as_text(value).split(",")
    return tuple(text for item in value[:200] if (text := _as_text(item)))


def _as_day(value: object) -> str:
    try:
        day = date.fromisoformat(_as_text(value)[:10])
    except ValueError:
        return ""
    return day.isoformat() if FIRST_YEAR <= day.year <= LAST_YEAR else ""


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
            if _UNDERLINE.fullmatch(line):
                return ""
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
