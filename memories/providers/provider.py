"""What every embedding provider is, and how it fails.

Errors never hold a text, a query or a key: their messages may be logged and shown.
"""

from __future__ import annotations

import math
import sys
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

FLOAT_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the operator chose: the settings RENOR_EMBEDDINGS and RENOR_EMBEDDINGS_*.

    `dimensions` 0 means the provider's own default. `socket` is that of the embedder
    process, which serves `local`.
    """

    name: str
    url: str = ""
    model: str = ""
    dimensions: int = 0
    api_key: str = ""
    socket: str = ""


class Provider(Protocol):
    """One model at one place. Thread-safe; makes no connection before the first call.

    `model` is the lasting name of what made a vector, dimensions included: vectors of
    two names are never compared. `destination` says where texts go, for people:
    "" when they do not leave this machine. `batch_texts` is how many texts one call
    may bring; each may be of any kind and length. `query_seconds` is how long a query
    may wait for its vector before search goes on without.
    """

    model: str
    dimensions: int
    destination: str
    batch_texts: int
    query_seconds: float

    def embed_documents(self, texts: Sequence[str], *, deadline: float) -> list[bytes]:
        """Return a unit vector for each text, in order. Tries again with growing
        pauses what may pass, until `deadline` (monotonic). Raises: ProviderError.
        """
        ...

    def embed_query(self, text: str, *, deadline: float) -> bytes:
        """Return a query's unit vector; tries again only where time is left.

        Raises: ProviderError.
        """
        ...


class ProviderError(Exception):
    """No vectors. `code` is one word for logs, metrics and the dashboard:

    `unreachable` (no connection, time-out), `rate-limited` (or out of quota), `failed`
    (5xx), `refused` (key, permission, unknown model: the operator must act),
    `bad-answer` (not what the protocol promises: wrong count, wrong dimensions, not
    numbers). `retry_after_seconds` is how long to leave it alone.
    """

    def __init__(
        self, code: str, message: str, *, retry_after_seconds: float = 0.0
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_seconds = retry_after_seconds


def unit_vector(values: Sequence[float], dimensions: int) -> bytes:
    """Return numbers as a vector of length 1: float32, little-endian.

    Raises: ProviderError `bad-answer` on another count, on what is no finite number
    and on a vector of length 0.
    """
    if len(values) != dimensions:
        message = f"a vector has {len(values)} dimensions, not {dimensions}"
        raise ProviderError("bad-answer", message)
    try:
        length = math.sqrt(math.fsum(value * value for value in values))
        if not math.isfinite(length) or length <= 0:
            raise ValueError
        packed = array("f", [value / length for value in values])
    except (TypeError, ValueError, OverflowError):
        message = "a vector holds what is no number, or only zeros"
        raise ProviderError("bad-answer", message) from None
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


def time_left(deadline: float) -> float:
    """Return the seconds until `deadline`. Raises: ProviderError when it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise ProviderError("unreachable", "the provider did not answer in time")
    return left
