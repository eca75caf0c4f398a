"""The gateway over a real host and real engines, and over engines that misbehave."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.conf import settings

from memories import gateway
from memories.engine import wire
from memories.gateway import operations
from tests.engine_hosts import FaultyEngine, RunningHost, running_host
from tests.factories import make_grant
from tests.services import wait_until
from workspaces.access import Grant, grant_for_system


@pytest.fixture
def host() -> Iterator[RunningHost]:
    with running_host(settings.RENOR_DATA) as running:
        yield running


@pytest.fixture
def claude(host: RunningHost) -> Grant:
    """An agent that may read and write in a workspace of its own."""
    workspace = str(uuid.uuid4())
    gateway.create_workspace(workspace)
    return make_grant(workspace)


def folder_of(grant: Grant) -> Path:
    folder: Path = settings.RENOR_DATA / "workspaces" / grant.workspace_id
    return folder


def remember(grant: Grant, statement: str, **options: Any) -> operations.Receipt:
    return gateway.call(grant, operations.REMEMBER, statement=statement, **options)


def texts(grant: Grant, query: str) -> list[str]:
    hits = gateway.call(grant, operations.SEARCH_TEXT, query=query, top_k=50).hits
    return [hit.text for hit in hits]


def unavailable(ask: Callable[[], object]) -> gateway.Unavailable:
    with pytest.raises(gateway.Unavailable) as caught:
        ask()
    return caught.value


# Calls


def test_defect_of_the_engine_is_no_answer(claude: Grant):
    """What the engine did not foresee must not read as an answer about memory."""
    read = unavailable(lambda: gateway.call(claude, operations.GET_CONTEXT, odd="x"))
    written = unavailable(lambda: gateway.call(claude, operations.REMEMBER, odd="x"))

    assert (read.outcome_known, written.outcome_known) == (True, False)


def test_what_was_saved_is_found(claude: Grant):
    receipt = remember(claude, "Fjord's database is PostgreSQL.")

    assert receipt.action == "store"
    assert re.fullmatch(r"entry:\d{4}-\d\d-\d\d\.md#\S+", receipt.id)
    assert texts(claude, "PostgreSQL") == ["Fjord's database is PostgreSQL."]


def test_fact_that_changed_reads_as_its_latest_value(claude: Grant):
    for database in ("PostgreSQL", "SQLite"):
        gateway.call(
            claude,
            operations.SAVE_MEMORY,
            subject="Fjord",
            predicate="database",
            object=database,
        )

    context = gateway.call(
        claude, operations.GET_CONTEXT, query="what database does Fjord use?"
    )

    assert [fact.object for fact in context.facts] == ["SQLite"]
    assert context.facts[0].writer == "claude"


@pytest.mark.parametrize("max_tokens", [200, 300, 800])
def test_context_keeps_to_its_budget_as_counted_over_its_json(
    claude: Grant, max_tokens: int
):
    for number in range(20):
        remember(claude, f"Voyage {number}: the boat sails on at dawn, ção ção. " * 6)

    context = gateway.call(
        claude, operations.GET_CONTEXT, query="boat voyage", max_tokens=max_tokens
    )

    count = gateway._token_counter()
    used = count(gateway.encode(context).decode())
    assert context.memories
    assert used == context.tokens.used
    assert used <= context.tokens.max == max_tokens


def test_context_without_a_budget_keeps_to_800_tokens(claude: Grant):
    for number in range(20):
        remember(claude, f"Voyage {number}: the boat sails on at dawn. " * 6)

    context = gateway.call(claude, operations.GET_CONTEXT, query="boat voyage")

    assert context.tokens.max == 800
    assert 400 < context.tokens.used <= 800


def test_token_counter_is_loaded_once_and_says_so():
    gateway.load_token_counter()

    assert gateway.is_token_counter_loaded()
    assert gateway._token_counter()("hello world <|endoftext|>") == 9
    assert gateway._token_counter() is gateway._token_counter()


def test_answer_is_encoded_compactly_with_the_names_of_the_wire(claude: Grant):
    receipt = remember(claude, "São Paulo is the next port.", request_id="r-1")

    encoded = gateway.encode(receipt)

    assert b'"eventId":' in encoded
    assert b'": ' not in encoded


def test_error_of_the_engine_arrives_as_its_class(claude: Grant):
    with pytest.raises(gateway.errors.TooLarge, match=r"4,?000"):
        remember(claude, "x" * 4001)
    with pytest.raises(gateway.errors.NotFound):
        gateway.call(claude, operations.READ_MEMORY, id="fact:nothing")


def test_reader_cannot_write_and_nothing_is_asked_of_the_engine(claude: Grant):
    reader = make_grant(claude.workspace_id, acts=frozenset({"read"}))
    before = sorted(folder_of(claude).rglob("*"))

    with pytest.raises(gateway.errors.ReadOnly, match="may not write"):
        remember(reader, "Not to be written.")

    assert sorted(folder_of(claude).rglob("*")) == before
    with pytest.raises(gateway.errors.ReadOnly):
        remember(grant_for_system(claude.workspace_id), "Nor this.")


def test_scopes_of_a_grant_bind_its_calls(claude: Grant):
    remember(claude, "The harbour of Bergen.", scope="project:fjord")
    limited = make_grant(claude.workspace_id, scopes=("project:other",))

    assert texts(claude, "harbour") == ["The harbour of Bergen."]
    assert texts(limited, "harbour") == []


def test_sixteen_threads_write_and_read_at_once(claude: Grant):
    failures: list[str] = []

    def work(thread: int) -> None:
        for number in range(10):
            statement = f"Thread{thread} wrote line{number} of sixteen."
            receipt = remember(claude, statement)
            if receipt.action != "store":
                failures.append(receipt.action)
            if statement not in texts(claude, f"Thread{thread} wrote line{number}"):
                failures.append(statement)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    status = gateway.call(claude, operations.MEMORY_STATUS)
    assert status.entries == 160


def test_forked_worker_has_connections_of_its_own(claude: Grant):
    remember(claude, "Before the fork.")
    together = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.read(together[0], 1)
            found = [texts(claude, "Before the fork") for _ in range(50)]
            code = 0 if found == [["Before the fork."]] * 50 else 2
        finally:
            os._exit(code)
    os.write(together[1], b"x")
    for _ in range(50):
        gateway.call(claude, operations.PING)
    _pid, status = os.waitpid(child, 0)
    for end in together:
        os.close(end)

    assert os.waitstatus_to_exitcode(status) == 0


# Not now


def test_without_a_host_calls_are_unavailable_and_say_when_to_retry():
    grant = make_grant(str(uuid.uuid4()))
    gateway.create_workspace(grant.workspace_id)

    failure = unavailable(lambda: remember(grant, "Not written."))

    assert not gateway.is_host_reachable()
    assert failure.retry_after_seconds == 1
    assert failure.outcome_known
    assert "Nothing was written" in failure.message
    assert list((folder_of(grant) / "store").glob("*.md")) == []


def test_lock_held_elsewhere_is_unavailable_and_nothing_is_written(claude: Grant):
    with (folder_of(claude) / "lock").open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        failure = unavailable(lambda: remember(claude, "Not written."))

        assert failure.retry_after_seconds >= 1
        assert failure.outcome_known
        assert list((folder_of(claude) / "store").glob("*.md")) == []

    assert texts(claude, "Not written") == []


@pytest.mark.parametrize("damage", ["no marker", "no folder", "unreadable"])
def test_workspace_that_cannot_open_is_unavailable_and_stays_as_it_is(
    claude: Grant, damage: str
):
    folder = folder_of(claude)
    away = folder.with_suffix(".away")
    if damage == "no marker":
        (folder / "workspace.json").unlink()
    else:
        folder.rename(away)
    if damage == "unreadable":
        folder.symlink_to(folder)
    before = sorted(settings.RENOR_DATA.glob("workspaces/*"))

    failure = unavailable(lambda: remember(claude, "Not written."))

    assert failure.outcome_known
    assert failure.retry_after_seconds >= 1
    assert sorted(settings.RENOR_DATA.glob("workspaces/*")) == before
    if damage == "unreadable":
        folder.unlink()


def test_workspace_made_twice_keeps_what_it_holds(claude: Grant):
    remember(claude, "Kept.")

    gateway.create_workspace(claude.workspace_id)

    assert texts(claude, "Kept") == ["Kept."]


def test_new_workspace_is_its_owners_alone(claude: Grant):
    remember(claude, "Private.")
    gateway.call(claude, operations.SEARCH_TEXT, query="Private")

    found = [folder_of(claude), *folder_of(claude).rglob("*")]
    assert [str(p) for p in found if p.stat().st_mode & 0o077] == []


# Links that break

Act = Callable[[socket.socket], None]


@pytest.fixture
def faulty(host: RunningHost, claude: Grant) -> Iterator[Callable[..., FaultyEngine]]:
    """Put an engine that does as told in the place of claude's, which sleeps."""
    made: list[FaultyEngine] = []

    def replace(*acts: Act) -> FaultyEngine:
        workspace = claude.workspace_id
        host.client.sleep(workspace)
        wait_until(lambda: host.find_engine(workspace) is None, "the engine sleeps")
        made.append(FaultyEngine(settings.RENOR_DATA, workspace, *acts))
        return made[-1]

    yield replace
    for engine in made:
        engine.join()


