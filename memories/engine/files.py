"""The only code that changes the disk, and how each change becomes durable.

`Disk` is the seam for fault tests: every call that can fail is one small method.
Appends notice another hand on the same file; replacements are atomic. Source:
docs/decisions/0002, docs/store-format.md "Writing".
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .errors import Busy, Conflict, Corrupt

MAX_FILE_BYTES = 10 * 1024 * 1024
"""A larger Markdown file is named as skipped, not read. Source: docs/store-format.md."""

MAX_MTIME_NS = 2**62
MARKDOWN_SUFFIXES = (".md", ".markdown")
TOO_LARGE = "too large"
NOT_UTF8 = "name is not UTF-8"
UNREADABLE = "unreadable"
TEMPORARY_PREFIX = ".renor-"
FILE_MODE = 0o600
FOLDER_MODE = 0o700
NETWORK_FILE_SYSTEMS = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "fuse.sshfs"}
)


class Changed(Exception):
    """Another hand has changed the file since it was last seen."""


class DiskFailed(Exception):
    """A flush failed: what is on the disk is unknown until it is read afresh.

    The engine ends and recovers from the disk; retrying a failed fsync would
    report success for pages the kernel has already dropped.
    """


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a file looked like: equal stamps mean the same unchanged file."""

    device: int
    inode: int
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        # SQLite keeps 64 bits; a file system may claim a year far beyond.
        mtime_ns = max(min(found.st_mtime_ns, MAX_MTIME_NS), 0)
        return cls(found.st_dev, found.st_ino, found.st_size, mtime_ns)


