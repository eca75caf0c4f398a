"""Who comes in with a token, what they may do, and how soon they may not any more."""

from __future__ import annotations

import hashlib
import os
import time
from datetime import timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import OperationalError, transaction
from django.db import connection as database
from django.utils import timezone

from tests import factories
from workspaces import access, generation
from workspaces.access import AccessDenied
from workspaces.models import Connection


@pytest.fixture(autouse=True)
def _empty_memory():
    access._remembered.clear()
    access._used.clear()
    yield
    generation._client.cache_clear()


def test_token_grants_its_workspace_and_no_other(alice, bob):
    agent = alice.agents["claude"]

    grant = access.grant_for_token(agent.token)

    assert grant.workspace_id == str(alice.workspace.id)
    assert grant.connection_id == str(agent.connection.id)
    assert grant.name == "claude"
    assert grant.acts == {"read", "write"}
    assert grant.scopes is None
    assert grant.workspace_id != str(bob.workspace.id)


def test_token_is_kept_only_as_its_hash(alice):
    agent = alice.agents["claude"]

    row = Connection.objects.filter(pk=agent.connection.pk).values().get()

    assert len(agent.token) == len("renor_") + 43
    assert row["token_sha256"] == hashlib.sha256(agent.token.encode()).hexdigest()
    assert not any(agent.token[6:] in str(value) for value in row.values())


def test_limited_connection_reads_only_its_scopes(alice):
    _, token = factories.make_agent(
        alice.workspace, "reader", read_only=True, scopes=("project:fjord", "global")
    )

    grant = access.grant_for_token(token)

    assert grant.acts == {"read"}
    assert grant.scopes == ("project:fjord", "global")


@pytest.mark.parametrize(
    "token",
    ["", "renor_", "renor_" + "a" * 43, "renor_" + "é" * 43, "\ud800", "a" * 5000],
)
@pytest.mark.django_db
def test_unknown_token_is_denied(token):
    with pytest.raises(AccessDenied):
        access.grant_for_token(token)


@pytest.mark.django_db(transaction=True)
def test_revoked_token_is_denied_at_once(alice):
    agent = alice.agents["claude"]
    access.grant_for_token(agent.token)

    access.revoke_connection(agent.connection)

    with pytest.raises(AccessDenied):
        access.grant_for_token(agent.token)
    assert access.grant_for_token(alice.agents["codex"].token).name == "codex"


@pytest.mark.django_db(transaction=True)
def test_revoking_twice_keeps_the_first_moment(alice):
    agent = alice.agents["claude"].connection
    access.revoke_connection(agent)
    first = Connection.objects.get(pk=agent.pk).revoked_at

    access.revoke_connection(agent)

    assert Connection.objects.get(pk=agent.pk).revoked_at == first


@pytest.mark.django_db(transaction=True)
def test_switched_off_account_takes_its_agents_along(alice, bob):
    token = alice.agents["claude"].token
    access.grant_for_token(token)

    alice.user.is_active = False
    alice.user.save()

    with pytest.raises(AccessDenied):
        access.grant_for_token(token)
    with pytest.raises(AccessDenied):
        access.grant_for_owner(alice.user)
    assert access.grant_for_token(bob.agents["claude"].token).name == "claude"


def test_second_call_asks_no_database(alice, django_assert_num_queries):
    token = alice.agents["claude"].token
    access.grant_for_token(token)

    with django_assert_num_queries(0):
        again = access.grant_for_token(token)

    assert again == access.grant_for_token(token)


def test_remembered_grant_lasts_30_seconds(
    alice, monkeypatch, django_assert_num_queries
):
    now = time.monotonic()
    monkeypatch.setattr(access, "_now", lambda: now)
    token = alice.agents["claude"].token
    access.grant_for_token(token)
    now += access.CACHE_SECONDS + 0.001

    with django_assert_num_queries(1):
        access.grant_for_token(token)


@pytest.mark.django_db(transaction=True)
def test_change_by_another_process_is_seen_at_once(alice):
    token = alice.agents["claude"].token
    access.grant_for_token(token)

    # What another process does when it revokes: the row, then the counter.
    Connection.objects.update(revoked_at=timezone.now())
    generation.advance()

    with pytest.raises(AccessDenied):
        access.grant_for_token(token)


def test_changes_of_a_transaction_are_announced_after_it(alice):
    before = generation.read()
    with transaction.atomic():
        access.announce_change()

        assert generation.read() == before


def test_memory_of_grants_is_bounded(alice, monkeypatch):
    monkeypatch.setattr(access, "CACHE_ENTRIES", 1)

    access.grant_for_token(alice.agents["claude"].token)
    access.grant_for_token(alice.agents["codex"].token)

    assert [kept.grant.name for kept in access._remembered.values()] == ["codex"]
    assert len(access._used) == 1


def test_counter_out_of_reach_means_the_database_each_time(
    alice, settings, tmp_path, django_assert_num_queries
):
    settings.RENOR_RUN = tmp_path / "away"
    token = alice.agents["claude"].token
    access.grant_for_token(token)

    with django_assert_num_queries(1):
        access.grant_for_token(token)

    assert not access.is_token_counter_reachable()


def test_counter_in_a_file_made_anew_is_another_one(settings, tmp_path):
    settings.RENOR_RUN = tmp_path
    first = generation.read()
    os.utime(
        tmp_path / "access-generation", (1, 1)
    )  # one tick of the clock may hide it

    (tmp_path / "access-generation").unlink()

    assert generation.read() not in {None, first}


