"""An ASGI server that has answered MCP calls ends when it is told to.

The SDK's own worker threads would keep daphne alive for ever (docs/decisions/0003).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest
from django.conf import settings

from tests.engine_hosts import running_host
from tests.mcp_door import ERAS, era_headers, message, result_of
from tests.services import wait_until
from tests.serving import find_free_port

END_SECONDS = 5.0


def manage(*arguments: str, environment: dict[str, str]) -> str:
    command = (sys.executable, "manage.py", *arguments)
    return subprocess.run(
        command,
        cwd=settings.BASE_DIR,
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def is_listening(port: int) -> bool:
    try:
        httpx2.get(f"http://127.0.0.1:{port}/healthz", timeout=5)
    except httpx2.TransportError:
        return False
    return True


def ask_for_status(port: int, era: str, token: str) -> httpx2.Response:
    call = {"name": "memory_status", "arguments": {}}
    headers = {
        **era_headers(era, "tools/call", "memory_status"),
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
    }
    return httpx2.post(
        f"http://127.0.0.1:{port}/mcp",
        content=message(era, "tools/call", call),
        headers=headers,
        timeout=20,
    )


@pytest.mark.parametrize("era", ERAS)
def test_daphne_ends_within_seconds_of_sigterm(era: str, short_folder: Path) -> None:
    port = find_free_port()
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "renor.settings",
        "RENOR_DATA": str(short_folder),
        "RENOR_PORT": str(port),
    }
    manage("migrate", "-v0", environment=environment)
    output = manage(
        "connect_agent",
        "alice@example.org",
        "claude",
        "--create",
        environment=environment,
    )
    token = output.splitlines()[-1]
    address = ("-b", "127.0.0.1", "-p", str(port), "renor.asgi:application")
    with running_host(short_folder):
        process = subprocess.Popen(
            (sys.executable, "-m", "daphne", "-v", "0", *address),
            cwd=settings.BASE_DIR,
            env=environment,
        )
        try:
            wait_until(lambda: is_listening(port), "daphne listens")
            answer = ask_for_status(port, era, token)
            told_at = time.monotonic()
            process.terminate()
            process.wait(END_SECONDS)
        finally:
            process.kill()
            process.wait()

    assert result_of(answer)["facts"] == 0
    assert time.monotonic() - told_at < END_SECONDS
