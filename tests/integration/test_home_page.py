"""The owner's first page: address, how to connect, counts, the last memories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from django.conf import settings

from memories import gateway
from tests import factories
from workspaces.access import grant_for_token, revoke_connection


def _save(person, statement, agent="claude", **more):
    grant = grant_for_token(person.agents[agent].token)
    return gateway.call(grant, gateway.operations.REMEMBER, statement=statement, **more)


@pytest.mark.usefixtures("engine_host")
class TestAwake:
    def test_page_without_memories_shows_how_to_make_the_first(
        self, client, alice, visible
    ):
        client.force_login(alice.user)

        answer = client.get("/")

        assert answer.status_code == 200
        text = visible(answer)
        assert "MCP address http://127.0.0.1:8000/mcp" in text
        assert "claude mcp add --transport http renor http://127.0.0.1:8000/mcp" in text
        assert "Remember that the Fjord project uses SQLite." in text
        assert "connect_agent alice@example.org" in text

    def test_page_counts_and_lists_what_was_saved(self, client, alice, visible):
        _save(alice, "The cat is called Miso.")
        _save(
            alice,
            "Fjord uses SQLite.",
            "codex",
            subject="Fjord",
            predicate="database",
            object="SQLite",
            scope="project:fjord",
        )
        client.force_login(alice.user)

        text = visible(client.get("/"))

        assert "1 Facts" in text or "Facts 1" in text
        assert "The cat is called Miso." in text
        assert "project:fjord" in text
        assert text.index("SQLite") < text.index("Miso")  # the newest first

    def test_page_lists_at_most_ten(self, client, alice):
        for number in range(11):
            _save(alice, f"Thing number {number:02d} stands on its shelf.")
        client.force_login(alice.user)

        body = client.get("/").content.decode()

        assert "number 10" in body
        assert "number 01" in body
        assert "number 00" not in body

    def test_page_shows_only_its_own_memories_and_agents(
        self, client, alice, bob, visible
    ):
        _save(alice, "Alice keeps her spare key under the fern.")
        factories.make_agent(alice.workspace, "alices-own-agent")
        client.force_login(bob.user)

        text = visible(client.get("/"))

        assert "fern" not in text
        assert "alices-own-agent" not in text
        assert "alice@example.org" not in text

    def test_page_shows_markup_in_a_memory_as_words(self, client, alice):
        _save(alice, "<script>alert(1)</script> is how it was attacked")
        client.force_login(alice.user)

        body = client.get("/").content.decode()

        assert "<script>alert" not in body
        assert "&lt;script&gt;alert(1)" in body

    @pytest.mark.django_db(transaction=True)
    def test_page_leaves_out_revoked_agents(self, client, alice, visible):
        revoke_connection(alice.agents["codex"].connection)
        client.force_login(alice.user)

        text = visible(client.get("/"))

        assert "claude not used yet" in text
        assert "codex not used yet" not in text

    def test_page_tells_what_an_agent_may_and_when_it_came(
        self, client, alice, visible
    ):
        factories.make_agent(
            alice.workspace, "reader", read_only=True, scopes=("project:fjord",)
        )
        _save(alice, "Something.")
        client.force_login(alice.user)

        text = visible(client.get("/"))

        assert "reader reads only project:fjord not used yet" in text
        assert "claude last used now" in text

    def test_page_lists_at_most_five_troubles(self, client, alice, visible):
        _save(alice, "The cat is called Miso.")
        store = settings.RENOR_DATA / "workspaces" / str(alice.workspace.id) / "store"
        for number in range(7):
            name = os.fsencode(store) + b"/latin-\xe9-%d.md" % number
            Path(os.fsdecode(name)).write_text("odd", encoding="utf-8")
        grant = grant_for_token(alice.agents["claude"].token)
        gateway.call(grant, gateway.operations.INDEX_MEMORY)
        client.force_login(alice.user)

        text = visible(client.get("/"))

        assert "7 things in the store need your eye." in text
        assert text.count("This file is not memory and was passed over.") == 5
        assert "And 2 more." in text

    def test_page_says_how_much_text_is_kept(self, client, alice, visible):
        client.force_login(alice.user)

        assert "Text kept" in visible(client.get("/"))

    def test_page_speaks_portuguese(self, client, alice, visible):
        client.force_login(alice.user)

        answer = client.get("/", headers={"accept-language": "pt-BR"})

        assert "Sua memória" in visible(answer)

    @pytest.mark.parametrize("count", [1, 3])
    def test_page_asks_the_database_equally_often(
        self, client, alice, django_assert_num_queries, count
    ):
        for number in range(count):
            factories.make_agent(alice.workspace, f"more-{number}")
        client.force_login(alice.user)
        client.get("/")

        with django_assert_num_queries(4):  # session, person, workspace, connections
            client.get("/")


@pytest.mark.django_db
def test_page_of_an_account_without_a_memory_says_so(
    client, django_user_model, visible
):
    admin = django_user_model.objects.create_superuser("root@example.org", "x")
    client.force_login(admin)

    answer = client.get("/")

    assert answer.status_code == 200
    assert "No memory here" in visible(answer)
    assert "connect_agent root@example.org my-agent --create" in visible(answer)


def test_page_is_only_read(client, alice):
    client.force_login(alice.user)

    assert client.post("/").status_code == 405
