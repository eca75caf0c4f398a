from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from memories.engine import files
from memories.engine.errors import Busy, Conflict


def test_lock_is_for_one(tmp_path: Path):
    first = files.WorkspaceLock(tmp_path / "lock")

    with pytest.raises(Busy):
        files.WorkspaceLock(tmp_path / "lock")
    first.release()

    files.WorkspaceLock(tmp_path / "lock").release()


@pytest.mark.parametrize("is_replaced", [True, False])
def test_lock_whose_file_is_another(tmp_path: Path, is_replaced: bool):
    lock = files.WorkspaceLock(tmp_path / "lock")
    lock.require_held()
    (tmp_path / "lock").unlink()
    if is_replaced:
        (tmp_path / "lock").touch()

    with pytest.raises(Conflict):
        lock.require_held()

    lock.release()


def test_local_disk_is_allowed(tmp_path: Path):
    files.require_local_disk(tmp_path)


def test_append_to_what_another_hand_has_touched(tmp_path: Path):
    path = tmp_path / "a"
    disk = files.Disk()
    seen = disk.append(path, b"one\n", expected=None)

    for expected in (None, files.Stamp(0, 0, 4, 0)):
        with pytest.raises(files.Changed):
            disk.append(path, b"two\n", expected=expected)
    os.utime(path, (1, 1))
    with pytest.raises(files.Changed):
        disk.append(path, b"two\n", expected=seen.stamp)

    assert path.read_bytes() == b"one\n"


@pytest.mark.parametrize("has_reader", [True, False])
def test_append_to_a_pipe(tmp_path: Path, has_reader: bool):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK) if has_reader else -1

    with pytest.raises(OSError, match=r"."):
        files.Disk().append(path, b"one\n", expected=None)
    with pytest.raises(OSError, match="not a regular file"):
        files.read(path)

    if has_reader:
        os.close(reader)


def test_append_to_a_file_that_vanishes(tmp_path: Path):
    class Disk(files.Disk):
        def _flush_data(self, descriptor: int) -> None:
            super()._flush_data(descriptor)
            (tmp_path / "a").unlink()

    assert Disk().append(tmp_path / "a", b"one\n", expected=None).intact is False


def test_append_that_cannot_take_back_a_part(tmp_path: Path):
    class Disk(files.Disk):
        def _write(self, descriptor: int, data: bytes) -> int:
            return super()._write(descriptor, data[:2])

        def _truncate(self, descriptor: int, size: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with pytest.raises(files.DiskFailed):
        Disk().append(tmp_path / "a", b"one\n", expected=None)


def test_append_of_a_part_leaves_nothing(tmp_path: Path):
    class Disk(files.Disk):
        def _write(self, descriptor: int, data: bytes) -> int:
            return super()._write(descriptor, data[:2])

    with pytest.raises(OSError, match="No space left"):
        Disk().append(tmp_path / "a", b"one\n", expected=None)

    assert (tmp_path / "a").read_bytes() == b""


def test_replace_in_many_short_writes(tmp_path: Path):
    class Disk(files.Disk):
        def _write(self, descriptor: int, data: bytes) -> int:
            return super()._write(descriptor, data[:3])

    stamp = Disk().replace(tmp_path / "a", b"0123456789")

    assert (tmp_path / "a").read_bytes() == b"0123456789"
    assert files.stamp_of(tmp_path / "a") == stamp
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_cut_of_a_file_that_has_changed(tmp_path: Path):
    path = tmp_path / "a"
    seen = files.Disk().append(path, b"one\n", expected=None).stamp
    path.write_bytes(b"another\n")

    with pytest.raises(files.Changed):
        files.Disk().cut(path, 1, expected=seen)


def test_folders_and_removals_are_done_once(tmp_path: Path):
    disk = files.Disk()

    for _ in range(2):
        disk.make_folder(tmp_path / "a" / "b")
        disk.remove(tmp_path / "none")

    assert (tmp_path / "a" / "b").is_dir()


def test_walk_past_a_folder_that_vanishes(tmp_path: Path):
    for name in ("a.md", "z/b.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    walk = files.walk(tmp_path)

    first = next(walk)
    (tmp_path / "z" / "b.md").unlink()
    (tmp_path / "z").rmdir()

    assert (first.relative, list(walk)) == (b"a.md", [])


def test_stamp_of_what_is_no_file(tmp_path: Path):
    (tmp_path / "a").touch()
    (tmp_path / "link").symlink_to("a")

    assert files.stamp_of(tmp_path / "none") is None
    assert files.stamp_of(tmp_path / "link") is None
    assert files.stamp_of(tmp_path / "a" / "below") is None
    assert files.stamp_of(tmp_path) is None
