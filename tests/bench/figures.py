"""Samples become figures: medians and 95th percentiles, a table, and bench.json.

Nothing here judges a run: a target that is missed is said, and the exit code stays 0.
"""

from __future__ import annotations

import gc
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
CALM_SHARE = 0.8
CALM_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured thing. `below` is the target for the median, None without one."""

    name: str
    unit: str
    median: float
    p95: float | None = None
    samples: int = 1
    below: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.below is None:
            return ""
        said = "yes" if self.median < self.below else "NO"
        return f"< {self.below:g}: {said}"


@dataclass(slots=True)
class Report:
    machine: Mapping[str, object]
    corpus: Mapping[str, object]
    groups: dict[str, list[Figure]] = field(default_factory=dict)

    def add(self, group: str, figures: Iterable[Figure]) -> None:
        self.groups.setdefault(group, []).extend(figures)

    def write(self, path: Path) -> None:
        text = json.dumps(asdict(self), indent=2, ensure_ascii=False)
        path.write_text(text + "\n", encoding="utf-8")


def figure(
    name: str,
    seconds: Sequence[float],
    *,
    below: float | None = None,
    note: str = "",
) -> Figure:
    """Return the figure of samples in seconds, in milliseconds."""
    return Figure(
        name=name,
        unit="ms",
        median=statistics.median(seconds) * 1000,
        p95=percentile(seconds, 0.95) * 1000,
        samples=len(seconds),
        below=below,
        note=note,
    )


def percentile(samples: Sequence[float], share: float) -> float:
    """Return the smallest sample that `share` of all do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def time_each(
    call: Callable[[T], object], inputs: Iterator[T], *, count: int, warm_up: int
) -> list[float]:
    """Return how many seconds each of `count` calls took, after `warm_up` others."""
    for _ in range(warm_up):
        call(next(inputs))
    return [time_one(lambda: call(next(inputs))) for _ in range(count)]


def time_one(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def settle() -> bool:
    """Wait until the machine is nearly idle; False if it did not come to that.

    Also leaves what exists now out of the garbage collector's sight, as the host does.
    """
    gc.collect()
    gc.freeze()
    deadline = time.monotonic() + CALM_SECONDS
    while time.monotonic() < deadline:
        before = _idle_and_total()
        time.sleep(0.5)
        after = _idle_and_total()
        total = after[1] - before[1]
        if total and (after[0] - before[0]) / total >= CALM_SHARE:
            return True
    return False


def _idle_and_total() -> tuple[int, int]:
    try:
        first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    except FileNotFoundError:  # not Linux: nothing is known, and nothing waited for
        return time.monotonic_ns(), time.monotonic_ns()
    ticks = [int(word) for word in first.split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)


HEADER = ("", "median", "p95", "unit", "samples", "target")


def render(report: Report) -> str:
    """Return the report for a terminal; also a Markdown table."""
    rows: list[tuple[str, ...]] = [HEADER]
    for group, figures in report.groups.items():
        rows.append((f"**{group}**", "", "", "", "", ""))
        rows.extend(_row(one) for one in figures)
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, _rule(widths))
    notes = [
        f"{one.name}: {one.note}"
        for figures in report.groups.values()
        for one in figures
        if one.note
    ]
    return "\n".join([*_facts(report), "", *lines, "", *notes]).rstrip()


def _facts(report: Report) -> list[str]:
    return [
        f"{name}: {', '.join(f'{key} {value}' for key, value in said.items())}"
        for name, said in (("Machine", report.machine), ("Corpus", report.corpus))
    ]


def _row(one: Figure) -> tuple[str, ...]:
    p95 = "" if one.p95 is None else _number(one.p95)
    samples = f"{one.samples:,}"
    return (one.name, _number(one.median), p95, one.unit, samples, one.verdict)


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [
        text.rjust(width) if column in (1, 2, 4) else text.ljust(width)
        for column, (text, width) in enumerate(zip(row, widths, strict=True))
    ]
    return f"| {' | '.join(cells)} |"


def _rule(widths: Sequence[int]) -> str:
    cells = [
        "-" * (width - 1) + (":" if column in (1, 2, 4) else "-")
        for column, width in enumerate(widths)
    ]
    return f"| {' | '.join(cells)} |"
