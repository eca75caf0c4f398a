"""`python -m tests.bench`: measure, print a table, write bench.json.

A target that is missed changes nothing but its word in the table. `--only engine`
leaves out what needs a whole Renor, `--only served` the rest.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from . import in_process, machine, served
from .figures import Report, render, settle

RESULT = Path(__file__).parents[2] / "bench.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--only", choices=("engine", "served"))
    only = parser.parse_args().only
    with tempfile.TemporaryDirectory(prefix="renor-bench-") as name:
        folder = Path(name).resolve()
        _say("the machine")
        workspace = in_process.Workspace(folder)
        settle()
        report = Report(machine.facts(folder), in_process.count(workspace))
        report.add("The machine", machine.measure(folder))
    if only != "served":
        _measure_engine(report)
    if only != "engine":
        _measure_served(report)
    report.write(RESULT)
    sys.stdout.write(f"{render(report)}\n\nWritten to {RESULT.name}\n")
    return 0


def _measure_engine(report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix="renor-bench-") as name:
        workspace = in_process.Workspace(Path(name))
        _say("the engine, in process")
        report.add("Engine, in process", in_process.measure_reads(workspace))
        _say("the index")
        report.add("Index", in_process.measure_indexing(workspace))
        # Last: what is saved here would change what the others measure.
        _say("durable saves")
        report.add("Engine, in process", in_process.measure_writes(workspace))
    with tempfile.TemporaryDirectory(prefix="renor-bench-") as name:
        _say("20,000 chunks")
        large = in_process.Workspace(Path(name), copies=in_process.LARGE_COPIES)
        report.add("Engine at 20,000 chunks", in_process.measure_large(large))


def _measure_served(report: Report) -> None:
    with tempfile.TemporaryDirectory(prefix="renor-bench-") as name:
        _say("a whole Renor: starting")
        with served.Served(Path(name)).running() as renor:
            _say("a whole Renor: waking")
            report.add("Waking, by the engine host", served.measure_wakes(renor))
            _say("a whole Renor: HTTP")
            report.add("get_context, end to end", served.measure_http(renor))
            report.add("Memory of an awake engine", served.measure_memory(renor))
            report.add("Memory of an awake engine", served.measure_many(renor))


def _say(what: str) -> None:
    sys.stderr.write(f"bench: {what}\n")


if __name__ == "__main__":
    sys.exit(main())
