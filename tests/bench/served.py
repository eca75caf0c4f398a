"""The whole of it: `manage.py serve` as it is, its engine host, its HTTP door.

Started on a free port over a data folder of its own, and ended again, whatever comes.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from memories import engine
from memories.engine import types, wire
from memories.engine.types import Caller
from memories.host.client import Client
from memories.host.places import CONTROL_SOCKET
from memories.host.protocol import Question, decode_answer, receive_frame
from memories.host.sockets import SocketFolder

from . import corpus
from .figures import Figure, figure, settle, time_each, time_one

ROOT = Path(__file__).parents[2]
READY_SECONDS = 60.0
STOP_SECONDS = 20.0
QUESTIONS, WARM_UP = 400, 50
WAKES = 150
MANY = 24
OWNER, AGENT = "owner@localhost", "bench"
OLD, NEW = "2025-11-25", "2026-07-28"
CALLER = Caller(connection_id="bench", name="claude", acts=frozenset({"read", "write"}))


class Served:
    """A running Renor with one workspace that holds the corpus."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = _free_port()
        self.client = Client(data / "run")
        self._environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("RENOR_")
            and name not in ("REDIS_URL", "DATABASE_URL")
        } | {
            "RENOR_DATA": str(data),
            "RENOR_PORT": str(self.port),
            "RENOR_HOST": "127.0.0.1",
            "RENOR_PUBLIC_URL": f"http://127.0.0.1:{self.port}",
        }

    @contextlib.contextmanager
    def running(self) -> Iterator[Served]:
        log = self.data / "serve.log"
        command = (sys.executable, "manage.py", "serve", "--end-with-parent")
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _wait_until(
                lambda: self._is_ready(process), READY_SECONDS, "Renor is ready"
            )
            self.token = self._connect_agent()
            self.workspace = self._fill()
            yield self
        except TimeoutError:
            sys.stderr.write(log.read_text(encoding="utf-8", errors="replace"))
            raise
        finally:
            _end(process)

    def _is_ready(self, process: subprocess.Popen[bytes]) -> bool:
        if process.poll() is not None:
            message = f"serve ended with {process.returncode}"
            raise TimeoutError(message)
        try:
            return (
                self.get("/readyz") == 200
                and b"Renor is ready" in (self.data / "serve.log").read_bytes()
            )
        except OSError:
            return False

    def _connect_agent(self) -> str:
        command = (sys.executable, "manage.py", "connect_agent", OWNER, AGENT)
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=self._environment,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.splitlines()[-1]

    def _fill(self) -> str:
        """Lay the corpus into the sleeping workspace, wake it and let it index."""
        (folder,) = (self.data / "workspaces").iterdir()
        corpus.make_store(folder / "store")
        self.workspace = folder.name

        def is_indexed() -> bool:
            status = self.ask(types.MEMORY_STATUS)
            return status.notes == corpus.NOTE_COUNT and not status.index.stale

        _wait_until(is_indexed, READY_SECONDS, "the corpus is indexed")
        return folder.name

    def get(self, path: str) -> int:
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            link.request("GET", path)
            return link.getresponse().status
        finally:
            link.close()

    def ask(
        self, operation: types.Operation[types.R], **arguments: str | int | bool
    ) -> types.R:
        """Ask the engine over its socket, as the gateway does."""
        request = wire.Request(
            operation=operation.name, caller=CALLER, arguments=arguments
        )
        frame = wire.frame(wire.encode(request))
        reply = self.client.ask(self.workspace, frame, time.monotonic() + 20)
        if reply.error is not None:
            raise RuntimeError(reply.error.message)
        return msgspec.json.decode(reply.ok, type=operation.answer)

    def engine_pid(self) -> int:
        """Return the process of the workspace's engine, 0 while it sleeps."""
        engines = self.client.host_status().engines
        return next((e.pid for e in engines if e.workspace == self.workspace), 0)

    def fall_asleep(self) -> None:
        self.client.sleep(self.workspace)
        _wait_until(lambda: not self.engine_pid(), 10, "the engine sleeps")


def measure_wakes(served: Served) -> Iterator[Figure]:
    settle()
    questions = corpus.iter_questions(2)
    seconds = []
    for _ in range(WAKES):
        served.fall_asleep()
        question = next(questions)
        seconds.append(
            time_one(lambda: served.ask(types.GET_CONTEXT, query=question))  # noqa: B023 - called at once
        )
    yield figure("asleep to the first get_context answered", seconds, below=15)
    seconds = []
    folder = SocketFolder(served.data / "run")
    for _ in range(WAKES):
        served.fall_asleep()
        seconds.append(time_one(lambda: _ensure(folder, served.workspace)))
    yield figure("  asleep to awake (ensure alone)", seconds)
    seconds = [
        time_one(lambda: _ensure(folder, served.workspace)) for _ in range(WAKES)
    ]
    yield figure("  ensure of an awake engine", seconds)
    folder.close()


def _ensure(folder: SocketFolder, workspace: str) -> None:
    question = wire.encode(Question(verb="ensure", workspace=workspace))
    with folder.connect(CONTROL_SOCKET, 10) as link:
        link.sendall(wire.frame(question))
        answer = decode_answer(receive_frame(link))
    if answer.not_now is not None:
        raise RuntimeError(answer.not_now.message)


