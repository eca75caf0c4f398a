"""Renor as whoever starts it meets it: one command, its output, its address."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.services import wait_until

ROOT = Path(__file__).parents[1]
SERVE = (sys.executable, "manage.py", "serve")
# Alone on two cores it takes four; tests may share them.
READY_SECONDS = 60.0
PROTOCOL = "2025-11-25"


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class Serving:
    """A started `manage.py serve`, leader of a process group of its own."""

    def __init__(
        self,
        data: Path,
        port: int,
        *,
        command: Sequence[str] = SERVE,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.url = f"http://127.0.0.1:{port}"
        self._log = data.with_name(f"{data.name}.output")
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "renor.settings",
            "RENOR_DATA": str(data),
            "RENOR_PORT": str(port),
            **(env or {}),
        }
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def wait_for(self, text: str, seconds: float = READY_SECONDS) -> None:
        def is_said() -> bool:
            ended = self.process.poll() is not None
            if text not in self.output and ended:
                raise AssertionError(self.output)
            return text in self.output

        wait_until(is_said, f"{text!r} in {self.output}", seconds)

    def wait_until_ready(self) -> None:
        self.wait_for("Connect an agent:\n")

    @property
    def token(self) -> str:
        """The first connection's, shown on the first start alone."""
        return self._find(r'Authorization: Bearer (renor_[\w-]+)"')

    @property
    def password(self) -> str:
        return self._find(r"password: (\S+)   \(shown only now\)")

    def _find(self, pattern: str) -> str:
        found = re.search(pattern, self.output)
        assert found is not None, self.output
        return found[1]

    def pids(self, *, parent: int | None = None) -> dict[int, str]:
        """The processes of the group, the first apart, with their commands."""
        found = {}
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = status.read_text(encoding="utf-8").rpartition(")")[2].split()
                pid = int(status.parent.name)
                state, parent_pid, group = fields[0], int(fields[1]), int(fields[2])
                if group != self.process.pid or state == "Z":
                    continue
                if parent in (None, parent_pid):
                    command = status.with_name("cmdline").read_bytes()
                    found[pid] = command.replace(b"\0", b" ").decode().strip()
        found.pop(self.process.pid, None)
        return found

    def pid_of(self, text: str) -> int:
        """The part whose command holds `text`, once it is there."""

        def find() -> list[int]:
            parts = self.pids(parent=self.process.pid)
            return [pid for pid, command in parts.items() if text in command]

        wait_until(lambda: len(find()) == 1, f"{text!r} in {self.pids()}")
        return find()[0]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:  # noqa: S310  http alone
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def call(self, token: str, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool as the raw message that any client sends."""
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
        request = urllib.request.Request(  # noqa: S310  http alone
            f"{self.url}/mcp",
            data=json.dumps(message).encode(),
            headers={
                "Authorization": f"Bearer {token}",
                "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
                "MCP-Protocol-Version": PROTOCOL,
            },
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310  as above
            result = json.load(answer)["result"]
        assert not result.get("isError"), result
        content: dict[str, Any] = result["structuredContent"]
        return content

    def manage(self, *arguments: str) -> str:
        """Run a command of manage.py beside it; returns what it prints."""
        return self._run("manage.py", *arguments)

    def send_task(self, name: str) -> None:
        self._run("-m", "celery", "-A", "renor", "call", name)

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            (sys.executable, *arguments),
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def serving(
    folder: Path,
    port: int | None = None,
    *,
    command: Sequence[str] = SERVE,
    env: Mapping[str, str] | None = None,
) -> Iterator[Serving]:
    """Start, yield once it is ready, and leave nothing running."""
    data = folder / "data"
    started = Serving(data, port or find_free_port(), command=command, env=env)
    try:
        started.wait_until_ready()
        yield started
    finally:
        started.end()
