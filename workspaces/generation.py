"""The counter that tells every process at once that access has changed.

In Redis when the operator gives one, else the size of a file in RENOR_RUN that grows
by a byte with each change: appending is atomic, and a size never comes back.
"""

from __future__ import annotations

import functools
import logging
import os
import secrets
from pathlib import Path

import redis
from django.conf import settings

KEY = "renor:access-generation"
TIMEOUT_SECONDS = 0.5

logger = logging.getLogger(__name__)


def read() -> str | None:
    """Return what stands there now; None when it cannot be known."""
    if settings.REDIS_URL:
        return _read_redis()
    return _read_file()


def advance() -> None:
    """Change it. Failing is safe: who cannot read it remembers nothing either."""
    try:
        if settings.REDIS_URL:
            # Random, not counted: a Redis that lost its data must not count up to a
            # value that some process still remembers.
            _client(settings.REDIS_URL).set(KEY, secrets.token_hex(8))
        else:
            _grow(_path())
    except (redis.RedisError, OSError):
        logger.warning(
            "The access counter is out of reach; processes that still reach it "
            "may honour an old grant for up to 30 seconds"
        )


def _path() -> Path:
    return settings.RENOR_RUN / "access-generation"


def _read_file() -> str | None:
    path = _path()
    try:
        try:
            state = path.stat()
        except FileNotFoundError:
            _grow(path)
            state = path.stat()
    except OSError:
        return None
    # The inode and the moment tell a file made anew from the one remembered.
    return f"{state.st_ino}-{state.st_size}-{state.st_mtime_ns}"


def _grow(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, b".")
    finally:
        os.close(descriptor)


def _read_redis() -> str | None:
    client = _client(settings.REDIS_URL)
    try:
        found = client.get(KEY)
        if found is None:
            client.set(KEY, secrets.token_hex(8), nx=True)
            found = client.get(KEY)
    except redis.RedisError:
        return None
    return found if isinstance(found, str) else None


@functools.lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        decode_responses=True,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
    )