def die(link: socket.socket) -> None:
    """End without an answer, as a killed engine does."""


def say_bye(link: socket.socket) -> None:
    link.sendall(wire.frame(wire.encode(wire.Reply(bye=True))))


def say_half(link: socket.socket) -> None:
    link.sendall(b"\x00\x00\x00\xff{")


def say_nothing_written(link: socket.socket) -> None:
    answer = wire.encode(operations.Written(receipt=None))
    link.sendall(wire.frame(wire.encode(wire.Reply(ok=msgspec.Raw(answer)))))


def say_busy(link: socket.socket) -> None:
    busy = wire.error_to_wire(gateway.errors.Busy("the disk is full"))
    link.sendall(wire.frame(wire.encode(wire.Reply(error=busy))))


def say_neither(link: socket.socket) -> None:
    link.sendall(wire.frame(b"{}"))


def wait_long(link: socket.socket) -> None:
    link.settimeout(20)
    link.recv(1)  # until the caller has given up


@pytest.mark.parametrize("act", [die, say_bye, say_half])
def test_read_whose_engine_ends_is_asked_again(claude: Grant, faulty, act):
    remember(claude, "Found at the second try.")
    engine = faulty(act)

    assert texts(claude, "second try") == ["Found at the second try."]
    assert engine.operations == ["search_text"]


