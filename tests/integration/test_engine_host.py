"""The engine host and its engines as processes: waking, sleeping, dying, refusing."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memories.engine import types
from memories.host.client import LinkBroke
from memories.host.places import engines_folder, run_folder
from tests.engine_hosts import (
    ROOT,
    RunningHost,
    is_alive,
    make_workspace,
    refusal_of,
    running_host,
)
from tests.services import wait_until


@pytest.fixture
def host(tmp_path: Path) -> Iterator[RunningHost]:
    with running_host(tmp_path) as running:
        yield running


def sockets(data: Path) -> list[str]:
    return sorted(path.name for path in engines_folder(run_folder(data)).iterdir())


# The host itself


def test_host_imports_nothing_with_threads():
    program = (
        "import sys, threading; import memories.host.__main__; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules})); "
        "assert threading.active_count() == 1"
    )

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        # What measures coverage would load modules of its own.
        env={k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")},
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = set(done.stdout.split())
    assert {"apsw", "msgspec", "markdown_it"} <= loaded
    forbidden = {"django", "celery", "numpy", "watchfiles", "anyio", "asyncio"}
    assert not loaded & (forbidden | {"concurrent", "multiprocessing", "mcp"})


def test_host_is_one_thread_with_no_database_open(host: RunningHost):
    host.ask(make_workspace(host.data))

    process = Path(f"/proc/{host.process.pid}")
    opened = [str(entry.readlink()) for entry in (process / "fd").iterdir()]
    assert len(list((process / "task").iterdir())) == 1
    assert not [name for name in opened if "workspaces" in name or "sqlite" in name]


def test_second_host_over_the_same_data_says_so_and_ends(host: RunningHost):
    second = subprocess.run(
        host.command, cwd=ROOT, capture_output=True, text=True, timeout=20
    )

    assert second.returncode == 4
    assert str(host.data) in second.stderr
    assert host.client.ping_host()


def test_sockets_and_their_folders_are_private(host: RunningHost):
    host.ask(make_workspace(host.data))

    run = run_folder(host.data)
    folders = [run, engines_folder(run)]
    inside = list(run.rglob("*.sock"))
    assert [path.stat().st_mode & 0o777 for path in folders] == [0o700, 0o700]
    assert [path.stat().st_mode & 0o777 for path in inside] == [0o600, 0o600]


def test_sigterm_ends_host_engines_and_watcher_and_leaves_no_socket(host: RunningHost):
    for _ in range(5):
        host.ask(make_workspace(host.data))
    pids = [engine.pid for engine in host.engines()]
    children = _children(host.process.pid)
    started = time.monotonic()

    code = host.stop()

    assert code == 0
    assert time.monotonic() - started < 3.0
    assert len(pids) == 5
    assert set(pids) < set(children)
    assert not [pid for pid in children if is_alive(pid)]
    assert sockets(host.data) == []
    assert not (run_folder(host.data) / "host.sock").exists()


def test_engine_that_does_not_end_is_killed_with_its_host(host: RunningHost):
    workspace = make_workspace(host.data)
    host.ask(workspace)
    pid = host.pid_of(workspace)
    os.kill(pid, signal.SIGSTOP)
    started = time.monotonic()

    host.stop()

    assert time.monotonic() - started < 3.5
    assert not is_alive(pid)


@pytest.mark.parametrize(
    "noise", [b"GET / HTTP/1.1\r\n\r\n", b"\x00\x00\x00\x02{}", b"\xff" * 70_000]
)
def test_noise_on_the_control_socket_ends_that_link_alone(
    host: RunningHost, noise: bytes
):
    folder = os.open(run_folder(host.data), os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(f"/proc/self/fd/{folder}/host.sock")
        link.settimeout(10)
        try:
            link.sendall(noise)
            assert link.recv(1) == b""
        except (BrokenPipeError, ConnectionResetError):
            pass
    os.close(folder)

    assert host.client.ping_host()


# Waking


def test_first_call_wakes_an_engine_and_the_next_ones_use_it(host: RunningHost):
    workspace = make_workspace(host.data)

    host.ask(workspace)
    pid = host.pid_of(workspace)
    for _ in range(20):
        host.ask(workspace)

    assert [engine.pid for engine in host.engines()] == [pid]
    assert host.engines()[0].state == "awake"


def test_callers_at_once_share_one_start(host: RunningHost):
    workspace = make_workspace(host.data)
    together = threading.Barrier(12)
    served: list[str] = []

    def call() -> None:
        together.wait()
        host.ask(workspace)
        served.append(workspace)

    threads = [threading.Thread(target=call) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert served == [workspace] * 12
    assert len(_children(host.process.pid)) == 2  # the engine and the watcher


def test_host_reports_its_engines(host: RunningHost):
    workspace = make_workspace(host.data)
    before = time.time()
    host.ask(workspace)

    status = host.client.host_status()

    assert status.pid == host.process.pid
    assert status.max_awake == 16
    assert status.backing_off == []
    (engine,) = status.engines
    assert engine.workspace == workspace
    assert before - 1 <= engine.since <= engine.last_used <= time.time() + 1


# Sleeping


def test_idle_engine_sleeps_and_the_next_call_wakes_it(tmp_path: Path):
    with running_host(tmp_path, idle_seconds=0.3) as host:
        workspace = make_workspace(tmp_path)
        host.ask(workspace, types.REMEMBER, statement="The boat is called Fjord.")
        first = host.pid_of(workspace)

        wait_until(lambda: not is_alive(first), "the engine sleeps")
        wait_until(lambda: sockets(tmp_path) == [], "its socket is gone")
        found = host.ask(workspace, types.SEARCH_TEXT, query="Fjord")

        assert len(found.hits) == 1
        assert host.pid_of(workspace) != first


def test_no_call_fails_because_an_engine_falls_asleep(host: RunningHost):
    workspace = make_workspace(host.data)
    host.ask(workspace)
    is_over = threading.Event()

    def send_to_sleep() -> None:
        while not is_over.wait(0.02):
            host.client.sleep(workspace)

    sleeper = threading.Thread(target=send_to_sleep)
    sleeper.start()
    pids: set[int] = set()
    try:
        while len(pids) < 10:
            host.ask(workspace)
            pids |= {engine.pid for engine in host.engines()}
    finally:
        is_over.set()
        sleeper.join()

    assert len(pids) == 10


def test_least_recently_used_sleeps_when_too_many_are_awake(tmp_path: Path):
    with running_host(tmp_path, max_awake=2) as host:
        one, two, three = (make_workspace(tmp_path) for _ in range(3))
        host.ask(one)
        host.ask(two)
        wait_until(lambda: _was_used_after(host, one, two), "the use is seen")

        host.ask(three)

        awake = {engine.workspace for engine in host.engines()}
        assert awake == {one, three}


def test_more_workspaces_than_may_be_awake_all_get_answers(tmp_path: Path):
    with running_host(tmp_path, max_awake=1) as host:
        workspaces = [make_workspace(tmp_path) for _ in range(3)]

        for _ in range(3):
            for workspace in workspaces:
                host.ask(workspace)

        assert len(host.engines()) == 1


def test_full_house_that_cannot_sleep_says_not_now(tmp_path: Path):
    with running_host(tmp_path, max_awake=1) as host:
        one, two, three = (make_workspace(tmp_path) for _ in range(3))
        host.ask(one)
        pid = host.pid_of(one)
        os.kill(pid, signal.SIGSTOP)  # told to sleep, it cannot
        waiting = threading.Thread(target=host.ask, args=(two,))
        waiting.start()
        wait_until(lambda: host.engines()[0].state == "ending", "told to sleep")

        reason = refusal_of(lambda: host.ask(three))

        assert reason == "full"
        assert is_alive(pid)
        os.kill(pid, signal.SIGCONT)
        waiting.join()


# Refusing


def test_lock_held_elsewhere_is_not_now_and_nothing_is_written(host: RunningHost):
    workspace = make_workspace(host.data)
    folder = host.data / "workspaces" / workspace
    with (folder / "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = sorted(path.name for path in folder.rglob("*"))

        reason = refusal_of(
            lambda: host.ask(workspace, types.REMEMBER, statement="Never written.")
        )

        assert reason == "refused"
        assert sorted(path.name for path in folder.rglob("*")) == before
        assert sockets(host.data) == []

    host.ask(workspace)


def test_unknown_workspace_is_refused_without_a_process(host: RunningHost):
    assert refusal_of(lambda: host.ask("0b0e7a4e-8f0e-4a77-9d63-0f8a2f1f6d11")) == (
        "unknown"
    )
    assert len(_children(host.process.pid)) == 1  # the watcher


def test_workspace_without_its_marker_is_refused(host: RunningHost):
    workspace = make_workspace(host.data)
    (host.data / "workspaces" / workspace / "workspace.json").unlink()

    assert refusal_of(lambda: host.ask(workspace)) == "marker"
    assert len(_children(host.process.pid)) == 1


def test_folder_that_cannot_be_read_is_refused(host: RunningHost):
    workspace = make_workspace(host.data)
    folder = host.data / "workspaces" / workspace
    folder.rename(folder.with_suffix(".away"))
    folder.symlink_to(folder)  # unreadable for root too

    assert refusal_of(lambda: host.ask(workspace)) == "unreadable"


# Dying


def test_crashed_engine_is_left_alone_a_moment_and_then_starts_again(
    host: RunningHost,
):
    workspace = make_workspace(host.data)
    host.ask(workspace, types.REMEMBER, statement="Before the crash.")
    host.kill_engine(workspace)

    reason = refusal_of(lambda: host.ask(workspace))
    backing_off = host.client.host_status().backing_off

    assert reason == "crashed"
    assert [(b.workspace, b.failure_count) for b in backing_off] == [(workspace, 1)]
    assert 0.0 < backing_off[0].retry_after_seconds <= 0.5
    wait_until(lambda: not host.client.host_status().backing_off, "the pause is over")
    found = host.ask(workspace, types.SEARCH_TEXT, query="Before the crash.")
    assert len(found.hits) == 1


def test_link_that_breaks_without_an_answer_is_told_apart(host: RunningHost):
    workspace = make_workspace(host.data)
    host.ask(workspace)
    pid = host.pid_of(workspace)
    os.kill(pid, signal.SIGSTOP)

    with pytest.raises(LinkBroke) as broken:
        host.ask(workspace, types.MEMORY_STATUS, seconds=0.2)

    assert broken.value.timed_out
    os.kill(pid, signal.SIGCONT)


# The host as it is, with less patience than a minute.
IMPATIENT = """
from memories.host import __main__, supervisor
supervisor.SUSPECT_SECONDS = 0.5
raise SystemExit(__main__.main())
"""


def test_engine_reported_silent_is_killed_if_it_hangs(tmp_path: Path):
    with running_host(tmp_path, program=("-c", IMPATIENT)) as host:
        workspace = make_workspace(tmp_path)
        host.ask(workspace)
        pid = host.pid_of(workspace)
        os.kill(pid, signal.SIGSTOP)

        host.client.report_silent(workspace)

        wait_until(lambda: not is_alive(pid), "the host kills it")
        wait_until(lambda: not host.client.host_status().backing_off, "a pause")
        host.ask(workspace)


def test_engine_reported_silent_is_left_alone_if_it_answers(tmp_path: Path):
    with running_host(tmp_path, program=("-c", IMPATIENT)) as host:
        one, two = make_workspace(tmp_path), make_workspace(tmp_path)
        host.ask(one)
        host.ask(two)
        one_pid, two_pid = host.pid_of(one), host.pid_of(two)
        os.kill(two_pid, signal.SIGSTOP)

        host.client.report_silent(one)
        host.client.report_silent(two)
        wait_until(lambda: not is_alive(two_pid), "the one that hangs is killed")

        assert host.pid_of(one) == one_pid


def test_engines_end_with_a_killed_host_and_a_new_host_serves(tmp_path: Path):
    with running_host(tmp_path) as host:
        workspaces = [make_workspace(tmp_path) for _ in range(3)]
        for workspace in workspaces:
            host.ask(workspace, types.REMEMBER, statement="Kept.")
        orphans = _children(host.process.pid)

        host.kill()
        assert refusal_of(lambda: host.ask(workspaces[0], seconds=0.5)) == "ending"
        wait_until(
            lambda: not [pid for pid in orphans if is_alive(pid)], "all end with it"
        )
        host.start()

        for workspace in workspaces:
            found = host.ask(workspace, types.SEARCH_TEXT, query="Kept.")
            assert len(found.hits) == 1


def test_sockets_left_by_a_kill_of_everything_are_replaced(tmp_path: Path):
    with running_host(tmp_path) as host:
        workspace = make_workspace(tmp_path)
        host.ask(workspace)
        os.kill(host.pid_of(workspace), signal.SIGSTOP)
        children = _children(host.process.pid)
        host.kill()
        for pid in children:
            _kill(pid)
        wait_until(lambda: not [p for p in children if is_alive(p)], "all are gone")
        assert sockets(tmp_path) == [f"{workspace}.sock"]

        host.start()

        host.ask(workspace)


def test_engine_that_hangs_does_not_outlive_its_host(tmp_path: Path):
    with running_host(tmp_path) as host:
        workspace = make_workspace(tmp_path)
        host.ask(workspace)
        pid = host.pid_of(workspace)
        os.kill(pid, signal.SIGSTOP)

        host.kill()

        wait_until(lambda: not is_alive(pid), "it ends with its host")
        host.start()
        host.ask(workspace)


# Watching


def test_file_dropped_by_hand_is_found_without_a_command(host: RunningHost):
    workspace = make_workspace(host.data)
    host.ask(workspace)
    wait_until(lambda: host.client.host_status().watcher == "inotify", "it watches")
    store = host.data / "workspaces" / workspace / "store"

    (store / "Travel").mkdir()
    (store / "Travel" / "Lisbon.md").write_text(
        "# Lisbon\n\nTram 28 leaves from Martim Moniz.\n", encoding="utf-8"
    )

    wait_until(lambda: _hits(host, workspace, "Martim Moniz") == 1, "found", seconds=5)


def test_file_dropped_while_asleep_is_found(host: RunningHost):
    workspace = make_workspace(host.data)
    host.ask(workspace)
    pid = host.pid_of(workspace)
    host.client.sleep(workspace)
    wait_until(lambda: not is_alive(pid), "the engine sleeps")
    store = host.data / "workspaces" / workspace / "store"

    (store / "Lisbon.md").write_text("Tram 28 climbs to Graça.\n", encoding="utf-8")

    assert host.find_engine(workspace) is None
    wait_until(lambda: _hits(host, workspace, "climbs to") == 1, "found", seconds=5)


def test_poke_does_not_wake_or_keep_awake(tmp_path: Path):
    with running_host(tmp_path, idle_seconds=1.0) as host:
        workspace = make_workspace(tmp_path)
        host.ask(workspace)
        pid = host.pid_of(workspace)
        note = tmp_path / "workspaces" / workspace / "store" / "Note.md"
        deadline = time.monotonic() + 15

        while is_alive(pid):  # a hand that never rests
            assert time.monotonic() < deadline, "the pokes keep the engine awake"
            note.write_text(str(time.monotonic()), encoding="utf-8")
            time.sleep(0.05)

        wait_until(lambda: host.find_engine(workspace) is None, "reaped")


def test_watcher_that_dies_is_replaced(host: RunningHost):
    workspace = make_workspace(host.data)
    host.ask(workspace)
    pid = host.pid_of(workspace)
    wait_until(lambda: host.client.host_status().watcher == "inotify", "it watches")
    (watcher,) = set(_children(host.process.pid)) - {pid}

    _kill(watcher)

    wait_until(
        lambda: (
            bool(set(_children(host.process.pid)) - {pid, watcher})
            and host.client.host_status().watcher == "inotify"
        ),
        "another watches",
    )
    store = host.data / "workspaces" / workspace / "store"
    (store / "Lisbon.md").write_text("Pastel de nata.\n", encoding="utf-8")
    wait_until(lambda: _hits(host, workspace, "Pastel de nata") == 1, "found", 5)


def _was_used_after(host: RunningHost, one: str, two: str) -> bool:
    """Use `one`; uses are told apart once they are a second apart."""
    host.ask(one)
    last_used = {engine.workspace: engine.last_used for engine in host.engines()}
    return last_used[one] > last_used[two]


def _hits(host: RunningHost, workspace: str, query: str) -> int:
    return len(host.ask(workspace, types.SEARCH_TEXT, query=query).hits)


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in listed.split() if is_alive(int(child))]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
