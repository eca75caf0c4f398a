"""The nightly verification, as a task and as a command."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from celery.canvas import Signature
from celery.exceptions import Retry
from django.conf import settings
from django.core.management import CommandError, call_command

from memories import gateway, tasks
from memories.gateway import operations
from tests.conftest import Person
from tests.engine_hosts import RunningHost, running_host
from workspaces.access import grant_for_owner


@pytest.fixture
def host() -> Iterator[RunningHost]:
    with running_host(settings.RENOR_DATA) as running:
        yield running


def remember(person: Person, statement: str) -> None:
    gateway.call(grant_for_owner(person.user), operations.REMEMBER, statement=statement)


def damage(person: Person) -> None:
    folder: Path = settings.RENOR_DATA / "workspaces" / str(person.workspace.id)
    (folder / "store" / "facts.jsonl").write_text(
        "no event at all\n" * 3, encoding="utf-8"
    )


def verify_store(*arguments: str) -> str:
    output = StringIO()
    call_command("verify_store", *arguments, stdout=output)
    return output.getvalue()


def test_task_logs_counts_and_nothing_that_was_said(
    host: RunningHost, alice: Person, bob: Person, caplog: pytest.LogCaptureFixture
):
    remember(alice, "Zanzibar is a secret word.")
    caplog.set_level(logging.INFO)

    tasks.verify_store()

    told = {
        message.split()[1]: message.partition(": ")[2]
        for message in caplog.messages
        if message.startswith("workspace ")
    }
    assert set(told) == {str(alice.workspace.id), str(bob.workspace.id)}
    assert re.fullmatch(
        r"0 events, 1 entries, \d notes, 0 problems", told[str(alice.workspace.id)]
    )
    assert "Zanzibar" not in caplog.text
    assert "example.org" not in caplog.text


def test_task_warns_of_a_damaged_store(
    host: RunningHost, alice: Person, caplog: pytest.LogCaptureFixture
):
    damage(alice)

    tasks.verify_store()

    warned = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert [r.name for r in warned] == ["memories.tasks"]
    assert not warned[0].getMessage().endswith(" 0 problems")


def test_task_tries_again_only_what_could_not_answer(
    host: RunningHost, alice: Person, bob: Person
):
    marker = (
        settings.RENOR_DATA / "workspaces" / str(bob.workspace.id) / "workspace.json"
    )
    marker.rename(marker.with_suffix(".away"))

    with pytest.raises(Retry) as retried:
        tasks.verify_store.apply(throw=True)

    again: Signature[None] = vars(retried.value)["sig"]
    assert again.kwargs == {"waiting": [str(bob.workspace.id)]}
    assert retried.value.when == 30


def test_long_night_is_cut_into_tasks(
    host: RunningHost,
    alice: Person,
    bob: Person,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(tasks, "SLICE_SECONDS", 0.0)
    caplog.set_level(logging.INFO, "memories.tasks")
    from renor.celery import app  # noqa: PLC0415

    app.conf.task_always_eager = True
    try:
        tasks.verify_store()
    finally:
        app.conf.task_always_eager = False

    told = [r for r in caplog.records if r.name == "memories.tasks"]
    assert len(told) == 2


def test_command_prints_a_line_for_each_workspace(
    host: RunningHost, alice: Person, bob: Person
):
    remember(alice, "One entry.")

    lines = verify_store().splitlines()

    assert [line.split()[0] for line in lines] == [
        str(alice.workspace.id),
        str(bob.workspace.id),
    ]
    assert "0 events, 1 entries" in lines[0]
    assert lines[1].endswith("0 events, 0 entries, 0 notes, 0 problems")


def test_command_looks_at_one_owners_workspace(
    host: RunningHost, alice: Person, bob: Person
):
    lines = verify_store("ALICE@example.org").splitlines()

    assert [line.split()[0] for line in lines] == [str(alice.workspace.id)]


def test_command_names_problems_and_fails(host: RunningHost, alice: Person):
    damage(alice)
    output = StringIO()

    with pytest.raises(SystemExit) as ended:
        call_command("verify_store", stdout=output)

    assert ended.value.code == 1
    assert "1 problems" in output.getvalue()
    assert "ledger-damaged" in output.getvalue()


def test_command_without_a_host_fails_and_says_why(alice: Person):
    output = StringIO()

    with pytest.raises(SystemExit) as ended:
        call_command("verify_store", stdout=output)

    assert ended.value.code == 1
    assert "not verified" in output.getvalue()
    assert "engine host" in output.getvalue()


def test_command_refuses_an_unknown_address(alice: Person):
    with pytest.raises(CommandError, match="No account"):
        verify_store("carol@example.org")
