"""A reader of a workspace folder, written from docs/store-format.md alone.

Standard library only, and nothing of the product: it shows that a store can be read
without Renor. Tests hold it against the engine.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Event = dict[str, Any]

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\.(md|markdown)", re.IGNORECASE)
_START = re.compile(rb"^<!-- renor (\{.*\}) -->\r?$")
_RETIRED = re.compile(rb"^<!-- renor retired (\S+) -->\r?$")
_CLOCK = re.compile(rb"^## \d\d:\d\d\r?$")
_ESCAPED = re.compile(r"(<!--[ \t]*)\\(\\*)(/?renor)")
_GENERATED = re.compile(rb"<!-- renor generated ([0-9a-f]{16}) -->")


@dataclass
class Entry:
    id: str
    path: str
    text: str
    marker: dict[str, Any]
    is_edited: bool
    block: bytes


@dataclass
class Value:
    id: str
    subject: str
    predicate: str
    object: str
    scope: str
    statement: str
    valid_from: str
    valid_to: str = ""
    is_retired: bool = False


@dataclass
class Workspace:
    """`notes` by path, `entries` by id, `values` by id in order of ids; `retired` is
    the words of retired notes and entries by their name, `erased` ids.
    """

    notes: dict[str, str] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    retired: dict[str, str] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    earlier: dict[str, list[str]] = field(default_factory=dict)
    damage: list[int] = field(default_factory=list)


def read_workspace(folder: Path) -> Workspace:
    """Read `store/` and, for retired words, `retired/`."""
    marker = json.loads((folder / "workspace.json").read_bytes())
    assert marker["format"] == 1
    found = Workspace()
    events = _read_ledger(folder / "store" / "facts.jsonl", found)
    _fold_values(events, found)
    lives = _fold_lives(events)
    for event in events:
        if event["kind"] == "erase" and event.get("about"):
            found.erased.add(event["about"])
    _read_store(folder, found, lives)
    _read_retired(folder, found, lives)
    _read_earlier(folder, events, found)
    return found


# --- the ledger


def _read_ledger(path: Path, found: Workspace) -> list[Event]:
    """Return the events in order of ids, each once."""
    if not path.exists():
        return []
    chosen: dict[str, Event] = {}
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
    for number, line in enumerate(data.split(b"\n"), 1):
        line = line.removesuffix(b"\r")
        if not line.strip():
            continue
        body, _, crc = line.rpartition(b',"crc":"')
        try:
            event = json.loads(line)
            if f"{zlib.crc32(body):08x}" != crc[:8].decode():
                raise ValueError
        except ValueError:
            found.damage.append(number)
            continue
        known = chosen.get(event["id"])
        if known is None or _loss(event) > _loss(known):
            chosen[event["id"]] = event
    return sorted(chosen.values(), key=lambda event: str(event["id"]))


def _loss(event: Event) -> float:
    return float("inf") if event["kind"] == "erase" else event.get("redacted", 0)


def _written(text: str) -> str:
    return re.sub(r"\s+", " ", unicodedata.normalize("NFC", text)).strip()


def _fold_values(events: list[Event], found: Workspace) -> None:
    open_values: dict[tuple[str, str, str], Value] = {}
    for event in events:
        kind, about = event["kind"], event.get("about", "")
        if kind == "save":
            scope = event.get("scope", "global")
            key = (_written(event["subject"]), _written(event["predicate"]), scope)
            value = Value(
                id=f"fact:{event['id']}",
                subject=event["subject"],
                predicate=event["predicate"],
                object=event["object"],
                scope=scope,
                statement=event.get("statement", ""),
                valid_from=event.get("valid_from") or event["recorded_at"],
            )
            if key in open_values:
                open_values[key].valid_to = value.valid_from
            open_values[key] = found.values[value.id] = value
        elif kind == "erase" and not about:
            for closed in event.get("supersedes", ()):
                if closed in found.values and not found.values[closed].valid_to:
                    moment = event.get("valid_from") or event["recorded_at"]
                    found.values[closed].valid_to = moment
        elif about in found.values:
            value = found.values[about]
            if kind == "repeat":
                value.statement = event.get("statement") or value.statement
            elif kind in ("retire", "restore", "erase"):
                value.is_retired = kind != "restore"


# --- lives of notes and entries


def _name(event: Event) -> str:
    """Return what an event speaks of: an entry by its id alone, a retired note with
    the event that retired it.
    """
    about = str(event["about"])
    if about.startswith("entry:"):
        return "#" + about.rpartition("#")[2]
    if about.startswith("note:") and event["kind"] == "retire":
        return f"{about}@{event['id']}"
    return about


def _fold_lives(events: list[Event]) -> dict[str, Event]:
    """Return the last retire, restore or erase of each note and entry."""
    lives: dict[str, Event] = {}
    for event in events:
        about = event.get("about", "")
        is_life = event["kind"] in ("retire", "restore", "erase")
        if is_life and about and not about.startswith("fact:"):
            lives[_name(event)] = event
    return lives


def _is_out(life: Event | None) -> bool:
    return life is not None and life["kind"] in ("retire", "erase")


# --- the store


def _read_store(folder: Path, found: Workspace, lives: dict[str, Event]) -> None:
    store = folder / "store"
    paths = sorted(
        (place.relative_to(store) for place in store.rglob("*")),
        key=lambda path: (len(path.parts), path.as_posix()),
    )
    for relative in paths:
        place = store / relative
        hidden = any(part.startswith(".") for part in relative.parts)
        is_markdown = relative.suffix.lower() in (".md", ".markdown")
        if hidden or not is_markdown or place.is_symlink() or not place.is_file():
            continue
        path = unicodedata.normalize("NFC", relative.as_posix())
        data = place.read_bytes()
        if path == "Facts.md" and _is_generated(data):
            continue
        if _is_leftover(place, path, data, lives):
            continue
        if _DAY.fullmatch(relative.name) and relative.parts[0] != "Imported":
            _read_day(path, data, found, lives)
        else:
            found.notes[path] = _text_of(data)


def _is_generated(data: bytes) -> bool:
    first, _, rest = data.partition(b"\n")
    mark = _GENERATED.fullmatch(first)
    said = hashlib.sha256(rest).hexdigest()[:16].encode()
    return mark is not None and mark.group(1) == said


def _is_leftover(place: Path, path: str, data: bytes, lives: dict[str, Event]) -> bool:
    at_path = [life for name, life in lives.items() if name.startswith(f"note:{path}@")]
    newest = max(at_path, key=lambda life: str(life["id"]), default=None)
    if newest is None or newest["kind"] != "retire":
        return False
    digest = hashlib.sha256(data).hexdigest()
    return any(
        life["kind"] == "retire"
        and life.get("sha256") == digest
        and place.stat().st_mtime_ns // 1_000_000 <= _milliseconds(life["modified_at"])
        for life in at_path
    )


def _milliseconds(moment: str) -> int:
    from datetime import datetime  # noqa: PLC0415 - for this alone

    return round(datetime.fromisoformat(moment).timestamp() * 1000)


def _text_of(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16")
    else:
        text = data.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _read_day(
    path: str, data: bytes, found: Workspace, lives: dict[str, Event]
) -> None:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        data = data.decode("utf-16").encode()
    entries, own = split_day(path, data)
    for entry in entries:
        life = lives.get(f"#{entry.id}")
        is_same = (
            not entry.is_edited
            or (life or {}).get("sha256") == hashlib.sha256(entry.block).hexdigest()
        )
        by_hand = (life or {}).get("by") == "hand"
        gone = _is_out(life) and not by_hand and is_same
        if not gone and entry.id not in found.entries:
            found.entries[entry.id] = entry
    day = Path(path).stem
    text = own.decode(errors="replace").removeprefix("\ufeff").strip()
    found.notes[path] = text.removeprefix(f"# {day}").strip()


def split_day(path: str, data: bytes) -> tuple[list[Entry], bytes]:
    """Return a day log's entries and what belongs to none."""
    lines = data.split(b"\n")
    entries: list[Entry] = []
    own: list[bytes] = []
    retired = {
        mark.group(1).decode() for line in lines if (mark := _RETIRED.match(line))
    }
    seen: set[str] = set(retired)
    number = 0
    while number < len(lines):
        line = lines[number]
        start = _START.match(line)
        if _RETIRED.match(line):
            number += 1
            continue
        if start is None:
            own.append(line)
            number += 1
            continue
        first = number
        if own and _CLOCK.match(own[-1]) and first and lines[first - 1] == own[-1]:
            own.pop()
            first -= 1
        marker = json.loads(start.group(1))
        stop, following = _find_end(lines, number + 1, str(marker["id"]))
        is_open = stop == following
        raw = b"\n".join(lines[number + 1 : stop])
        block = b"\n".join(lines[first:following])
        block += b"\n" if following < len(lines) else b""
        text, is_edited = _words(raw, marker, is_open=is_open)
        number = following
        if marker["id"] not in seen:
            seen.add(marker["id"])
            entries.append(Entry(marker["id"], path, text, marker, is_edited, block))
        elif is_edited and marker.get("scope", "global") == "global":
            own.append(text.encode())
    return entries, b"\n".join(own)