def test_counter_of_every_change_differs(settings, tmp_path):
    settings.RENOR_RUN = tmp_path
    seen = set()

    for _ in range(20):
        generation.advance()
        seen.add(generation.read())

    assert len(seen) == 20


@pytest.mark.django_db(transaction=True)
def test_counter_in_redis_works_alike(alice, settings, redis_server):
    settings.REDIS_URL = redis_server
    token = alice.agents["claude"].token
    access.grant_for_token(token)
    before = generation.read()

    access.revoke_connection(alice.agents["claude"].connection)

    assert before is not None
    assert generation.read() not in {None, before}
    with pytest.raises(AccessDenied):
        access.grant_for_token(token)


def test_counter_in_a_redis_that_is_away_means_the_database(
    alice, settings, tmp_path, django_assert_num_queries
):
    settings.REDIS_URL = f"unix://{tmp_path}/none.sock"
    token = alice.agents["claude"].token
    access.grant_for_token(token)

    with django_assert_num_queries(1):
        access.grant_for_token(token)

    assert not access.is_token_counter_reachable()
    generation.advance()  # is noted in the log, and stops nothing


def test_use_is_noted_at_most_once_a_minute(
    alice, monkeypatch, django_assert_num_queries
):
    now = time.monotonic()
    monkeypatch.setattr(access, "_now", lambda: now)
    agent = alice.agents["claude"]
    access.grant_for_token(agent.token)
    first = Connection.objects.get(pk=agent.connection.pk).last_used_at
    assert first is not None

    now += access.LAST_USED_EVERY_SECONDS - 31
    access.grant_for_token(agent.token)
    assert Connection.objects.get(pk=agent.connection.pk).last_used_at == first

    now += 32
    Connection.objects.update(last_used_at=first - timedelta(minutes=2))
    access.grant_for_token(agent.token)
    again = Connection.objects.get(pk=agent.connection.pk).last_used_at
    assert again is not None
    assert again >= first


@pytest.mark.django_db(transaction=True)
def test_use_that_cannot_be_noted_refuses_nobody(alice):
    def fail_updates(execute, sql, params, many, context):
        if sql.startswith("UPDATE"):
            raise OperationalError("database is locked")
        return execute(sql, params, many, context)

    with database.execute_wrapper(fail_updates):
        grant = access.grant_for_token(alice.agents["claude"].token)

    assert grant.name == "claude"


def test_owner_may_all_in_their_own_workspace(alice, bob):
    grant = access.grant_for_owner(alice.user)

    assert grant.workspace_id == str(alice.workspace.id)
    assert grant.connection_id == "owner"
    assert grant.acts == {"read", "write", "own"}


@pytest.mark.django_db
def test_account_without_a_workspace_is_denied(django_user_model):
    admin = django_user_model.objects.create_superuser("root@example.org", "x")

    with pytest.raises(AccessDenied):
        access.grant_for_owner(admin)


def test_system_only_reads(alice):
    grant = access.grant_for_system(str(alice.workspace.id))

    assert grant.acts == {"read"}
    assert grant.connection_id == "system"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "name_length"),
        ("  ", "name_length"),
        ("x" * 101, "name_length"),
        ("a\tb", "name_characters"),
        ("a\u200bb", "name_characters"),
        ("a\u202eb", "name_characters"),
        ("Owner", "name_reserved"),
        ("\uff4f\uff57\uff4e\uff45\uff52", "name_reserved"),  # full-width owner
        ("SYSTEM", "name_reserved"),
        ("developer", "name_reserved"),
        (" assistant ", "name_reserved"),
        ("Renor", "name_reserved"),
    ],
)
def test_name_that_could_mislead_is_refused(alice, name, code):
    with pytest.raises(ValidationError) as caught:
        access.make_connection(alice.workspace, name)

    assert caught.value.code == code


@pytest.mark.parametrize(
    ("first", "second"),
    [("Straße", "STRASSE"), ("Zoë", "ZOE\u0308"), ("my agent", "My  Agent")],
)
def test_names_differ_by_more_than_case_and_form(alice, first, second):
    access.make_connection(alice.workspace, first)

    with pytest.raises(ValidationError) as caught:
        access.make_connection(alice.workspace, second)

    assert caught.value.code == "name_taken"


@pytest.mark.django_db(transaction=True)
def test_name_is_free_again_after_revoking(alice, bob):
    access.revoke_connection(alice.agents["claude"].connection)

    connection, _ = access.make_connection(alice.workspace, "Claude")

    assert access.find_connection(alice.workspace, "CLAUDE") == connection
    assert access.find_connection(bob.workspace, "claude") != connection


@pytest.mark.parametrize(
    "scope",
    [
        "",
        "Global",
        "project:",
        "project:-a",
        "project:A",
        "fjord",
        "project:" + "a" * 65,
    ],
)
def test_scope_that_is_none_is_refused_with_an_example(alice, scope):
    with pytest.raises(ValidationError) as caught:
        access.make_connection(alice.workspace, "limited", scopes=[scope])

    assert caught.value.code == "scope"
    assert "project:fjord" in caught.value.messages[0]
    assert not Connection.objects.filter(name="limited").exists()


def test_repeated_scopes_count_once(alice):
    connection, _ = access.make_connection(
        alice.workspace, "limited", scopes=["global", "project:a.b-c_1", "global"]
    )

    assert connection.scopes == ["global", "project:a.b-c_1"]
