"""How a person comes in, and what an account begins with."""

from __future__ import annotations

import io
import re

import pytest
from allauth.account.models import EmailAddress
from django.core import mail
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection
from django.test import Client

from accounts.models import User
from accounts.opening import open_account
from tests.factories import PASSWORD
from workspaces.access import AccessDenied, grant_for_owner, grant_for_token
from workspaces.models import Connection, Workspace

pytestmark = pytest.mark.django_db

NEW = "n3w-and-long-enough"
PERSON = "Person@Example.ORG"


def _run(*arguments: str) -> tuple[list[str], str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(*arguments, stdout=out, stderr=err, no_color=True)
    return out.getvalue().splitlines(), err.getvalue()


def test_account_begins_with_a_verified_address_and_a_memory(settings):
    user = open_account(PERSON, PASSWORD)

    workspace = Workspace.objects.get(owner=user)
    folder = settings.RENOR_DATA / "workspaces" / str(workspace.id)
    assert user.email == "person@example.org"
    assert EmailAddress.objects.get(user=user).verified
    assert (folder / "workspace.json").is_file()
    assert (folder / "store").is_dir()
    assert folder.stat().st_mode & 0o077 == 0


def test_account_without_a_folder_is_no_account(settings, tmp_path):
    (tmp_path / "workspaces").write_text("in the way", encoding="utf-8")
    settings.RENOR_DATA = tmp_path

    with pytest.raises(OSError, match="workspaces"):
        open_account(PERSON, PASSWORD)

    assert not User.objects.exists()
    assert not EmailAddress.objects.exists()
    assert not Workspace.objects.exists()


@pytest.mark.parametrize("email", ["", "nobody", "person@EXAMPLE.org"])
def test_account_under_a_bad_or_taken_address_is_refused(email):
    open_account(PERSON)

    with pytest.raises(ValidationError):
        open_account(email)

    assert User.objects.count() == 1
    assert Workspace.objects.count() == 1


def test_sign_in_is_by_email_whatever_its_case(client, alice):
    answer = client.post(
        "/accounts/login/",
        {"login": "Alice@Example.org", "password": PASSWORD, "remember": "on"},
    )

    assert answer.status_code == 302
    assert answer.url == "/"


@pytest.mark.parametrize("email", ["alice@example.org", "stranger@example.org"])
def test_wrong_sign_in_says_the_same_of_known_and_unknown(
    client, alice, visible, email
):
    answer = client.post("/accounts/login/", {"login": email, "password": "wrong"})

    assert answer.status_code == 200
    assert "are not correct" in visible(answer)


def test_guessing_passwords_is_slowed(client, alice):
    for _ in range(6):
        client.post(
            "/accounts/login/", {"login": "alice@example.org", "password": "wrong"}
        )

    answer = client.post(
        "/accounts/login/", {"login": "alice@example.org", "password": PASSWORD}
    )

    assert answer.status_code == 200  # the right one is not even tried


def test_sign_up_is_closed_unless_opened(client, visible):
    page = client.get("/accounts/signup/")
    client.post(
        "/accounts/signup/", {"email": "new@example.org", "password1": PASSWORD}
    )

    assert "New accounts are closed" in visible(page)
    assert not User.objects.exists()


def test_sign_up_makes_the_memory_too(client, settings):
    settings.ACCOUNT_SIGNUP_ENABLED = True

    answer = client.post(
        "/accounts/signup/", {"email": "new@example.org", "password1": PASSWORD}
    )

    assert answer.status_code == 302
    assert grant_for_owner(User.objects.get(email="new@example.org")).acts >= {"own"}


def test_sign_up_that_cannot_make_the_memory_leaves_nothing(settings, tmp_path):
    (tmp_path / "workspaces").write_text("in the way", encoding="utf-8")
    settings.RENOR_DATA = tmp_path
    settings.ACCOUNT_SIGNUP_ENABLED = True

    answer = Client(raise_request_exception=False).post(
        "/accounts/signup/", {"email": "new@example.org", "password1": PASSWORD}
    )

    assert answer.status_code == 500
    assert not User.objects.exists()


@pytest.mark.parametrize("email", ["alice@example.org", "stranger@example.org"])
def test_password_reset_says_the_same_of_known_and_unknown(
    client, alice, visible, email
):
    answer = client.post("/accounts/password/reset/", {"email": email}, follow=True)

    assert "If this e-mail has an account here" in visible(answer)
    assert [sent.to for sent in mail.outbox] == (
        [["alice@example.org"]] if email.startswith("alice") else []
    )


def test_password_reset_lets_in_with_the_new_one(client, alice):
    client.post("/accounts/password/reset/", {"email": "alice@example.org"})
    link = re.search(r"http://\S+(/accounts/\S+)", str(mail.outbox[0].body))
    assert link is not None

    form = client.get(link[1], follow=True)
    client.post(form.request["PATH_INFO"], {"password1": NEW, "password2": NEW})

    assert client.login(email="alice@example.org", password=NEW)


def test_language_stays_with_the_account(client, alice, visible):
    client.force_login(alice.user)
    client.post("/i18n/setlang/", {"language": "pt-br", "next": "/"})

    elsewhere = Client(headers={"accept-language": "en"})
    elsewhere.force_login(alice.user)
    page = elsewhere.get("/accounts/password/change/")

    assert "Mude sua senha" in visible(page)
    assert page.headers["Content-Language"] == "pt-br"


def test_language_follows_the_browser_of_a_stranger(client, visible):
    page = client.get("/accounts/login/", headers={"accept-language": "pt-BR,pt;q=0.9"})

    assert "Entrar" in visible(page)


def test_connect_agent_prints_the_token_alone_on_the_last_line(alice):
    lines, said = _run("connect_agent", "alice@example.org", "cursor")

    assert grant_for_token(lines[-1]).name == "cursor"
    assert len(lines) == 1
    assert "Connected cursor: it reads and saves, in all scopes." in said


def test_connect_agent_makes_the_owner_when_asked():
    lines, said = _run("connect_agent", "new@example.org", "claude", "--create")

    user = User.objects.get(email="new@example.org")
    assert grant_for_token(lines[-1]).workspace_id == str(user.workspace.id)
    assert not user.has_usable_password()
    assert "Made the owner" in said


def test_connect_agent_gives_an_administrator_a_memory_when_asked():
    User.objects.create_superuser("root@example.org", PASSWORD)

    with pytest.raises(CommandError, match="--create"):
        _run("connect_agent", "root@example.org", "claude")
    lines, _ = _run("connect_agent", "root@example.org", "claude", "--create")

    assert grant_for_token(lines[-1]).name == "claude"


def test_connect_agent_limits_what_it_was_told_to(alice):
    lines, said = _run(
        "connect_agent",
        "alice@example.org",
        "reader",
        "--read-only",
        "--scope",
        "project:fjord",
        "--scope",
        "global",
    )

    grant = grant_for_token(lines[-1])
    assert grant.acts == {"read"}
    assert grant.scopes == ("project:fjord", "global")
    assert "it only reads, in project:fjord, global" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["stranger@example.org", "claude"], "No account has this e-mail"),
        (["alice@example.org", "Claude"], "already connected"),
        (["alice@example.org", "owner"], "kept for Renor itself"),
        (["alice@example.org", "x", "--scope", "Fjord"], "is not a scope"),
        (["nobody", "claude", "--create"], "valid email"),
    ],
)
def test_connect_agent_that_cannot_says_why_and_changes_nothing(alice, arguments, said):
    with pytest.raises(CommandError, match=said) as caught:
        _run("connect_agent", *arguments)

    assert caught.value.returncode == 1
    assert Connection.objects.count() == 2
    assert User.objects.count() == 1


