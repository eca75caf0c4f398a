"""Several processes as one: what whoever started them sees, and what is left after."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.services import wait_until

ROOT = Path(__file__).parents[2]

# Runs two parts and says their process ids; `{extra}` is what a test adds.
PROGRAM = """
import os, sys
from pathlib import Path
from renor.supervisor import Part, Supervisor

supervisor = Supervisor(
    sys.stdout, folder=Path.cwd(), env=dict(os.environ), on_ending=lambda: None
)
shell = lambda text: ("/bin/sh", "-c", text)
{extra}
supervisor.run()
"""
SLEEPER = "echo pid $$; exec sleep 300"
STUBBORN = "trap '' TERM; echo pid $$; while :; do sleep 0.1; done"


class Running:
    """A started program whose output is read as it comes."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8")

    @property
    def pids(self) -> list[int]:
        return [int(line.split()[-1]) for line in self.lines("pid ")]

    def lines(self, part: str) -> list[str]:
        return [line for line in self.output.splitlines() if part in line]

    def wait_for(self, text: str, times: int = 1) -> None:
        wait_until(lambda: self.output.count(text) >= times, f"{text!r} {times} times")


@pytest.fixture
def supervise(tmp_path: Path) -> Iterator[Callable[[str], Running]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(extra: str) -> Running:
        log = tmp_path / "output"
        program = PROGRAM.format(extra=textwrap.dedent(extra))
        with log.open("wb") as output:
            process = subprocess.Popen(
                (sys.executable, "-c", program),
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.append(process)
        return Running(process, log)

    yield start
    for process in started:
        process.kill()
        process.wait()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2]
    return state.split()[0] != "Z"


def wait_until_gone(pids: list[int]) -> None:
    wait_until(lambda: not any(map(is_alive, pids)), "the end of every part")


TWO_PARTS = f"""
supervisor.start(Part(name="one", command=shell({SLEEPER!r})))
supervisor.start(Part(name="two", command=shell({SLEEPER!r}), is_leaned_on=True))
"""


def test_output_is_prefixed_by_part(supervise):
    running = supervise(
        """
        supervisor.start(Part(name="one", command=shell("echo a; echo b >&2; exec sleep 300")))
        supervisor.start(Part(name="two", command=shell("printf c; exec sleep 300")))
        """
    )
    running.wait_for("b\n")

    running.process.terminate()
    running.process.wait(5)

    assert running.lines("one") == ["one     | a", "one     | b"]
    assert running.lines("two") == ["two     | c"]


def test_part_that_dies_starts_again_after_a_pause(supervise):
    running = supervise(TWO_PARTS)
    running.wait_for("pid ", times=2)
    first = running.pids

    os.kill(first[0], signal.SIGKILL)
    running.wait_for("pid ", times=3)

    assert running.lines("serve") == [
        "serve   | one ended (SIGKILL) and starts again in 1 s"
    ]
    assert is_alive(first[1])


def test_part_that_keeps_dying_waits_longer_each_time(supervise):
    running = supervise('supervisor.start(Part(name="one", command=shell("exit 7")))')

    running.wait_for("in 2 s")

    assert running.lines("serve") == [
        "serve   | one ended (exit code 7) and starts again in 1 s",
        "serve   | one ended (exit code 7) and starts again in 2 s",
    ]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signal_to_the_group_ends_all_in_order(supervise, signum):
    running = supervise(TWO_PARTS)
    running.wait_for("pid ", times=2)
    pids = running.pids
    began = time.monotonic()

    os.killpg(running.process.pid, signum)

    assert running.process.wait(5) == 0
    assert time.monotonic() - began < 5
    wait_until_gone(pids)


def test_stubborn_parts_are_killed_within_five_seconds(supervise):
    running = supervise(
        f"""
        supervisor.start(Part(name="one", command=shell({STUBBORN!r})))
        supervisor.start(Part(name="two", command=shell({SLEEPER!r}), is_leaned_on=True))
        """
    )
    running.wait_for("pid ", times=2)
    pids = running.pids
    began = time.monotonic()

    running.process.terminate()

    assert running.process.wait(6) == 0
    assert time.monotonic() - began < 5
    wait_until_gone(pids)


def test_parts_die_with_a_killed_supervisor(supervise):
    running = supervise(TWO_PARTS)
    running.wait_for("pid ", times=2)

    running.process.kill()

    wait_until_gone(running.pids)


def test_reader_that_stops_reading_does_not_keep_it_from_ending():
    program = PROGRAM.format(
        extra='supervisor.start(Part(name="one", command=shell("yes")))'
    )
    with subprocess.Popen(
        (sys.executable, "-c", program), cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(100_000)  # then no more, and the pipe fills

        process.terminate()

        assert process.wait(5) == 0
