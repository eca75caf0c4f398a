"""What happened to the store that its owner should know of. Holds no memory text."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from . import rules
from .types import Problem

REPORTS_KEPT = 100
REPORTS_KEPT_MS = 7 * 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file of the store that is passed over, and why.

    `hides` is true where nothing can be said of what lies at or below the path.
    """

    path: str
    reason: str
    hides: bool = False

    def is_over(self, path: str) -> bool:
        """Whether a file may still lie where it was, unseen because of this."""
        within = not self.path or path == self.path or path.startswith(f"{self.path}/")
        return self.hides and within


@dataclass(slots=True)
class Reports:
    """What the owner should know, newest last. `happened` outlives the process in
    the index, as long as that lives, for REPORTS_KEPT_MS.
    """

    happened: list[Problem] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    at_ms: int = 0
    is_changed: bool = False

    def add(self, code: str, message: str, path: str = "") -> None:
        at = rules.render_moment(self.at_ms)
        said = (code, message, path)
        others = [p for p in self.happened if (p.code, p.message, p.path) != said]
        others.append(Problem(code=code, message=message, path=path, at=at))
        self.happened = others
        del self.happened[:-REPORTS_KEPT]
        self.is_changed = True

    def forget(self, path: str) -> None:
        """Drop what names a file whose name is to be forgotten too."""
        kept = [one for one in self.happened if path not in (one.path, one.message)]
        self.happened = [one for one in kept if path not in one.message]
        self.is_changed = True

    def load(self, said: str, now_ms: int) -> None:
        """Take in what an earlier process kept."""
        self.at_ms = now_ms
        since = rules.render_moment(now_ms - REPORTS_KEPT_MS)
        kept = msgspec.json.decode(said or "[]", type=list[Problem])
        self.happened[:0] = [one for one in kept if one.at and one.at >= since]

    def render(self) -> str:
        return msgspec.json.encode(self.happened).decode()
