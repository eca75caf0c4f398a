"""How long a crashing engine is left alone: 0.5 s, doubled up to 60 s."""

from __future__ import annotations

from dataclasses import dataclass

FIRST_SECONDS = 0.5
LONGEST_SECONDS = 60.0
HEALTHY_SECONDS = 60.0


@dataclass(slots=True)
class Backoff:
    """Failures of one workspace's engine; times are of a monotonic clock."""

    failure_count: int = 0
    until: float = 0.0

    def add_failure(self, *, now: float, lived_seconds: float) -> None:
        """Count a crash; one after a healthy minute is a first crash again."""
        if lived_seconds >= HEALTHY_SECONDS:
            self.failure_count = 0
        # Bounded, since 2.0 ** 1024 overflows.
        doubled = min(self.failure_count, 10)
        self.until = now + min(FIRST_SECONDS * 2.0**doubled, LONGEST_SECONDS)
        self.failure_count += 1

    def wait_seconds(self, now: float) -> float:
        return max(0.0, self.until - now)

    def is_over(self, now: float) -> bool:
        """Tell whether nothing of the failures needs to be remembered."""
        return now >= self.until + HEALTHY_SECONDS
