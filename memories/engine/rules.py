"""What an argument may be: lengths, characters, scopes, days, moments.

Everything refused here is refused before anything is written. The rules are the
tool contract's (docs/mcp.md), the same for every door.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from .errors import Invalid, TooLarge
from .types import GLOBAL_SCOPE as GLOBAL_SCOPE

STATEMENT_CHARS = 4_000
NAME_CHARS = 200
OBJECT_CHARS = 4_000
SOURCE_CHARS = 100
NAMED_BY_PATH = ("note:", "entry:")
ID_CHARS = 5_000
"""A path has at most 4,095 bytes."""

QUERY_CHARS = 10_000
NOTE_CHARS = 1_000_000
"""Of a note that its owner rewrites in the product."""

FIRST_YEAR, LAST_YEAR = 1900, 2999
DAY_CHARS = 10
"""No ISO 8601 form of a moment with an hour is as short; none of a day is longer."""

RESERVED_LABELS = frozenset({"system", "developer", "assistant", "renor"})

_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_WHITE = re.compile(r"\s+")


def require_text(name: str, value: str, most_chars: int, *, blank: bool = False) -> str:
    """Return `value` as it is. Raises: Invalid or TooLarge, naming the argument.

    `most_chars` counts code points. `blank` allows an empty or white value.
    """
    _require_characters(name, value)
    if len(value) > most_chars:
        message = (
            f"{name} has {len(value):,} characters; at most {most_chars:,} are kept "
            "and nothing is cut: nothing was saved, split it or shorten it"
        )
        raise TooLarge(message)
    if not blank and not value.strip():
        message = f"{name} is empty: say what to keep or look for"
        raise Invalid(message)
    return value


def require_id(name: str, value: str) -> str:
    """Return a memory's id as it is looked up. Raises: Invalid or TooLarge.

    A file's name, and so its id, may hold control characters, and be typed in
    another form of Unicode than the id's own.
    """
    if not value.startswith(NAMED_BY_PATH):
        _require_characters(name, value)
    if _SURROGATE.search(value) or "\0" in value:
        message = f"{name} holds U+0000 or a lone surrogate, which no id does"
        raise Invalid(message)
    if len(value) > ID_CHARS:
        message = (
            f"{name} has {len(value):,} characters; no id has more than {ID_CHARS:,}"
        )
        raise TooLarge(message)
    if not value.strip():
        message = f"{name} is empty: use an id that a read or a receipt returned"
        raise Invalid(message)
    return fold_id(value)


def fold_id(value: str) -> str:
    """Return an id in the one form of Unicode that ids have."""
    return unicodedata.normalize("NFC", value)


def _require_characters(name: str, value: str) -> None:
    if _SURROGATE.search(value):
        message = f"{name} is not valid Unicode (a lone surrogate): nothing was saved"
        raise Invalid(message)
    found = _CONTROL.search(value)
    if found:
        message = (
            f"{name} holds the control character U+{ord(found.group()):04X} at "
            f"position {found.start()}; remove it (tab and line ends are allowed)"
        )
        raise Invalid(message)


def fold_name(value: str) -> str:
    """Return what makes two subjects, predicates or objects "written the same"."""
    return _WHITE.sub(" ", unicodedata.normalize("NFC", value)).strip()


def fold_search(value: str) -> str:
    """Return `value` without case and accents, for comparing words."""
    if value.isascii():
        return value.casefold()
    plain = unicodedata.normalize("NFKD", value.casefold())
    return "".join(c for c in plain if not unicodedata.combining(c))


def parse_scope(value: str, *, reading: bool) -> str:
    """Return the stored form of a scope; "" reads all and writes `global`.

    Raises: Invalid with a corrected form.
    """
    _require_characters("scope", value)
    if not value:
        return "" if reading else GLOBAL_SCOPE
    if value == GLOBAL_SCOPE:
        return value
    kind, colon, slug = value.partition(":")
    kinds = ("project", "scope") if reading else ("project",)
    if colon and kind in kinds and _SLUG.fullmatch(slug):
        return f"project:{slug}"
    message = f'scope "{value[:80]}" is not known: {_scope_help(value)}'
    raise Invalid(message)


def _scope_help(value: str) -> str:
    slug = re.sub(r"[^a-z0-9._-]+", "-", fold_search(value.partition(":")[2] or value))
    slug = slug.strip("-._")[:64]
    if not slug:
        return 'use "global" or "project:<slug>"'
    return f'did you mean "project:{slug}"?'


def parse_day(value: str) -> date:
    """Raises: Invalid unless `value` is a day YYYY-MM-DD from 1900 to 2999."""
    try:
        if not _DAY.fullmatch(value):
            raise ValueError(value)
        day = date.fromisoformat(value)
        if not FIRST_YEAR <= day.year <= LAST_YEAR:
            raise ValueError(value)
    except ValueError as fault:
        message = f'date "{value[:40]}" is not a day from 1900-01-01 to 2999-12-31'
        raise Invalid(message) from fault
    return day


def parse_zone(value: str) -> ZoneInfo:
    """Return the named time zone, UTC for "". Raises: Invalid."""
    try:
        return ZoneInfo(value or "UTC")
    except (ValueError, OSError, KeyError) as fault:
        message = (
            f'timezone "{value[:60]}" is not known: use an IANA name such as '
            '"America/Sao_Paulo", or leave it out for UTC'
        )
        raise Invalid(message) from fault


def parse_moment(name: str, value: str) -> int:
    """Return Unix milliseconds of an ISO 8601 moment; no zone means UTC.

    A bare day means its end, UTC. Raises: Invalid.
    """
    _require_characters(name, value)
    try:
        moment = datetime.fromisoformat(value)
        if len(value) <= DAY_CHARS:
            moment = moment.replace(
                hour=23, minute=59, second=59, microsecond=999_000, tzinfo=UTC
            )
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        if not FIRST_YEAR <= moment.year <= LAST_YEAR:
            raise ValueError(value)
        return milliseconds(moment)
    except (ValueError, OverflowError) as fault:
        message = (
            f'{name} "{value[:40]}" is not an ISO 8601 moment such as '
            '"2026-11-30T14:05:00Z" or a day such as "2026-11-30" (1900 to 2999)'
        )
        raise Invalid(message) from fault


def milliseconds(moment: datetime) -> int:
    """Return whole Unix milliseconds, rounded down."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def render_moment(at_ms: int) -> str:
    """Return ISO 8601 UTC with milliseconds and Z: `2026-11-30T14:05:12.123Z`."""
    seconds, rest = divmod(at_ms, 1000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def render_day(at_ms: int) -> str:
    """Return the UTC day of a moment, YYYY-MM-DD."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%d")
