"""What whoever runs the server sees, and must not see."""

from __future__ import annotations

import pytest
from allauth.account.models import EmailAddress
from django.contrib.admin.models import LogEntry

from accounts.models import User
from tests.factories import PASSWORD
from workspaces.access import AccessDenied, grant_for_owner, grant_for_token
from workspaces.models import Connection, Workspace


@pytest.fixture
def root(db, client):
    user = User.objects.create_superuser("root@example.org", PASSWORD)
    client.force_login(user)
    return user


@pytest.mark.parametrize(
    "address",
    ["/admin/accounts/user/", "/admin/workspaces/workspace/"],
)
def test_people_are_found_by_their_address(client, root, alice, bob, visible, address):
    text = visible(client.get(address, {"q": "alice@"}))

    assert "alice@example.org" in text
    assert "bob@example.org" not in text


def test_agents_are_found_by_their_owner(client, root, alice, bob, visible):
    text = visible(client.get("/admin/workspaces/connection/", {"q": "bob@"}))

    assert "claude" in text
    assert "codex" not in text


def test_token_and_its_hash_are_shown_nowhere(client, root, alice):
    connection = alice.agents["claude"].connection

    for address in (
        "/admin/workspaces/connection/",
        f"/admin/workspaces/connection/{connection.pk}/change/",
        f"/admin/workspaces/workspace/{alice.workspace.pk}/change/",
    ):
        body = client.get(address).content.decode()
        assert "claude" in body
        assert connection.token_sha256 not in body


@pytest.mark.django_db(transaction=True)
def test_revoking_from_the_list_refuses_the_agents_at_once(
    client, root, alice, visible
):
    token = alice.agents["claude"].token
    grant_for_token(token)

    answer = client.post(
        "/admin/workspaces/connection/",
        {
            "action": "revoke",
            "_selected_action": [alice.agents["claude"].connection.pk],
        },
        follow=True,
    )

    assert "1 agent is refused from now on." in visible(answer)
    with pytest.raises(AccessDenied):
        grant_for_token(token)
    assert grant_for_token(alice.agents["codex"].token).name == "codex"


@pytest.mark.parametrize("model", ["user", "workspace", "connection"])
def test_nothing_is_deleted_here(client, root, alice, model):
    rows = {
        "user": alice.user,
        "workspace": alice.workspace,
        "connection": alice.agents["claude"].connection,
    }
    app = "accounts" if model == "user" else "workspaces"

    answer = client.post(
        f"/admin/{app}/{model}/{rows[model].pk}/delete/", {"post": "yes"}
    )

    assert answer.status_code == 403
    assert User.objects.filter(pk=alice.user.pk).exists()
    assert Workspace.objects.count() == 1
    assert Connection.objects.count() == 2


def test_account_made_here_has_its_memory(client, root, visible):
    answer = client.post(
        "/admin/accounts/user/add/",
        {
            "email": "New@example.org",
            "usable_password": "true",
            "password1": "a-long-enough-one",
            "password2": "a-long-enough-one",
        },
        follow=True,
    )

    user = User.objects.get(email="new@example.org")
    assert answer.status_code == 200
    assert grant_for_owner(user).workspace_id == str(user.workspace.id)
    assert EmailAddress.objects.get(user=user).verified
    assert "new@example.org" not in str(
        LogEntry.objects.values_list("object_repr", "change_message")
    )


@pytest.mark.django_db(transaction=True)
def test_switching_an_account_off_refuses_its_agents(client, root, alice):
    grant_for_token(alice.agents["claude"].token)

    client.post(
        f"/admin/accounts/user/{alice.user.pk}/change/", {"language": "", "_save": "1"}
    )

    assert not User.objects.get(pk=alice.user.pk).is_active
    with pytest.raises(AccessDenied):
        grant_for_token(alice.agents["claude"].token)


def test_owner_is_not_an_administrator(client, alice):
    client.force_login(alice.user)

    assert client.get("/admin/").status_code in {302, 403}


def test_administration_has_no_sign_in_of_its_own(client, db):
    answer = client.get("/admin/login/", {"next": "/admin/"})

    assert answer.status_code == 302
    assert answer.url.startswith("/accounts/login/")


def test_only_people_and_tenancy_are_administered(client, root, visible):
    text = visible(client.get("/admin/"))

    assert "Connections" in text
    assert "Groups" not in text
    assert "Email addresses" not in text
