"""The retired area: the bytes of what was retired or replaced, one file each.

A file is named by the SHA-256 of its bytes, so that keeping the same twice is keeping
it once; which memory the bytes belong to, the ledger's events say.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from . import files

FOLDER_NAME = "retired"
_NAME = re.compile(r"[0-9a-f]{64}\.md")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Shelf:
    """The files of `retired/`."""

    def __init__(self, disk: files.Disk, folder: Path) -> None:
        self._disk = disk
        self._folder = folder

    def keep(self, data: bytes) -> str:
        """Keep bytes, durable on return; return their SHA-256. Raises: OSError."""
        digest = sha256(data)
        if self.read(digest) == data:
            self._disk.make_sure(self._place(digest))
            self._disk.make_sure(self._folder)
        else:
            self._disk.replace(self._place(digest), data)
        return digest

    def read(self, digest: str) -> bytes | None:
        """Return what was kept under a SHA-256, None where it is gone, unreadable or no
        longer those bytes.
        """
        try:
            data = files.read(self._place(digest))[0]
        except OSError:
            return None
        return data if sha256(data) == digest else None

    def digests(self) -> list[str]:
        """Return the SHA-256 of each that is kept, as the names say."""
        names = files.list_names(self._folder)
        return [name.removesuffix(".md") for name in names if _NAME.fullmatch(name)]

    def discard(self, digest: str) -> None:
        """Remove what was kept, durably; an absent file is no error."""
        self._disk.remove(self._place(digest))

    def _place(self, digest: str) -> Path:
        # Said by a ledger that other hands may write: never more than a name.
        if not digest.isalnum():
            return self._folder / "-"
        return self._folder / f"{digest}.md"
