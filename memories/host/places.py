"""Where the host's sockets and the workspaces' folders lie, and what is allowed there."""

from __future__ import annotations

import errno
import uuid
from pathlib import Path

from memories.engine.workspace import MARKER_NAME

from .protocol import NotNow, not_now

CONTROL_SOCKET = "host.sock"
HOST_LOCK = "host.lock"
WORKSPACES = "workspaces"


def run_folder(data: Path) -> Path:
    return data / "run"


def engines_folder(run: Path) -> Path:
    return run / "engines"


def workspace_folder(data: Path, workspace_id: str) -> Path:
    return data / WORKSPACES / require_workspace_id(workspace_id)


def engine_socket(workspace_id: str) -> str:
    return require_workspace_id(workspace_id) + ".sock"


def require_workspace_id(text: str) -> str:
    """Return `text` if it is a UUID in its canonical form, so that it cannot be a path.

    Raises: ValueError.
    """
    try:
        is_canonical = str(uuid.UUID(text)) == text
    except ValueError:
        is_canonical = False
    if not is_canonical:
        raise ValueError("a workspace id is a lower-case UUID with hyphens")
    return text


def make_private_folder(path: Path) -> None:
    """Make a folder that only this user can enter, or close an existing one to others."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)


def why_not_on_disk(data: Path, workspace_id: str) -> NotNow | None:
    """Say why a workspace's folder cannot hold an engine, or None if it can."""
    try:
        folder = workspace_folder(data, workspace_id)
        folder.stat()
        (folder / MARKER_NAME).stat()
    except ValueError as error:
        return not_now("unknown", f"unknown workspace: {error}", 60.0)
    except FileNotFoundError as error:
        if str(error.filename).endswith(MARKER_NAME):
            message = (
                f"the workspace's folder has no {MARKER_NAME}; is its disk mounted?"
            )
            return not_now("marker", message, 30.0)
        return not_now("unknown", "the workspace has no folder", 30.0)
    except OSError as error:
        reason = errno.errorcode.get(error.errno or 0, "unknown error")
        message = f"the workspace's folder cannot be read ({reason})"
        return not_now("unreadable", message, 30.0)
    return None
