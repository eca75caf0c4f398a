import os
import time
from pathlib import Path

import pytest

from memories.host.sockets import SocketFolder, is_peer_allowed


@pytest.fixture
def folder(tmp_path: Path):
    """A folder deeper than the 108 bytes that a socket's address may have."""
    deep = tmp_path / ("d" * 120) / ("e" * 120)
    deep.mkdir(parents=True)
    sockets = SocketFolder(deep)
    yield sockets
    sockets.close()


def test_socket_in_a_deep_folder_is_reached(folder: SocketFolder):
    with folder.listen("a.sock") as listener, folder.connect("a.sock", 1.0) as link:
        accepted, _ = listener.accept()
        with accepted:
            assert is_peer_allowed(accepted)
            link.sendall(b"x")
            assert accepted.recv(1) == b"x"


def test_socket_is_its_owners_alone(folder: SocketFolder):
    with folder.listen("a.sock"):
        assert (folder.path / "a.sock").stat().st_mode & 0o777 == 0o600


def test_stale_socket_is_replaced(folder: SocketFolder):
    folder.listen("a.sock").close()
    with pytest.raises(ConnectionRefusedError):
        folder.connect("a.sock", 1.0)

    with folder.listen("a.sock"):
        folder.connect("a.sock", 1.0).close()


def test_socket_of_a_successor_is_not_removed(folder: SocketFolder):
    with folder.listen("a.sock"):
        own = folder.inode("a.sock")
        with folder.listen("a.sock"):
            folder.remove("a.sock", own)

            folder.connect("a.sock", 1.0).close()


def test_socket_that_is_absent_has_neither_inode_nor_use(folder: SocketFolder):
    folder.touch("a.sock")
    folder.remove("a.sock")

    assert folder.inode("a.sock") is None
    assert folder.used_at("a.sock") == 0.0
    with pytest.raises(FileNotFoundError):
        folder.connect("a.sock", 1.0)


def test_touch_is_seen_as_use(folder: SocketFolder):
    with folder.listen("a.sock"):
        os.utime(folder.path / "a.sock", (1.0, 1.0))
        assert folder.used_at("a.sock") == 1.0

        folder.touch("a.sock")

        assert folder.used_at("a.sock") > time.time() - 60
