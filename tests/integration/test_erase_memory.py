"""`manage.py erase_memory` against a real engine: the words leave the disk."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from memories import gateway
from memories.gateway import operations
from tests.conftest import Person
from tests.engine_hosts import RunningHost, running_host
from workspaces.access import grant_for_owner

WORDS = "The xylophone stands in the attic."


@pytest.fixture
def host() -> Iterator[RunningHost]:
    with running_host(settings.RENOR_DATA) as running:
        yield running


@pytest.fixture
def retired(host: RunningHost, alice: Person) -> str:
    grant = grant_for_owner(alice.user)
    saved = gateway.call(grant, operations.REMEMBER, statement=WORDS)
    return gateway.call(grant, operations.RETIRE_MEMORY, id=saved.id).id


def erase(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("erase_memory", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def files_with(word: bytes) -> list[Path]:
    places = [p for p in settings.RENOR_DATA.rglob("*") if p.is_file()]
    return [place for place in places if word in place.read_bytes()]


def test_erased_words_leave_the_disk(alice: Person, retired: str):
    assert files_with(b"xylophone") != []

    told, warned = erase("ALICE@example.org", retired, "--yes")

    assert told == f"{retired} is erased.\n"
    assert "git history" in warned
    assert files_with(b"xylophone") == []
    with pytest.raises(gateway.errors.NotFound):
        gateway.call(grant_for_owner(alice.user), operations.READ_MEMORY, id=retired)


def test_nothing_is_erased_without_yes(alice: Person, retired: str):
    with pytest.raises(CommandError, match="--yes"):
        erase("alice@example.org", retired)

    memory = gateway.call(
        grant_for_owner(alice.user), operations.READ_MEMORY, id=retired
    )
    assert memory.text == WORDS


def test_only_what_is_retired_is_erased(alice: Person, host: RunningHost):
    grant = grant_for_owner(alice.user)
    saved = gateway.call(grant, operations.REMEMBER, statement=WORDS)

    with pytest.raises(CommandError, match="not retired"):
        erase("alice@example.org", saved.id, "--yes")

    assert gateway.call(grant, operations.READ_MEMORY, id=saved.id).text == WORDS


def test_unknown_account_and_memory(alice: Person, host: RunningHost):
    with pytest.raises(CommandError, match="No account"):
        erase("nobody@example.org", "fact:1", "--yes")
    with pytest.raises(CommandError, match="fact:1"):
        erase("alice@example.org", "fact:1", "--yes")
