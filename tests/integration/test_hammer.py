"""Four processes on one workspace at once, its engine put to sleep and killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from memories import gateway
from memories.gateway import operations
from tests.engine_hosts import RunningHost, running_host
from tests.factories import make_grant
from tests.services import wait_until

PROCESSES = 4
CALLS = 500


@pytest.fixture
def host() -> Iterator[RunningHost]:
    with running_host(settings.RENOR_DATA) as running:
        yield running


def start(workspace: str, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-m", "tests.campaigns.hammer", workspace, name, str(CALLS)),
        cwd=settings.BASE_DIR,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "renor.settings",
            "RENOR_DATA": str(settings.RENOR_DATA),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def count_saved(folder: Path) -> int:
    files = [*folder.glob("2*.md"), *folder.glob("facts.jsonl")]
    return sum(path.read_bytes().count(b'"at":') for path in files) + sum(
        path.read_bytes().count(b'"kind":"save"') for path in files
    )


def test_hammered_workspace_loses_nothing(host: RunningHost):
    workspace = str(uuid.uuid4())
    gateway.create_workspace(workspace)
    hammers = [start(workspace, f"agent{number}") for number in range(PROCESSES)]
    folder = settings.RENOR_DATA / "workspaces" / workspace / "store"
    wait_until(lambda: count_saved(folder) > 150, "the hammers are at work")
    host.kill_engine(workspace)
    wait_until(lambda: count_saved(folder) > 400, "they go on")
    host.client.sleep(workspace)

    told: list[dict[str, Any]] = []
    for hammer in hammers:
        out, err = hammer.communicate(timeout=240)
        assert hammer.returncode == 0, err
        assert "locked" not in out + err
        told += [json.loads(line) for line in out.splitlines()]

    assert [one["error"] for one in told if "error" in one] == []
    saved = {one["saved"]: one["text"] for one in told if "saved" in one}
    assert len(saved) == sum("saved" in one for one in told) > PROCESSES * CALLS / 4
    retired = {one["retired"] for one in told if "retired" in one}
    grant = make_grant(workspace)
    for memory_id, text in saved.items():
        memory = gateway.call(grant, operations.READ_MEMORY, id=memory_id)
        assert text in (memory.text, memory.object)
        assert (memory.retired is True) == (memory_id in retired)
    days = "".join(path.read_text("utf-8") for path in folder.glob("2*.md"))
    ledger = (folder / "facts.jsonl").read_text("utf-8")
    counts = Counter({text: days.count(f"\n{text}\n") for text in saved.values()})
    for memory_id, text in saved.items():
        if memory_id.startswith("entry:"):
            assert counts[text] == (0 if memory_id in retired else 1)
        else:
            assert ledger.count(f'"object":"{text}"') == 1
    assert gateway.call(grant, operations.VERIFY).problems == []