def measure_http(served: Served) -> Iterator[Figure]:
    """The same questions by every way in, in turn, so that all meet the same noise."""
    settle()
    doors = {
        "engine's socket": lambda question: served.ask(
            types.GET_CONTEXT, query=question
        ),
        f"HTTP, {OLD}": _Door(served, OLD).ask,
        f"HTTP, {NEW}": _Door(served, NEW).ask,
        f"HTTP, {OLD}, a connection each": _Door(served, OLD, is_kept=False).ask,
        "GET /healthz, kept alive": _Door(served, OLD).ask_health,
    }
    seconds = _time_in_turn(doors, corpus.iter_questions(3))
    for name, each in seconds.items():
        below = 12 if name.startswith("HTTP") else None
        label = name if name.startswith("GET") else f"get_context by {name}"
        yield figure(label, each, below=below)
    through_engine = statistics.median(seconds["engine's socket"])
    for era in (OLD, NEW):
        whole = statistics.median(seconds[f"HTTP, {era}"])
        yield Figure(
            name=f"  share of the engine in {era}",
            unit="%",
            median=100 * through_engine / whole,
            samples=QUESTIONS,
        )


def _time_in_turn(
    doors: Mapping[str, Callable[[str], object]], questions: Iterator[str]
) -> dict[str, list[float]]:
    for door in doors.values():
        time_each(door, questions, count=0, warm_up=WARM_UP)
    seconds: dict[str, list[float]] = {name: [] for name in doors}
    for number, question in enumerate(itertools.islice(questions, QUESTIONS)):
        # Each is the first to ask as often as the others: the first warms the caches.
        first = number % len(doors)
        names = list(doors)
        for name in names[first:] + names[:first]:
            start = time.perf_counter()
            doors[name](question)
            seconds[name].append(time.perf_counter() - start)
    return seconds


class _Door:
    """Raw JSON-RPC over HTTP with a token, in one of the protocol's eras."""

    def __init__(self, served: Served, era: str, *, is_kept: bool = True) -> None:
        self._era = era
        self._is_kept = is_kept
        self._link = http.client.HTTPConnection("127.0.0.1", served.port, timeout=20)
        self._headers = {
            "Authorization": f"Bearer {served.token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": era,
        }
        if era == NEW:
            self._headers |= {"Mcp-Method": "tools/call", "Mcp-Name": "get_context"}
        self._numbers = itertools.count(1)

    def ask(self, question: str) -> None:
        arguments: dict[str, object] = {"query": question}
        params: dict[str, object] = {"name": "get_context", "arguments": arguments}
        if self._era == NEW:
            prefix = "io.modelcontextprotocol"
            params["_meta"] = {
                f"{prefix}/protocolVersion": NEW,
                f"{prefix}/clientCapabilities": {},
                f"{prefix}/clientInfo": {"name": "bench", "version": "1"},
            }
        message = {
            "jsonrpc": "2.0",
            "id": next(self._numbers),
            "method": "tools/call",
            "params": params,
        }
        self._link.request("POST", "/mcp", json.dumps(message), self._headers)
        answer = self._link.getresponse()
        body = answer.read()
        if answer.status != 200 or b'"structuredContent"' not in body:
            message_text = f"{answer.status}: {body[:300]!r}"
            raise RuntimeError(message_text)
        if not self._is_kept:
            self._link.close()

    def ask_health(self, _: str) -> None:
        self._link.request("GET", "/healthz")
        answer = self._link.getresponse()
        answer.read()


def measure_memory(served: Served) -> Iterator[Figure]:
    """What an awake engine holds after its reads, the host's shared pages aside."""
    served.fall_asleep()
    served.ask(types.PING)
    yield from _memory_figures(served, "just woken")
    for question in itertools.islice(corpus.iter_questions(4), 100):
        served.ask(types.GET_CONTEXT, query=question)
    yield from _memory_figures(served, "after 100 questions")


def measure_many(served: Served) -> Iterator[Figure]:
    """What one of many awake engines holds: what they share is counted once."""
    workspaces = [str(uuid.uuid4()) for _ in range(MANY)]
    for workspace in workspaces:
        engine.create_workspace(served.data / "workspaces" / workspace, workspace)
        served.workspace = workspace
        for text in itertools.islice(corpus.iter_statements(5), 20):
            served.ask(types.REMEMBER, statement=text)
        served.ask(types.GET_CONTEXT, query=next(corpus.iter_questions(5)))
    awake = {e.workspace: e.pid for e in served.client.host_status().engines}
    shares = [
        sizes["Pss"] / 1024
        for workspace in workspaces
        if (sizes := _memory_of(awake[workspace]))
    ]
    if shares:
        mean = sum(shares) / len(shares)
        yield Figure(
            name=f"PSS, each of {len(shares)} small workspaces",
            unit="MiB",
            median=mean,
            below=1_024 / 80,
            note=f"{1_024 / mean:.0f} in a GiB",
        )


def _memory_figures(served: Served, when: str) -> Iterator[Figure]:
    sizes = _memory_of(served.engine_pid())
    if not sizes:
        return
    private = sizes["Private_Clean"] + sizes["Private_Dirty"]
    yield Figure(name=f"PSS, {when}", unit="MiB", median=sizes["Pss"] / 1024)
    yield Figure(name=f"private, {when}", unit="MiB", median=private / 1024)


def _memory_of(pid: int) -> dict[str, int]:
    """Return a process's memory in KiB by the kernel's names, {} where unknown."""
    rollup = Path(f"/proc/{pid}/smaps_rollup")
    if not rollup.exists():
        return {}
    return {
        line.partition(":")[0]: int(line.split()[1])
        for line in rollup.read_text(encoding="ascii").splitlines()[1:]
    }


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _wait_until(is_true: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            message = f"not within {seconds} s: {what}"
            raise TimeoutError(message)
        time.sleep(0.005)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
