"""A workspace's folder: its marker, and how it is made.

Without the marker a folder is not a workspace: an unmounted disk must never look
like an empty memory. Source: docs/store-format.md.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from . import files
from .errors import Corrupt
from .ledger import LEDGER_NAME

FORMAT_VERSION = 1
"""Version of the bytes on disk. Source: docs/store-format.md."""

MARKER_NAME = "workspace.json"


class Marker(msgspec.Struct, kw_only=True):
    """Content of workspace.json: without it a folder is not a workspace."""

    id: str
    format: int


def create_workspace(
    directory: Path, workspace_id: str, disk: files.Disk | None = None
) -> None:
    """Make a workspace's folder; it is on the disk when this returns.

    An existing workspace of the same id is left as it is. Raises: Corrupt if the
    folder belongs to another workspace or holds a store without its marker.
    """
    disk = disk or files.Disk()
    marker = directory / MARKER_NAME
    if files.stamp_of(marker) is not None:
        if read_marker(directory).id != workspace_id:
            message = "this folder belongs to another workspace"
            raise Corrupt(message)
        return
    if any((directory / "store").glob("[!.]*")):
        message = f"the folder holds a store but no {MARKER_NAME}: nothing was changed"
        raise Corrupt(message)
    for folder in ("store", "retired", "incoming"):
        disk.make_folder(directory / folder)
    disk.replace(
        directory / "store" / ".gitattributes", f"{LEDGER_NAME} merge=union\n".encode()
    )
    body = msgspec.json.encode(Marker(id=workspace_id, format=FORMAT_VERSION))
    disk.replace(marker, body + b"\n")


def read_marker(directory: Path) -> Marker:
    """Raises: Corrupt unless `directory` is a workspace this code can open."""
    try:
        data, _ = files.read(directory / MARKER_NAME)
        marker = msgspec.json.decode(data, type=Marker)
    except OSError as fault:
        message = f"{MARKER_NAME} cannot be read: is the disk mounted?"
        raise Corrupt(message) from fault
    except msgspec.DecodeError as fault:
        message = f"{MARKER_NAME} is damaged"
        raise Corrupt(message) from fault
    if marker.format != FORMAT_VERSION:
        message = f"store format {marker.format} is not known to this version"
        raise Corrupt(message)
    return marker
