"""A task through a real queue and worker: eager mode would hide how it travels."""

from __future__ import annotations

from pathlib import Path

from tests.serving import serving


def test_task_sent_through_redis_is_carried_out(redis_server, tmp_path: Path):
    # The operator's own Redis: `serve` starts none.
    with serving(tmp_path, env={"REDIS_URL": redis_server}) as renor:
        renor.call(renor.token, "remember", statement="To be verified.")

        renor.send_task("memories.tasks.verify_store")

        renor.wait_for("verified: 0 events, 1 entries")
        assert "redis-server" not in " ".join(renor.pids().values())