def test_connect_agent_of_a_switched_off_account_is_refused(alice):
    alice.user.is_active = False
    alice.user.save()

    with pytest.raises(CommandError, match="switched off"):
        _run("connect_agent", "alice@example.org", "cursor")


@pytest.mark.django_db(transaction=True)
def test_revoke_agent_refuses_its_token(alice):
    token = alice.agents["claude"].token
    grant_for_token(token)

    _, said = _run("revoke_agent", "ALICE@example.org", "CLAUDE")

    assert "claude is refused from now on" in said
    with pytest.raises(AccessDenied):
        grant_for_token(token)


def test_revoke_agent_lists_the_live_ones_when_the_name_is_wrong(alice):
    with pytest.raises(CommandError, match="Connected are: claude, codex"):
        _run("revoke_agent", "alice@example.org", "cursor")
    with pytest.raises(CommandError, match="No account"):
        _run("revoke_agent", "stranger@example.org", "claude")


def test_account_is_never_named_by_its_address(alice):
    assert "alice" not in str(alice.user)
    assert "alice" not in repr(alice.user)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("command", ["connect_agent", "revoke_agent"])
def test_command_without_its_tables_says_what_to_run(command):
    def refuse(execute, sql, params, many, context):
        raise OperationalError("no such table: accounts_user")

    with (
        connection.execute_wrapper(refuse),
        pytest.raises(CommandError, match="`manage"),
    ):
        _run(command, "alice@example.org", "claude")
