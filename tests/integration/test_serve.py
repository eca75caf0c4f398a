"""`manage.py serve`: one process group that starts, mends itself and ends as one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import wait_until
from tests.serving import ROOT, SERVE, Serving, find_free_port, serving

# Without redis-server: the queue then lies on the disk.
WITHOUT_REDIS = {"PATH": str(Path(sys.executable).parent)}


@pytest.fixture
def renor(short_folder: Path) -> Iterator[Serving]:
    with serving(short_folder) as started:
        yield started


def wait_until_gone(renor: Serving) -> None:
    wait_until(lambda: not renor.pids(), "the end of every process")


def run_serve(renor: Serving) -> str:
    """Return what a further `serve` with the same data folder says; it must fail."""
    done = subprocess.run(
        SERVE,
        cwd=ROOT,
        env={**renor.environment, "RENOR_PORT": str(find_free_port())},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    return done.stderr


@pytest.mark.parametrize(
    ("signum", "is_to_all"),
    [(signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGHUP, True)],
)
def test_signal_ends_everything_in_five_seconds(renor, signum, is_to_all):
    renor.call(renor.token, "remember", statement="An engine is awake.")
    renor.pid_of(" -A renor worker ")
    began = time.monotonic()

    if is_to_all:  # as a terminal sends Ctrl-C
        os.killpg(renor.process.pid, signum)
    else:
        renor.process.send_signal(signum)

    assert renor.process.wait(10) == 0
    assert time.monotonic() - began < 5
    wait_until_gone(renor)
    assert "Traceback" not in renor.output


def test_killed_serve_leaves_nothing_and_starts_again_with_every_memory(short_folder):
    port = find_free_port()
    with serving(short_folder, port) as renor:
        token = renor.token
        renor.call(token, "remember", statement="Acknowledged before the kill.")

        renor.process.kill()
        renor.process.wait()
        wait_until_gone(renor)

        with serving(short_folder, port) as again:
            context = again.call(token, "get_context", query="acknowledged")
            assert [memory["text"] for memory in context["memories"]] == [
                "Acknowledged before the kill."
            ]


def test_everything_killed_at_once_starts_again_on_the_same_port(short_folder):
    port = find_free_port()
    with serving(short_folder, port) as renor:
        os.killpg(renor.process.pid, signal.SIGKILL)

        with serving(short_folder, port) as again:
            assert again.get("/readyz")[0] == 200


def test_killed_make_ends_everything(short_folder):
    with serving(short_folder, command=("make", "run")) as renor:
        renor.process.kill()  # make's own process alone
        renor.process.wait()

        wait_until_gone(renor)


def test_server_that_dies_starts_again(renor):
    first = renor.pid_of("daphne")

    os.kill(first, signal.SIGKILL)

    renor.wait_for("web ended (SIGKILL) and starts again in 1 s")
    wait_until(lambda: first not in renor.pids(), "the end of the first server")
    assert renor.pid_of("daphne") != first
    wait_until(lambda: _is_ready(renor), "the second server")


def test_killed_engine_host_comes_back_with_every_receipt_kept(renor):
    renor.call(renor.token, "remember", statement="Kept across the host's death.")
    first = renor.pid_of(" -m memories.host ")

    os.kill(first, signal.SIGKILL)

    renor.wait_for("engines ended (SIGKILL) and starts again in 1 s")
    wait_until(lambda: _is_ready(renor), "the second engine host")
    context = renor.call(renor.token, "get_context", query="kept across")
    assert [memory["text"] for memory in context["memories"]] == [
        "Kept across the host's death."
    ]


def _is_ready(renor: Serving) -> bool:
    try:
        return renor.get("/readyz")[0] == 200
    except OSError:
        return False


def test_second_serve_with_the_same_folder_says_who_runs(renor):
    said = run_serve(renor)

    assert (
        f"Renor runs already with this data folder (process {renor.process.pid})"
        in (said)
    )


def test_taken_port_is_named_with_the_way_out(short_folder):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        renor = Serving(short_folder / "data", port)
        try:
            assert renor.process.wait(60) == 1
        finally:
            renor.end()

    assert f"Port {port} on 127.0.0.1 is taken by another program." in renor.output
    assert f"RENOR_PORT={port + 1}" in renor.output
    assert "Traceback" not in renor.output


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"RENOR_PORT": "http"},
            "Settings that need mending:\n"
            "  - RENOR_PORT accepts a whole number from 1 to 65535, not 'http'\n",
        ),
        (
            {"DATABASE_URL": "sqlite:////nowhere/at-all/secret.sqlite3"},
            "CommandError: The accounts database cannot be reached: see that it runs, "
            "and that DATABASE_URL is right.\n",
        ),
    ],
)
def test_what_is_to_be_mended_is_said_without_a_traceback(short_folder, wrong, said):
    done = subprocess.run(
        SERVE,
        cwd=ROOT,
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "renor.settings",
            "RENOR_DATA": str(short_folder / "data"),
            "RENOR_PORT": str(find_free_port()),
            **wrong,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert done.returncode == 1
    assert done.stderr == said


def test_what_holds_up_the_start_is_named(short_folder):
    nowhere = f"unix://{short_folder}/none.sock"
    renor = Serving(short_folder / "data", find_free_port(), env={"REDIS_URL": nowhere})
    try:
        renor.wait_for("waiting goes on")
    finally:
        renor.end()

    assert "not ready yet: access counter, redis; waiting goes on" in renor.output
    assert "Renor is ready" not in renor.output


def test_without_redis_the_queue_lies_on_disk(short_folder):
    with serving(short_folder, env=WITHOUT_REDIS) as renor:
        renor.call(renor.token, "remember", statement="To be verified.")

        renor.send_task("memories.tasks.verify_store")

        renor.wait_for("verified: 0 events, 1 entries")
        assert list((renor.data / "queue" / "messages").iterdir()) == []
        assert not (renor.data / "run" / "redis.sock").exists()


def test_with_redis_the_queue_is_a_private_socket(redis_server, renor):
    mode = (renor.data / "run" / "redis.sock").stat().st_mode

    assert mode & 0o777 == 0o600
    assert not (renor.data / "queue").exists()
