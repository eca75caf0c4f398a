"""Asks a starting server whether it is ready, without holding up the loop that asks."""

from __future__ import annotations

import contextlib
import errno
import json
import socket
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from memories.host.loop import Loop, Timer

AGAIN_SECONDS: Final = 0.1
# The first answer may load the token counter (0.1 s on a calm machine).
ANSWER_SECONDS: Final = 10.0


def wait_until_ready(
    loop: Loop,
    host: str,
    port: int,
    public_url: str,
    then: Callable[[], None],
    note: Callable[[bytes], None],
) -> None:
    """Ask for /readyz again and again; call `then` in the loop once it answers 200.

    `note` hears every other answer, empty when there was none.
    """
    request = (
        f"GET /readyz HTTP/1.1\r\nHost: {urlsplit(public_url).netloc}\r\n"
        "Connection: close\r\n\r\n"
    ).encode("ascii")
    family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]

    def ask() -> None:
        _Question(loop, family, address, request, hear)

    def hear(answer: bytes) -> None:
        if answer.startswith(b"HTTP/1.1 200 "):
            then()
        else:
            note(answer)
            loop.call_later(AGAIN_SECONDS, ask)

    ask()


def missing_parts(answer: bytes) -> list[str]:
    """Return what an answer of /readyz says is not ready; the server when it is none."""
    _, _, body = answer.partition(b"\r\n\r\n")
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return ["web server"]
    return [
        str(name).replace("_", " ")
        for name, is_ready in found.items()
        if name != "ready" and not is_ready
    ]


class _Question:
    """One request; `then` hears the answer, empty when there was none."""

    def __init__(
        self,
        loop: Loop,
        family: int,
        address: tuple[object, ...],
        request: bytes,
        then: Callable[[bytes], None],
    ) -> None:
        self._loop = loop
        self._request = request
        self._then = then
        self._answer = b""
        self._link = socket.socket(family, socket.SOCK_STREAM)
        self._link.setblocking(False)
        self._timer: Timer = loop.call_later(ANSWER_SECONDS, self._finish)
        refused = self._link.connect_ex(address)
        loop.watch(self._link.fileno(), self._read)
        if refused in (0, errno.EINPROGRESS):
            loop.watch_writable(self._link.fileno(), self._send)
        else:
            self._finish()

    def _send(self) -> None:
        try:
            self._link.send(self._request)
        except OSError:
            self._finish()
        else:
            self._loop.watch_readable(self._link.fileno(), self._read)

    def _read(self) -> None:
        data = b""
        with contextlib.suppress(OSError):
            data = self._link.recv(4096)
        self._answer += data
        if not data:
            self._finish()

    def _finish(self) -> None:
        self._timer.cancel()
        self._loop.forget(self._link.fileno())
        self._link.close()
        self._then(self._answer)
