"""Moments and ids: strictly later each time, whatever the clock does."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's, sorted as bytes sort
RANDOM_BITS = 30


def make_id(at_ms: int, random: int) -> str:
    """Return a 16-character id that sorts by its moment: 50 bits of ms, 30 random."""
    number = at_ms << RANDOM_BITS | random & (1 << RANDOM_BITS) - 1
    return "".join(_ALPHABET[number >> shift & 31] for shift in range(75, -1, -5))


def clock_now_ms() -> int:
    return time.time_ns() // 1_000_000


def random_bits() -> int:
    return int.from_bytes(os.urandom(4), "big")


class Moments:
    """Gives out ids with their moments; `seen` tells of those already on the disk."""

    def __init__(self, clock: Callable[[], int], random: Callable[[], int]) -> None:
        self._clock = clock
        self._random = random
        self._last_ms = 0

    def next(self) -> tuple[str, int]:
        """Return a new id and its moment: later than every one given out or seen."""
        self._last_ms = max(self._clock(), self._last_ms + 1)
        return make_id(self._last_ms, self._random()), self._last_ms

    def seen(self, at_ms: int) -> None:
        self._last_ms = max(self._last_ms, at_ms)

    def now_ms(self) -> int:
        return max(self._clock(), self._last_ms)

    def behind_ms(self) -> int:
        """Return by how much the clock is behind the newest moment."""
        return self._last_ms - self._clock()
