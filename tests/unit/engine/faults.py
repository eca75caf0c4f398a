"""Disks that fail, fill up, lose power or forget, at their n-th call."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from memories.engine import files
from memories.engine.engine import Engine
from memories.engine.errors import EngineError
from tests.unit.engine.homes import Home


class PowerLost(BaseException):
    """Nothing of this process happens any more."""


class FaultyDisk(files.Disk):
    """Counts the disk's calls; a subclass decides what the n-th does."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.count = 0
        self.has_struck = False

    def strikes(self, call: Callable[[], object]) -> None:
        """Do what a call does when its turn comes; the call itself is `call`."""
        raise NotImplementedError

    def _turn(self, call: Callable[[], object]) -> None:
        self.count += 1
        if self.is_due():
            self.has_struck = True
            self.strikes(call)

    def is_due(self) -> bool:
        return self.count == self.number

    def _open(self, path: Path, flags: int) -> int:
        self._turn(lambda: os.close(files.Disk._open(self, path, flags)))
        return super()._open(path, flags)

    def _write(self, descriptor: int, data: bytes) -> int:
        self._turn(lambda: files.Disk._write(self, descriptor, data))
        return super()._write(descriptor, data)

    def _flush_data(self, descriptor: int) -> None:
        self._turn(lambda: files.Disk._flush_data(self, descriptor))
        super()._flush_data(descriptor)

    def _flush(self, descriptor: int) -> None:
        self._turn(lambda: files.Disk._flush(self, descriptor))
        super()._flush(descriptor)

    def _rename(self, source: Path, target: Path) -> None:
        self._turn(lambda: files.Disk._rename(self, source, target))
        super()._rename(source, target)

    def _link(self, source: Path, target: Path) -> None:
        self._turn(lambda: files.Disk._link(self, source, target))
        super()._link(source, target)

    def _set_time(self, descriptor: int, mtime_ns: int) -> None:
        self._turn(lambda: files.Disk._set_time(self, descriptor, mtime_ns))
        super()._set_time(descriptor, mtime_ns)

    def _truncate(self, descriptor: int, size: int) -> None:
        self._turn(lambda: files.Disk._truncate(self, descriptor, size))
        super()._truncate(descriptor, size)

    def _unlink(self, path: Path) -> None:
        self._turn(lambda: files.Disk._unlink(self, path))
        super()._unlink(path)

    def _mkdir(self, path: Path) -> None:
        self._turn(lambda: files.Disk._mkdir(self, path))
        super()._mkdir(path)


class FailsOnce(FaultyDisk):
    """The n-th call is refused; the rest works."""

    def strikes(self, call: Callable[[], object]) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


class FailsFromThere(FailsOnce):
    """From the n-th call on all is refused: a disk that has gone read-only."""

    def is_due(self) -> bool:
        return self.count >= self.number


class FillsUp(FailsOnce):
    """From the n-th call on a write takes a part, then none: a full disk."""

    def _turn(self, call: Callable[[], object]) -> None:
        """Only writes need room."""

    def _write(self, descriptor: int, data: bytes) -> int:
        self.count += 1
        if self.count < self.number:
            return files.Disk._write(self, descriptor, data)
        if self.count == self.number:
            self.has_struck = True
            return files.Disk._write(self, descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class LosesPowerBefore(FaultyDisk):
    """The process ends before the n-th call."""

    def is_due(self) -> bool:
        return self.count >= self.number

    def strikes(self, call: Callable[[], object]) -> None:
        raise PowerLost


class LosesPowerAfter(LosesPowerBefore):
    """The process ends when the n-th call is done: nobody hears of its success."""

    def strikes(self, call: Callable[[], object]) -> None:
        if self.count == self.number:
            call()
        raise PowerLost


class ForgetsUnflushed(LosesPowerAfter):
    """Power is lost after the n-th call, and with it all that was not flushed.

    A file goes back to its bytes at its last flush; what a rename or a new file did
    to a name before its folder was flushed is undone.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self._data: dict[Path, bytes] = {}
        self._names: dict[Path, tuple[bytes, int] | None] = {}

    def _touch_name(self, path: Path) -> None:
        if path not in self._names:
            there = path.exists()
            self._names[path] = (
                (path.read_bytes(), path.stat().st_mtime_ns) if there else None
            )

    def _open(self, path: Path, flags: int) -> int:
        if not path.exists():
            self._touch_name(path)
        if path not in self._data:
            self._data[path] = path.read_bytes() if path.exists() else b""
        return super()._open(path, flags)

    def _rename(self, source: Path, target: Path) -> None:
        self._touch_name(target)
        super()._rename(source, target)
        self._data[target] = self._data.pop(source)

    def _link(self, source: Path, target: Path) -> None:
        self._touch_name(target)
        super()._link(source, target)
        self._data[target] = self._data[source]

    def _unlink(self, path: Path) -> None:
        self._touch_name(path)
        super()._unlink(path)

    def _flush_data(self, descriptor: int) -> None:
        super()._flush_data(descriptor)
        self._settle(descriptor)

    def _flush(self, descriptor: int) -> None:
        super()._flush(descriptor)
        self._settle(descriptor)

    def _settle(self, descriptor: int) -> None:
        """What a descriptor shows is on the disk now; a folder's are its names."""
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            for known in [name for name in self._names if name.parent == path]:
                del self._names[known]
        elif path in self._data:
            self._data[path] = path.read_bytes()

    def lose(self) -> None:
        for path, data in self._data.items():
            if path.exists() and path.read_bytes() != data:
                then = path.stat().st_mtime_ns
                path.write_bytes(data)
                os.utime(path, ns=(then, then))
        for path, before in self._names.items():
            if before is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(before[0])
                os.utime(path, ns=(before[1], before[1]))


FAULTS: list[type[FaultyDisk]] = [
    *(FailsOnce, FailsFromThere, FillsUp),
    *(LosesPowerBefore, LosesPowerAfter, ForgetsUnflushed),
]


@contextlib.contextmanager
def struck(home: Home, disk: files.Disk) -> Iterator[Engine | None]:
    """Open an engine on a disk that fails; whatever ends it, it is gone after."""
    engine = None
    with contextlib.suppress(PowerLost, files.DiskFailed, EngineError, OSError):
        engine = home.open(disk)
    with contextlib.suppress(PowerLost, files.DiskFailed):
        yield engine
