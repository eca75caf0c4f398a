"""What holds for every page: its headers, its looks without a network, its errors."""

from __future__ import annotations

import logging
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.test import Client
from django.urls import include, path

from memories import gateway
from renor.logs import Line

SECRET = "planted-words-of-a-memory"
OPEN_PAGES = (
    "/accounts/login/",
    "/accounts/signup/",
    "/accounts/password/reset/",
    "/accounts/password/reset/done/",
    "/accounts/password/reset/key/1-abc/",
    "/accounts/password/reset/key/done/",
    "/accounts/confirm-email/",
    "/accounts/confirm-email/abc/",
    "/accounts/inactive/",
)
OWN_PAGES = (
    "/accounts/email/",
    "/accounts/logout/",
    "/accounts/password/change/",
    "/accounts/reauthenticate/",
)


def broken(request: HttpRequest) -> HttpResponse:
    raise ValueError(SECRET)


def suspicious(request: HttpRequest) -> HttpResponse:
    raise SuspiciousOperation(SECRET)


def forbidden(request: HttpRequest) -> HttpResponse:
    raise PermissionDenied(SECRET)


def away(request: HttpRequest) -> HttpResponse:
    raise gateway.Unavailable(SECRET, retry_after_seconds=7)


urlpatterns = [
    path("broken/", broken),
    path("suspicious/", suspicious),
    path("forbidden/", forbidden),
    path("away/", away),
    path("own/", login_required(broken)),
    path("", include("renor.urls")),
]


class Inline(HTMLParser):
    """Finds what a strict Content-Security-Policy would block."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "style" or "style" in names:
            self.found.append(f"style of {tag}")
        if tag == "script" and not names.get("src"):
            self.found.append("script")
        self.found += [name for name in names if name.startswith("on")]
        self.found += [
            value
            for name in ("src", "href", "action")
            if (value := names.get(name) or "").startswith(("http", "//", "javascript"))
        ]


def _assert_strict(answer: HttpResponseBase) -> None:
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert "camera=()" in answer.headers["Permissions-Policy"]


@pytest.mark.django_db
@pytest.mark.parametrize("address", OPEN_PAGES)
def test_open_page_keeps_the_strict_policy(client, settings, address):
    settings.ACCOUNT_SIGNUP_ENABLED = True

    answer = client.get(address)

    inline = Inline()
    inline.feed(answer.content.decode())
    assert answer.status_code == 200
    assert inline.found == []
    _assert_strict(answer)
    assert "no-store" in answer.headers["Cache-Control"]


@pytest.mark.parametrize("address", OWN_PAGES)
def test_own_page_keeps_the_strict_policy(client, alice, address):
    client.force_login(alice.user)

    answer = client.get(address)

    inline = Inline()
    inline.feed(answer.content.decode())
    assert answer.status_code == 200
    assert inline.found == []
    _assert_strict(answer)


@pytest.mark.parametrize("address", [*OWN_PAGES, "/", "/admin/"])
@pytest.mark.django_db
def test_own_page_asks_a_stranger_to_sign_in(client, address):
    answer = client.get(address)

    assert answer.status_code == 302
    assert answer.url.startswith(("/accounts/login/", "/admin/login/"))


def test_home_page_stays_while_the_memory_is_away(client, alice, visible):
    client.force_login(alice.user)

    answer = client.get("/")

    assert answer.status_code == 503
    assert int(answer.headers["Retry-After"]) >= 1
    text = visible(answer)
    assert "Your memory could not be opened just now." in text
    assert "http://127.0.0.1:8000/mcp" in text
    assert "Remember that the Fjord" not in text  # away is not empty


def test_static_files_are_served_without_collecting_them(client):
    page = client.get("/healthz")
    styles = client.get("/static/renor.css")
    icon = client.get("/static/renor.svg")

    assert styles.status_code == 200
    assert styles.headers["Content-Type"].startswith("text/css")
    assert "--renor-wash" in styles.content.decode()
    assert icon.headers["Content-Type"] == "image/svg+xml"
    _assert_strict(page)
    _assert_strict(styles)
    moment = styles.headers["Last-Modified"]
    again = client.get("/static/renor.css", headers={"if-modified-since": moment})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/static/none.css").status_code == 404


def test_styles_and_scripts_call_nobody():
    root = Path(__file__).resolve().parents[2] / "static"

    for file in root.rglob("*.[cj]s*"):
        text = file.read_text(encoding="utf-8")
        assert not re.findall(r"url\((?!\s*[\"']?data:)", text), file
        assert "@import" not in text, file


@pytest.mark.urls("tests.integration.test_pages")
class TestErrors:
    @pytest.mark.parametrize(
        ("address", "status", "heading"),
        [
            ("/nothing/", 404, "There is nothing here"),
            ("/broken/", 500, "Something broke on our side"),
            ("/suspicious/", 400, "This request was not understood"),
            ("/forbidden/", 403, "You may not see this"),
            ("/away/", 503, "Your memory is not available right now"),
        ],
    )
    @pytest.mark.django_db
    def test_error_page_says_what_to_do_and_nothing_else(
        self, visible, address, status, heading
    ):
        answer = Client(raise_request_exception=False).get(address)

        assert answer.status_code == status
        assert heading in visible(answer)
        assert SECRET not in answer.content.decode()
        assert "Traceback" not in answer.content.decode()
        _assert_strict(answer)

    @pytest.mark.django_db
    def test_error_page_speaks_the_language_of_the_browser(self, visible):
        answer = Client(
            raise_request_exception=False, headers={"accept-language": "pt-BR"}
        ).get("/broken/")

        assert "Algo quebrou do nosso lado" in visible(answer)

    @pytest.mark.django_db
    def test_away_says_when_to_come_back(self):
        answer = Client().get("/away/")

        assert answer.headers["Retry-After"] == "7"

    @pytest.mark.django_db
    def test_form_without_its_token_is_refused_in_our_words(self, visible):
        answer = Client(enforce_csrf_checks=True).post("/accounts/login/", {})

        assert answer.status_code == 403
        assert "This form is no longer valid" in visible(answer)

    def test_unknown_host_is_refused(self, visible):
        answer = Client().get("/accounts/login/", headers={"host": "evil.example"})

        assert answer.status_code == 400
        assert "evil.example" not in answer.content.decode()

    @pytest.mark.django_db
    def test_log_of_an_error_has_its_place_and_nobodys_words(self, caplog):
        Client(raise_request_exception=False).post(
            f"/broken/?q={SECRET}", {"text": SECRET}
        )

        lines = [Line().format(record) for record in caplog.records]
        (line,) = [line for line in lines if "django.request" in line]
        assert SECRET not in "".join(lines)
        assert 'route="/broken/"' in line
        assert "status=500" in line
        assert "ValueError@" in line
        assert "test_pages.py" in line


def _record(name: str, message: str, *args: object) -> str:
    record = logging.LogRecord(name, logging.INFO, __file__, 1, message, args, None)
    return Line().format(record)


def test_log_line_of_our_own_is_shown_on_one_line():
    line = _record("memories.gateway", "waited %d ms\nfor it", 3)

    assert line.endswith(" INFO memories.gateway waited 3 ms for it")


def test_log_line_of_a_library_shows_its_constant_part():
    assert _record("some.library", "Cannot read %s", SECRET).endswith(
        "some.library Cannot read %s"
    )
    assert SECRET not in _record("some.library", f"Cannot read {SECRET}")


def test_log_handlers_of_django_that_mail_requests_are_off(settings):
    for name in ("django", "django.server"):
        assert settings.LOGGING["loggers"][name]["handlers"] == []
    assert settings.ADMINS == []
