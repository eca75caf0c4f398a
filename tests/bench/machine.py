"""The machine: what it is, and what it takes for the least that a memory needs.

A disk's flush, a message between two processes and an HTTP exchange cost what they
cost; the other figures are to be read beside these.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import multiprocessing
import os
import platform
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import apsw

from .figures import Figure, figure, time_each, time_one

COUNT, WARM_UP = 500, 50
PING_BYTES = 100
APPEND = b"x" * 299 + b"\n"
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    + b"y" * 100
)


def facts(folder: Path) -> dict[str, object]:
    """Return what figures depend on; `folder` is where the store will lie."""
    return {
        "cores": os.cpu_count(),
        "cpu": _cpu_model(),
        "memory_gib": round(
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1
        ),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()}",
        "file_system": _file_system(folder),
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
    }


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        for line in text.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def _file_system(folder: Path) -> str:
    """Return the kind of the file system with the longest mount point above."""
    best, kind = "", "unknown"
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
            _, point, found, *_ = line.split(" ")
            if folder.is_relative_to(point) and len(point) >= len(best):
                best, kind = point, found
    return kind


def measure(folder: Path) -> Iterator[Figure]:
    with Flushing(folder) as flushing:
        nothing = itertools.repeat(None)
        seconds = time_each(flushing.append, nothing, count=COUNT, warm_up=WARM_UP)
    yield figure("fdatasync of a 300-byte append", seconds)
    yield figure("unix socket round trip, 100 bytes, two processes", _ping_socket())
    yield figure("bare HTTP round trip on loopback, kept alive", _ping_http())


class Flushing:
    """A file in the store's folder to append to: what the disk alone takes."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "flush"

    def __enter__(self) -> Flushing:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._descriptor = os.open(self._path, flags, 0o600)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)
        self._path.unlink()

    def append(self, _: object = None) -> None:
        os.write(self._descriptor, APPEND)
        os.fdatasync(self._descriptor)

    def time(self) -> float:
        return time_one(self.append)


def _ping_socket() -> list[float]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)

    def echo() -> None:
        ours.close()
        while data := theirs.recv(PING_BYTES, socket.MSG_WAITALL):
            theirs.sendall(data)

    with _running(echo), ours:
        theirs.close()

        def ping(data: bytes) -> None:
            ours.sendall(data)
            ours.recv(PING_BYTES, socket.MSG_WAITALL)

        pings = itertools.repeat(b"p" * PING_BYTES)
        return time_each(ping, pings, count=COUNT, warm_up=WARM_UP)


def _ping_http() -> list[float]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        link, _ = listener.accept()
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while link.recv(65_536):
            link.sendall(_ANSWER)

    with _running(serve), listener:
        client = http.client.HTTPConnection(*listener.getsockname())

        def ask(body: bytes) -> None:
            client.request("POST", "/", body, _HEADERS)
            client.getresponse().read()

        bodies = itertools.repeat(b"p" * PING_BYTES)
        seconds = time_each(ask, bodies, count=COUNT, warm_up=WARM_UP)
        client.close()
        return seconds


_HEADERS: Mapping[str, str] = {"Content-Type": "application/json"}


@contextlib.contextmanager
def _running(work: Callable[[], None]) -> Iterator[None]:
    process = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()