NO_STAMP = Stamp(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Found:
    """One thing met while walking the store; `problem` says why it is not read.

    `hides` is true of a folder that cannot be listed: what lies in it is not gone.
    """

    relative: bytes
    stamp: Stamp
    problem: str = ""
    hides: bool = False


@dataclass(frozen=True, slots=True)
class Appended:
    """`intact` is false when the path no longer shows the bytes just flushed."""

    stamp: Stamp
    intact: bool


class Disk:
    """Durable changes to files; every method that returns has flushed its work."""

    _flushed: frozenset[Path] = frozenset()
    _waiting: dict[tuple[int, int], int] | None = None
    """Descriptors whose flush is shared, by device and inode; None outside."""

    # One method a system call: a fault test fails or tears the n-th of them.

    def _open(self, path: Path, flags: int) -> int:
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)

    def _write(self, descriptor: int, data: bytes) -> int:
        return os.write(descriptor, data)

    def _flush_data(self, descriptor: int) -> None:
        os.fdatasync(descriptor)

    def _flush(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def _rename(self, source: Path, target: Path) -> None:
        os.rename(source, target)

    def _link(self, source: Path, target: Path) -> None:
        os.link(source, target)

    def _set_time(self, descriptor: int, mtime_ns: int) -> None:
        os.utime(descriptor, ns=(mtime_ns, mtime_ns))

    def _truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def _unlink(self, path: Path) -> None:
        os.unlink(path)

    def _mkdir(self, path: Path) -> None:
        os.mkdir(path, FOLDER_MODE)

    def append(self, path: Path, data: bytes, *, expected: Stamp | None) -> Appended:
        """Append `data` in one write and flush it.

        `expected` is the stamp last seen, None for a file that should not exist.
        Raises: Changed, before anything is written, if the file is not as expected;
        OSError if nothing was written (a partial write is taken back); DiskFailed if
        the flush failed.
        """
        # O_NONBLOCK: a FIFO put in the file's place must not hold the engine.
        flags = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK
        try:
            descriptor = self._open(path, flags if expected else flags | os.O_CREAT)
        except FileNotFoundError as fault:
            raise Changed from fault
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
            _require_expected(before, expected)
            self._write_whole(descriptor, data, before.st_size)
            # Taken before the flush: a change by another hand from here on differs.
            after = os.fstat(descriptor)
            # An empty file may be what an earlier failure left, its name unflushed.
            self._flush_append(descriptor, None if before.st_size else path)
        finally:
            os.close(descriptor)
        return Appended(
            Stamp.of(after), _is_intact(path, after, before.st_size + len(data))
        )

    def _flush_append(self, descriptor: int, new_path: Path | None) -> None:
        """Flush an append, or let it wait for the flush it shares with others."""
        try:
            if self._waiting is None:
                self._flush_data(descriptor)
            else:
                found = os.fstat(descriptor)
                key = (found.st_dev, found.st_ino)
                if key not in self._waiting:
                    self._waiting[key] = os.dup(descriptor)
            if new_path is not None:
                self._flush_folder(new_path.parent)
        except OSError as fault:
            raise DiskFailed(str(fault.strerror)) from fault

    @contextmanager
    def sharing_flushes(self) -> Iterator[None]:
        """Let appends made inside share one flush of each file, done at the end.

        Nothing appended inside may be acknowledged before this has returned.
        Raises: DiskFailed, at the end, when a flush failed.
        """
        self._waiting = {}
        try:
            yield
        finally:
            waiting, self._waiting = self._waiting, None
            failed = [fd for fd in waiting.values() if not self._flushes(fd)]
        if failed:
            message = "a shared flush failed"
            raise DiskFailed(message)

    def flush_waiting(self) -> None:
        """Flush now what waits for a shared flush: what follows must not be on the disk
        before it. Raises: DiskFailed.
        """
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        failed = [fd for fd in waiting.values() if not self._flushes(fd)]
        if failed:
            message = "a shared flush failed"
            raise DiskFailed(message)

    def _flushes(self, descriptor: int) -> bool:
        try:
            self._flush_data(descriptor)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True

    def make_sure(self, path: Path) -> None:
        """Flush a file that this process has not flushed yet; an absent one is fine.

        What was read may be in the page cache alone, from a process killed between
        its write and its flush: no receipt may rest on that. Raises: DiskFailed.
        """
        if path in self._flushed:
            return
        try:
            descriptor = self._open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return
        try:
            self._flush_data(descriptor)
        except OSError as fault:
            raise DiskFailed(str(fault.strerror)) from fault
        finally:
            os.close(descriptor)
        self._flushed = self._flushed | {path}

    def _write_whole(self, descriptor: int, data: bytes, size_before: int) -> None:
        """Write all of `data` or nothing: a short write is cut off again."""
        try:
            written = self._write(descriptor, data)
            if written == len(data):
                return
            fault = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as caught:
            fault = caught
        if os.fstat(descriptor).st_size != size_before:
            try:
                self._truncate(descriptor, size_before)
                self._flush_data(descriptor)
            except OSError as second:
                message = f"a short write could not be taken back: {second.strerror}"
                raise DiskFailed(message) from second
        raise fault

    def replace(
        self, path: Path, data: bytes, *, expected: Stamp | None = None
    ) -> Stamp:
        """Put `data` in the place of `path` by an atomic, durable rename.

        With `expected`, only over a file that still looks so: Changed is raised, and
        nothing done, if another hand was at it up to a moment before the rename (in
        between no system call can look: what is saved just there is lost).
        Raises: OSError if the old file still stands; DiskFailed if that is unknown.
        """
        with self._temporary(path, data) as (temporary, stamp):
            if expected is not None and stamp_of(path) != expected:
                raise Changed
            self._rename(temporary, path)
        self._flush_name(path)
        return stamp

    def create(self, path: Path, data: bytes, *, mtime_ns: int) -> Stamp:
        """Make a file that is not there yet, with the time given, durable on return.

        Raises: FileExistsError, before anything is written, if the name is taken;
        OSError; DiskFailed.
        """
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        with self._temporary(path, data, mtime_ns) as (temporary, stamp):
            self._place_new(temporary, path)
        self._flush_name(path)
        return stamp

    @contextmanager
    def _temporary(
        self, path: Path, data: bytes, mtime_ns: int | None = None
    ) -> Iterator[tuple[Path, Stamp]]:
        """A flushed file with the data beside `path`; gone again if what follows fails."""
        temporary = path.parent / f"{TEMPORARY_PREFIX}{os.urandom(6).hex()}.tmp"
        try:
            descriptor = self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                view = memoryview(data)
                while view:
                    view = view[self._write(descriptor, bytes(view)) :]
                if mtime_ns is not None:
                    self._set_time(descriptor, mtime_ns)
                self._flush(descriptor)
                stamp = Stamp.of(os.fstat(descriptor))
            finally:
                os.close(descriptor)
            yield temporary, stamp
        except (OSError, Changed):
            if os.path.lexists(temporary):
                self._unlink(temporary)
            raise

    def _flush_name(self, path: Path) -> None:
        """Make a name that was just given last. Raises: DiskFailed."""
        try:
            self._flush_folder(path.parent)
        except OSError as fault:
            raise DiskFailed(str(fault.strerror)) from fault

    def _place_new(self, temporary: Path, path: Path) -> None:
        """Give a file its name without ever taking the place of another."""
        try:
            self._link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # no hard links on this disk
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
            self._rename(temporary, path)
        else:
            self._unlink(temporary)

    def cut(self, path: Path, size: int, *, expected: Stamp) -> Stamp:
        """Shorten a file to `size` bytes, durably. Raises: Changed."""
        descriptor = self._open(path, os.O_WRONLY)
        try:
            _require_expected(os.fstat(descriptor), expected)
            self._truncate(descriptor, size)
            self._flush(descriptor)
            return Stamp.of(os.fstat(descriptor))
        finally:
            os.close(descriptor)

    def make_folder(self, path: Path) -> None:
        """Make `path` and its missing parents, durably; existing ones are kept."""
        if path.is_dir():
            return
        if not path.parent.is_dir():
            self.make_folder(path.parent)
        try:
            self._mkdir(path)
        except FileExistsError:
            return
        self._flush_folder(path.parent)

    def remove(self, path: Path) -> None:
        """Remove a file, durably; an absent one is no error."""
        try:
            self._unlink(path)
        except FileNotFoundError:
            return
        self._flush_folder(path.parent)

    def _flush_folder(self, folder: Path) -> None:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._flush(descriptor)
        finally:
            os.close(descriptor)


def _require_expected(found: os.stat_result, expected: Stamp | None) -> None:
    size = expected.size if expected else 0
    if found.st_size != size:
        raise Changed
    if expected and Stamp.of(found) != expected:
        raise Changed


def _is_intact(path: Path, after: os.stat_result, expected_size: int) -> bool:
    try:
        shown = os.lstat(path)
    except FileNotFoundError:
        return False
    return Stamp.of(shown) == Stamp.of(after) and after.st_size == expected_size


def stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of a regular file, None when there is none."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Stamp.of(found) if stat.S_ISREG(found.st_mode) else None


def read(path: Path, offset: int = 0) -> tuple[bytes, Stamp]:
    """Return a regular file's bytes from `offset` and the stamp they belong to.

    Never waits on a FIFO and never follows a link. Raises: OSError.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        file.seek(offset)
        data = file.readall() or b""
        return data, Stamp.of(os.fstat(descriptor))


def read_edges(path: Path, size: int) -> tuple[bytes, bytes]:
    """Return the first two and the last two bytes of a file. Raises: OSError."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        return os.pread(descriptor, 2, 0), os.pread(descriptor, 2, max(size - 2, 0))
    finally:
        os.close(descriptor)


def list_names(folder: Path) -> list[str]:
    """Return the names in a folder, none when it is not there."""
    try:
        return os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []


def walk(root: Path) -> Iterator[Found]:
    """Yield the Markdown files under `root`, and what was met but cannot be one.

    Names beginning with a dot are not memory and are passed over in silence.
    Links are reported and never followed. A folder that vanishes while it is
    walked is passed over; the next walk sees the rest.
    """
    waiting = [b""]
    top = os.fsencode(root)
    while waiting:
        folder = waiting.pop()
        try:
            entries = sorted(os.scandir(top + b"/" + folder), key=lambda e: e.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as fault:
            yield Found(folder, NO_STAMP, fault.strerror or UNREADABLE, hides=True)
            continue
        for entry in entries:
            if entry.name.startswith(b"."):
                continue
            relative = folder + b"/" + entry.name if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                waiting.append(relative)
                continue
            try:
                found = _judge(entry, relative)
            except OSError as fault:
                found = Found(
                    relative, NO_STAMP, fault.strerror or UNREADABLE, hides=True
                )
            if found is not None:
                yield found


def _judge(entry: os.DirEntry[bytes], relative: bytes) -> Found | None:
    """Return what a directory entry is to the store, None when it is not memory."""
    suffixes = tuple(suffix.encode() for suffix in MARKDOWN_SUFFIXES)
    is_link = entry.is_symlink()
    if not entry.name.lower().endswith(suffixes) and not is_link:
        return None
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None
    stamp = Stamp.of(found)
    if is_link:
        return Found(relative, stamp, "symbolic link: not followed")
    if not stat.S_ISREG(found.st_mode):
        return Found(relative, stamp, "not a regular file")
    try:
        relative.decode("utf-8")
    except UnicodeDecodeError:
        return Found(relative, stamp, NOT_UTF8)
    if found.st_size > MAX_FILE_BYTES:
        return Found(relative, stamp, TOO_LARGE)
    return Found(relative, stamp)


class WorkspaceLock:
    """The flock that makes this process the only one on a workspace."""

    def __init__(self, path: Path) -> None:
        self._path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, FILE_MODE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            os.close(self._descriptor)
            message = "another process holds this workspace's lock"
            raise Busy(message) from fault
        self.require_held()

    def require_held(self) -> None:
        """Raises: Conflict if the lock's path is no longer the file locked here.

        A folder copied or restored over this one would otherwise get a second
        writer: the flock belongs to the inode, not to the path.
        """
        try:
            shown = os.lstat(self._path)
        except OSError:
            shown = None
        held = os.fstat(self._descriptor)
        if shown is None or (shown.st_dev, shown.st_ino) != (held.st_dev, held.st_ino):
            message = "the workspace's lock file was replaced; this engine ends"
            raise Conflict(message)

    def release(self) -> None:
        os.close(self._descriptor)


def require_local_disk(path: Path) -> None:
    """Raises: Corrupt when `path` is on a network file system, where flock and
    SQLite's WAL do not hold. Linux only; elsewhere nothing is known and it passes.
    """
    device = os.stat(path).st_dev
    # Its neighbours lie on the same disk, unless it is a mount of its own.
    is_mount = os.stat(path.parent).st_dev != device
    kind = file_system(path if is_mount else path.parent)
    if kind in NETWORK_FILE_SYSTEMS:
        message = f"the workspace lies on a network file system ({kind})"
        raise Corrupt(message)


def file_system(folder: Path) -> str:
    """Return the kind of disk a folder lies on, "" when unknown.

    Asked once: it costs 0.6 ms (measured), and a host's workspaces lie in one folder.
    """
    return _kind_of_mount(os.stat(folder).st_dev, os.path.realpath(folder))


@functools.cache
def _kind_of_mount(_device: int, where: str) -> str:
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return ""
    best, kind = "", ""
    for line in mounts:
        _, point, file_system, *_ = line.split(" ")
        point = point.replace("\\040", " ")
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, file_system
    return kind
