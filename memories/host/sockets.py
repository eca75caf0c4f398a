"""Unix sockets reached through their folder's descriptor.

A socket address has room for 108 bytes, and a data folder may lie deeper; through
`/proc/self/fd/N/name` the length of the folder's path does not matter. Systems
without it take the plain path.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")


class SocketFolder:
    """A folder of sockets, held open; it must exist and stay."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.descriptor)

    def address(self, name: str) -> str:
        if _DESCRIPTORS.exists():
            return f"{_DESCRIPTORS}/{self.descriptor}/{name}"
        return str(self.path / name)

    def listen(self, name: str, backlog: int = 128) -> socket.socket:
        """Return a listener only this user can reach, in place of a stale socket."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Before the bind, so that the name never exists with a wider mode.
            os.fchmod(listener.fileno(), 0o600)
            listener.bind(self.address(name))
            listener.listen(backlog)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        return listener

    def connect(self, name: str, timeout_seconds: float) -> socket.socket:
        """Raises: FileNotFoundError, ConnectionRefusedError: nobody listens there."""
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.settimeout(timeout_seconds)
            link.connect(self.address(name))
        except OSError:
            link.close()
            raise
        return link

    def inode(self, name: str) -> int | None:
        try:
            return os.stat(name, dir_fd=self.descriptor, follow_symlinks=False).st_ino
        except FileNotFoundError:
            return None

    def used_at(self, name: str) -> float:
        """Return when a client last touched the socket, in Unix time; 0 if it is gone."""
        try:
            found = os.stat(name, dir_fd=self.descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return 0.0
        return found.st_mtime

    def touch(self, name: str) -> None:
        """Say that the engine behind `name` is in use: the host reads it for its LRU."""
        with contextlib.suppress(FileNotFoundError):
            os.utime(name, dir_fd=self.descriptor, follow_symlinks=False)

    def remove(self, name: str, inode: int | None = None) -> None:
        """Remove a socket; given an inode, only if it is still that one."""
        if inode is not None and self.inode(name) != inode:
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)


def is_peer_allowed(link: socket.socket) -> bool:
    """Tell whether the other end runs as this user (or root)."""
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder's mode 0700 is then the only fence
    size = struct.calcsize("3i")
    credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _pid, uid, _gid = struct.unpack("3i", credentials)
    return uid in (os.getuid(), 0)
