"""The ledger: one event a line, append-only, readable, greppable.

Owns the line format, its checksum, and reading a file that other hands have
merged, reordered or damaged. It knows nothing of the index; folding events into
current values is the index's. Source: docs/store-format.md "The ledger".
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from . import files
from .errors import Corrupt
from .types import Event

LEDGER_NAME = "facts.jsonl"


Line = dict[str, object]
"""The members of a line, those unknown to this version too."""


@dataclass(slots=True)
class Damage:
    line: int
    reason: str


@dataclass(slots=True)
class Reading:
    """Events as they stand in the file, and what was odd there.

    `events` and `lines` are by id, in the file's order; a line has the members unknown
    to this version too. `has_erased_words` says that a line still holds what another
    line of the same id says is erased, as a merge with an older copy leaves it.
    `torn_at` is the offset of an unfinished last line; `unfinished_newline` says
    that the last line is whole but for its line end, as some editors leave it.
    """

    events: dict[str, Event] = field(default_factory=dict)
    lines: dict[str, bytes] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    end: int = 0
    torn_at: int | None = None
    unfinished_newline: bool = False
    has_erased_words: bool = False

    def take(self, line: bytes) -> None:
        """Add a line's event: of a repeated id the first counts, unless another has lost
        words that it holds.

        Raises: ValueError saying what is wrong.
        """
        event = parse_line(line)
        known = self.events.get(event.id)
        if known is not None:
            self.has_erased_words |= loss_of(known) != loss_of(event)
        if known is None or loss_of(event) > loss_of(known):
            self.events[event.id] = event
            self.lines[event.id] = line + b"\n"


_events = msgspec.json.Decoder(Event)
ERASE = "erase"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # some editors put one in front
_CRC = b',"crc":"'


def render_line(event: Event) -> bytes:
    r"""Return an event's line. Its crc covers every byte before `,"crc"`:

    {"id":"01kb...","kind":"save","recorded_at":"...",...,"crc":"89abcdef"}\n
    """
    return _with_crc(msgspec.json.encode(event))


def _with_crc(encoded: bytes) -> bytes:
    body = encoded[:-1]
    return body + _CRC + f"{zlib.crc32(body):08x}".encode() + b'"}\n'


def parse_line(line: bytes) -> Event:
    """Read one line without its line end. Raises: ValueError saying what is wrong."""
    body, mark, tail = line.rpartition(_CRC)
    if not mark or len(tail) != len('89abcdef"}') or not tail.endswith(b'"}'):
        raise ValueError("no checksum at its end")
    if f"{zlib.crc32(body):08x}".encode() != tail[:8]:
        raise ValueError("its checksum does not match")
    try:
        line.decode()
        return _events.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise ValueError("not an event") from fault


def loss_of(event: Event) -> float:
    """Return how much an event's line has lost: the number of redactions, all if it is
    erased.
    """
    return math.inf if event.kind == ERASE else event.redacted


def checksum_of(line: bytes) -> str:
    """Return the checksum that stands at the end of a sound line."""
    return line.rpartition(_CRC)[2][:8].decode()


def parse(data: bytes) -> Reading:
    """Read a ledger's bytes; damaged lines are reported, the others are read."""
    reading = Reading(end=len(data))
    lines = data.split(b"\n")
    last = lines.pop()
    for number, line in enumerate(lines, 1):
        line = line.removesuffix(b"\r")
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        if not line.strip():
            continue
        try:
            reading.take(line)
        except ValueError as fault:
            reading.damage.append(Damage(number, str(fault)))
    if last.strip():
        try:
            reading.take(last.removesuffix(b"\r"))
            reading.unfinished_newline = True
        except ValueError:
            reading.torn_at = len(data) - len(last)
    return reading


class Ledger:
    """The ledger's file: read it, and append to it durably."""

    def __init__(self, disk: files.Disk, store: Path) -> None:
        self._disk = disk
        self.path = store / LEDGER_NAME
        self.stamp: files.Stamp | None = None
        self.is_damaged = False

    def read(self) -> tuple[Reading, files.Stamp | None]:
        """Read the events; no file is an empty ledger. Raises: OSError."""
        try:
            data, stamp = files.read(self.path)
        except FileNotFoundError:
            return Reading(), None
        return parse(data), stamp

    def has_changed(self) -> bool:
        """Whether another hand has touched the file since `stamp` was taken."""
        return files.stamp_of(self.path) != self.stamp

    def rewrite(self, change: Callable[[Event, Line], Line]) -> None:
        """Put in each line's place what `change` makes of its members; durable on
        return. Of a line that is not changed every byte stays.

        `stamp` must be that of the file as last read. Raises: Corrupt while the ledger
        is damaged; files.Changed, OSError, files.DiskFailed as Disk.replace.
        """
        self.require_sound()
        reading, stamp = self.read()
        if stamp != self.stamp or reading.damage or reading.torn_at is not None:
            raise files.Changed
        if stamp is None:
            return
        lines = []
        for event_id, line in reading.lines.items():
            said = msgspec.json.decode(line, type=dict[str, object])
            said.pop("crc", None)
            changed = change(reading.events[event_id], said)
            same = changed == said
            lines.append(line if same else _with_crc(msgspec.json.encode(changed)))
        self.stamp = self._disk.replace(self.path, b"".join(lines), expected=stamp)

    def append_lines(self, lines: Sequence[bytes]) -> files.Appended:
        """Append whole lines in one write; they are on the disk on return.

        `stamp` must be that of the file as last read. Raises: Corrupt while the
        ledger is damaged; files.Changed, OSError, files.DiskFailed as Disk.append.
        """
        self.require_sound()
        appended = self._disk.append(self.path, b"".join(lines), expected=self.stamp)
        # With another hand in between, the stamp would cover bytes not yet read.
        self.stamp = appended.stamp if appended.intact else None
        return appended

    def require_sound(self) -> None:
        """Raises: Corrupt while the ledger is damaged."""
        if self.is_damaged:
            message = (
                "the ledger (store/facts.jsonl) is damaged and open read-only: mend or "
                "restore the lines named in memory_status; nothing was saved"
            )
            raise Corrupt(message)