@pytest.mark.parametrize("act", [die, say_bye, say_half])
def test_write_whose_engine_ends_before_it_wrote_is_written_once(
    claude: Grant, faulty, act
):
    engine = faulty(act)

    receipt = remember(claude, "Written after all.", request_id="r-7")

    assert engine.operations == ["remember"]
    assert receipt.action == "store"
    assert texts(claude, "Written after all") == ["Written after all."]


def test_write_whose_engine_ends_after_it_wrote_answers_its_receipt(
    claude: Grant, faulty
):
    written = remember(claude, "Written, then silence.", request_id="r-8")
    faulty(die)

    receipt = remember(claude, "Written, then silence.", request_id="r-8")

    assert (receipt.id, receipt.event_id) == (written.id, written.event_id)
    assert receipt.action == "store"
    assert texts(claude, "then silence") == ["Written, then silence."]


def test_write_of_which_nobody_can_be_asked_is_unknown(
    host: RunningHost, claude: Grant, faulty
):
    faulty(die)
    host.kill()

    failure = unavailable(lambda: remember(claude, "Perhaps."))

    assert not failure.outcome_known
    assert "retry is harmless" in failure.message


def test_write_that_meets_its_deadline_is_known_not_written(claude: Grant, faulty):
    faulty(wait_long)

    failure = unavailable(lambda: remember(claude, "Too late.", deadline_seconds=0.3))

    assert failure.outcome_known
    assert "Nothing was written" in failure.message
    assert texts(claude, "Too late") == []


