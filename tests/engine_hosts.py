"""Real engine hosts over a data folder, and engines that misbehave, for tests."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from memories import engine
from memories.engine import types, wire
from memories.host.client import CannotReach, Client
from memories.host.places import engine_socket, engines_folder, run_folder
from memories.host.protocol import AwakeEngine, receive_frame
from memories.host.sockets import SocketFolder
from tests.services import wait_until

ROOT = Path(__file__).parents[1]
CALLER = types.Caller(
    connection_id="connection-1", name="claude", acts=frozenset({"read", "write"})
)


class RunningHost:
    """One `python -m memories.host`, and a client of it."""

    def __init__(
        self,
        data: Path,
        *,
        idle_seconds: float = 60.0,
        max_awake: int = 16,
        program: tuple[str, str] = ("-m", "memories.host"),
    ) -> None:
        self.data = data
        self.command = [
            sys.executable,
            *program,
            f"--data={data}",
            f"--idle-seconds={idle_seconds}",
            f"--max-awake={max_awake}",
        ]
        self.client = Client(run_folder(data))
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, cwd=ROOT, stdin=subprocess.DEVNULL, start_new_session=True
        )
        wait_until(self.client.ping_host, "the engine host answers")

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(10)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def engines(self) -> list[AwakeEngine]:
        return self.client.host_status().engines

    def find_engine(self, workspace: str) -> AwakeEngine | None:
        found = [e for e in self.engines() if e.workspace == workspace]
        return found[0] if found else None

    def pid_of(self, workspace: str) -> int:
        found = self.find_engine(workspace)
        assert found is not None
        return found.pid

    def kill_engine(self, workspace: str) -> None:
        pid = self.pid_of(workspace)
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not is_alive(pid), "the engine is gone")

    def ask(
        self,
        workspace: str,
        operation: types.Operation[types.R] = types.PING,  # type: ignore[assignment]  # any will do
        seconds: float = 20.0,
        **arguments: str | int | bool,
    ) -> types.R:
        """Ask once, as the gateway does, without its second thoughts."""
        request = wire.Request(
            operation=operation.name, caller=CALLER, arguments=arguments
        )
        reply = self.client.ask(
            workspace, wire.frame(wire.encode(request)), time.monotonic() + seconds
        )
        assert reply.error is None, reply.error
        return msgspec.json.decode(reply.ok, type=operation.answer)


@contextlib.contextmanager
def running_host(
    data: Path,
    *,
    idle_seconds: float = 60.0,
    max_awake: int = 16,
    program: tuple[str, str] = ("-m", "memories.host"),
) -> Iterator[RunningHost]:
    host = RunningHost(
        data, idle_seconds=idle_seconds, max_awake=max_awake, program=program
    )
    try:
        yield host
    finally:
        if host.process.poll() is None:
            host.stop()
        host.client.close()


def make_workspace(data: Path) -> str:
    workspace = str(uuid.uuid4())
    folder = data / "workspaces" / workspace
    folder.parent.mkdir(parents=True, exist_ok=True)
    engine.create_workspace(folder, workspace)
    return workspace


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that has ended but is not reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state.rpartition(")")[2].split()[0] != "Z"


def refusal_of(ask: Callable[[], object]) -> str:
    """Return the reason for which a call did not reach an engine."""
    try:
        ask()
    except CannotReach as error:
        return error.refusal.reason
    raise AssertionError("an engine answered")


class FaultyEngine:
    """Listens where an engine would, takes a request for each of `acts`, and obeys.

    With the last request it leaves its place, so that the host may start another.
    """

    def __init__(
        self, data: Path, workspace: str, *acts: Callable[[socket.socket], None]
    ) -> None:
        self._sockets = SocketFolder(engines_folder(run_folder(data)))
        self._name = engine_socket(workspace)
        self._acts = acts
        self.operations: list[str] = []
        self._listener = self._sockets.listen(self._name)
        self._listener.setblocking(True)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join(10)
        self._sockets.close()

    def _serve(self) -> None:
        for number, act in enumerate(self._acts, start=1):
            link, _address = self._listener.accept()
            with link:
                request = wire.decode_request(receive_frame(link))
                self.operations.append(request.operation)
                if number == len(self._acts):
                    self._sockets.remove(self._name)
                    self._listener.close()
                act(link)