def _find_end(lines: list[bytes], first: int, entry_id: str) -> tuple[int, int]:
    """Return the line after an entry's words, and the line after the entry."""
    end = f"<!-- /renor {entry_id} -->".encode()
    for number in range(first, len(lines)):
        line = lines[number]
        if line.removesuffix(b"\r") == end:
            return number, number + 1
        starts = _START.match(line) or _RETIRED.match(line)
        if starts:
            is_clock = number > first and _CLOCK.match(lines[number - 1])
            return (number - 1, number - 1) if is_clock else (number, number)
    return len(lines), len(lines)


def _words(raw: bytes, marker: dict[str, Any], *, is_open: bool) -> tuple[str, bool]:
    text = _ESCAPED.sub(r"\1\2\3", raw.decode(errors="replace"))
    unix = text.replace("\r\n", "\n").removesuffix("\r")
    for said in (text, unix, unix.rstrip("\n")):
        digest = hashlib.sha256(said.encode()).hexdigest()[:16]
        if digest == marker.get("digest"):
            return said, False
    return (text.strip("\r\n") if is_open else text.removesuffix("\r")), True


# --- the retired area


def _read_retired(folder: Path, found: Workspace, lives: dict[str, Event]) -> None:
    for name, life in lives.items():
        entry_id = name.removeprefix("#")
        if life["kind"] != "retire" or entry_id in found.entries:
            continue
        place = folder / "retired" / f"{life.get('sha256', '-')}.md"
        data = place.read_bytes() if place.exists() else b""
        if name.startswith("#"):
            entries, _ = split_day("", data)
            found.retired[name] = entries[0].text if entries else ""
        else:
            found.retired[name] = _text_of(data)


def _read_earlier(folder: Path, events: list[Event], found: Workspace) -> None:
    """Return the kept texts of what the owner revised, oldest first."""
    for event in events:
        if event["kind"] != "revise":
            continue
        place = folder / "retired" / f"{event['sha256']}.md"
        if not place.exists():
            continue
        data = place.read_bytes()
        if str(event["about"]).startswith("entry:"):
            entries, _ = split_day("", data)
            text = entries[0].text if entries else ""
        else:
            text = _text_of(data)
        found.earlier.setdefault(_name(event), []).append(text)
