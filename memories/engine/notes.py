"""The Markdown files of the store: finding them, reading them, adding entries.

Knows paths and bytes; what the words mean is markdown.py's, what is known of them
the index's.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import daylog, files
from .reports import Skipped

IMPORTED_FOLDER = "Imported/"


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A Markdown file of the store. `path` is its name in ids: `/`, NFC."""

    path: str
    raw: bytes
    stamp: files.Stamp

    @property
    def day(self) -> str:
        """The day a day log is named for, "" for any other note.

        Imported files are never day logs: their markers are plain text.
        """
        name = self.path.rpartition("/")[2]
        found = daylog.DAY_NAME.fullmatch(name)
        if found is None or self.path.startswith(IMPORTED_FOLDER):
            return ""
        return found.group(1)


class Notes:
    """The store folder's Markdown files."""

    def __init__(self, disk: files.Disk, store: Path) -> None:
        self._disk = disk
        self._store = store

    def scan(self) -> Iterator[StoreFile | Skipped]:
        """Yield every Markdown file of the store, and what had to be passed over.

        A day log is read at any size: what agents were told is saved must be found.
        """
        seen: set[str] = set()
        for found in files.walk(self._store):
            path = unicodedata.normalize("NFC", found.relative.decode(errors="replace"))
            file = StoreFile(path, found.relative, found.stamp)
            if found.problem and not (file.day and found.problem == files.TOO_LARGE):
                yield Skipped(path, found.problem, found.hides)
            elif path in seen:
                yield Skipped(path, "another file has the same name in another form")
            else:
                seen.add(path)
                yield file

    def read(self, raw: bytes) -> tuple[bytes, files.Stamp]:
        """Return a file's bytes and their stamp. Raises: OSError."""
        if self._is_behind_link(raw):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return files.read(self.locate(raw))

    def _is_behind_link(self, raw: bytes) -> bool:
        """Whether a folder of the path has become a link: a scan follows none, so the
        file that was found there is gone, whatever lies at the link's other end.
        """
        ends = [at for at, character in enumerate(raw) if character == ord("/")]
        return any(self.locate(raw[:end]).is_symlink() for end in ends)

    def locate(self, raw: bytes) -> Path:
        """Return where a scanned file lies; `raw` only ever comes from a scan."""
        return Path(os.fsdecode(os.fsencode(self._store) + b"/" + raw))

    def day_path(self, day: str) -> str:
        return f"{day}.md"

    def stamp(self, raw: bytes) -> files.Stamp | None:
        """Return a file's stamp, None where no scan would find it."""
        return None if self._is_behind_link(raw) else files.stamp_of(self.locate(raw))

    def append_block(
        self, day: str, block: bytes, *, expected: files.Stamp | None
    ) -> files.Appended:
        """Add an entry's block to its day's file, made with its heading if new.

        Raises: as Disk.append.
        """
        path = self.locate(self.day_path(day).encode())
        if expected is None:
            block = f"# {day}\n".encode() + block
        elif expected.size:
            block = _to_follow(block, *files.read_edges(path, expected.size))
        return self._disk.append(path, block, expected=expected)


def _to_follow(block: bytes, first: bytes, last: bytes) -> bytes:
    """Return a block as it must be to follow what stands in a file: on a line of its
    own, and in UTF-16 where an editor has saved the file so.
    """
    encoding = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(first)
    if encoding:
        return b"".join(part.decode().encode(encoding) for part in (b"\n", block))
    return block if last.endswith(b"\n") else b"\n" + block
