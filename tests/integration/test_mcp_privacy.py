"""No log line says what anybody remembers, asks or is let in with."""

from __future__ import annotations

import io
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from memories import gateway
from memories.management.commands.enginehost import host_command
from renor.logs import Line
from tests.conftest import Person
from tests.mcp_door import ERAS, call, request
from tests.services import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def host_log(tmp_path: Path) -> Iterator[Path]:
    """Run an engine host that writes its log into a file."""
    path = tmp_path / "log"
    with path.open("wb") as output:
        process = subprocess.Popen(
            host_command(),
            cwd=settings.BASE_DIR,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(gateway.is_host_reachable, "the engine host answers")
        yield path
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture
def written_log() -> Iterator[io.StringIO]:
    """Everything the process logs, as it would stand on standard error."""
    request("GET")  # loads the ASGI module, which configures logging anew
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Line())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield stream
    root.setLevel(level)
    root.removeHandler(handler)


def test_log_holds_no_words_queries_tokens_or_addresses(
    alice: Person, written_log: io.StringIO, host_log: Path
) -> None:
    token = alice.agents["claude"].token
    secret = "zephyrine"
    for era in ERAS:
        call(era, token, "remember", statement=f"The {secret} plan is on.")
        call(era, token, "save_memory", subject=secret, predicate=secret, object=secret)
        call(era, token, "get_context", query=f"which {secret} plan?")
        call(era, token, "search_text", query=f'"{secret} plan" AND (')
        call(era, token, "read_memory", id=f"note:{secret}.md")
        call(era, token, "remember", statement=secret, **{f"{secret}_argument": 1})
        call(era, token, "remember", statement=f"{secret} \ud800")
        call(era, token, "remember", statement=f"{secret} \x00")
        call(era, token, f"{secret}_tool")
        call(era, f"renor_{secret}" + "x" * 34, "get_context")

    logged = written_log.getvalue()
    lines = [line for line in logged.splitlines() if "memories.mcp.endpoint" in line]
    assert len(lines) == 20
    assert all("request=" in line and " ms=" in line for line in lines)
    assert f"connection={alice.agents['claude'].connection.id}" in logged
    for kept_out in (secret, token, token.removeprefix("renor_"), "example.org"):
        assert kept_out not in logged
        assert kept_out not in host_log.read_text(encoding="utf-8")