def test_read_that_meets_its_deadline_is_unavailable(claude: Grant, faulty):
    faulty(wait_long)
    started = time.monotonic()

    failure = unavailable(
        lambda: gateway.call(
            claude, operations.SEARCH_TEXT, query="x", deadline_seconds=0.3
        )
    )

    assert time.monotonic() - started < 2
    assert failure.outcome_known
    assert failure.retry_after_seconds == 1


def test_read_whose_engines_end_again_and_again_is_unavailable(claude: Grant, faulty):
    engine = faulty(die, die)

    failure = unavailable(lambda: texts(claude, "anything"))

    assert engine.operations == ["search_text", "search_text"]
    assert failure.outcome_known


def test_read_whose_host_is_gone_too_is_unavailable(
    host: RunningHost, claude: Grant, faulty
):
    faulty(die)
    host.kill()

    failure = unavailable(lambda: texts(claude, "anything"))

    assert failure.outcome_known


def test_write_whose_second_try_breaks_too_is_unknown(claude: Grant, faulty):
    engine = faulty(die, say_nothing_written, die)

    failure = unavailable(lambda: remember(claude, "Perhaps."))

    assert engine.operations == ["remember", "find_written", "remember"]
    assert not failure.outcome_known


def test_engine_that_is_busy_makes_the_call_unavailable(claude: Grant, faulty):
    faulty(say_busy)

    failure = unavailable(lambda: remember(claude, "Not written."))

    assert failure.outcome_known
    assert failure.message == "the disk is full"


def test_answer_that_holds_nothing_counts_as_none(claude: Grant, faulty):
    faulty(say_neither)

    assert remember(claude, "Asked once more.").action == "store"
    assert texts(claude, "Asked once more") == ["Asked once more."]


def test_request_larger_than_a_frame_is_refused(claude: Grant):
    with pytest.raises(gateway.errors.TooLarge, match="larger"):
        remember(claude, "x" * (17 * 1024 * 1024))


def test_every_receipt_is_kept_when_engines_are_killed_during_writes(
    host: RunningHost, claude: Grant
):
    kept: list[str] = []
    refused: list[str] = []
    is_over = threading.Event()

    def write(thread: int) -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            statement = f"Writer{thread} line{number} survives."
            try:
                remember(claude, statement)
            except gateway.Unavailable as failure:
                if failure.outcome_known:
                    refused.append(statement)
                is_over.wait(0.05)
            else:
                kept.append(statement)

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    kills = 0
    while kills < 4:
        goal = len(kept) + 25
        wait_until(partial(_is_as_long, kept, goal), "writes go on", 60)
        found = host.find_engine(claude.workspace_id)
        if found is not None:
            os.kill(found.pid, signal.SIGKILL)
            kills += 1
    is_over.set()
    for thread in threads:
        thread.join()
    wait_until(lambda: not host.client.host_status().backing_off, "the pause is over")

    store = folder_of(claude) / "store"
    days = "".join(p.read_text(encoding="utf-8") for p in store.glob("*.md"))
    assert [line for line in kept if days.count(line) != 1] == []
    assert [line for line in refused if line in days] == []
    verified = gateway.call(claude, operations.VERIFY)
    assert verified.problems == []
    assert verified.entries >= len(kept) >= 100


def _is_as_long(lines: list[str], goal: int) -> bool:
    return len(lines) >= goal


def test_nothing_said_reaches_a_log(
    claude: Grant, faulty, caplog: pytest.LogCaptureFixture, capfd
):
    faulty(die)
    remember(claude, "Zanzibar is a secret word.")
    texts(claude, "Zanzibar")
    with pytest.raises(gateway.errors.NotFound):
        gateway.call(claude, operations.READ_MEMORY, id="fact:Zanzibar")

    said = caplog.text + "".join(capfd.readouterr())
    assert "Zanzibar" not in said
