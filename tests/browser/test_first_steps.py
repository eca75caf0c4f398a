"""The owner's first steps: from the sign-in that the terminal shows to their memory."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.serving import Serving

OpenPage = Callable[[str], Page]


def sign_in(page: Page, renor: Serving, button: str) -> None:
    page.goto("/")
    page.fill("input[name=login]", "owner@localhost")
    page.fill("input[name=password]", renor.password)
    page.get_by_role("button", name=button, exact=True).click()


def test_owner_signs_in_and_sees_what_an_agent_saved(
    renor: Serving, new_page: OpenPage
):
    renor.call(renor.token, "remember", statement="Fjord stores its data in SQLite.")
    page = new_page("en-US")

    sign_in(page, renor, "Sign in")

    expect(page.get_by_role("heading", level=1)).to_have_text("Your memory")
    expect(page.locator("#address")).to_have_text(f"{renor.url}/mcp")
    expect(page.get_by_text("Fjord stores its data in SQLite.")).to_be_visible()
    expect(page.locator("main").get_by_text("claude-code").first).to_be_visible()


def test_pages_speak_the_language_of_the_browser_and_the_one_chosen(
    renor: Serving, new_page: OpenPage
):
    page = new_page("pt-BR")

    sign_in(page, renor, "Entrar")

    expect(page.get_by_role("heading", level=1)).to_have_text("Sua memória")
    expect(page.locator("html")).to_have_attribute("lang", "pt-br")

    page.get_by_role("button", name="English").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Your memory")
    expect(page.locator("html")).to_have_attribute("lang", "en")


def test_wrong_password_says_so_and_lets_nobody_in(renor: Serving, new_page: OpenPage):
    page = new_page("en-US")
    page.goto("/")
    page.fill("input[name=login]", "owner@localhost")
    page.fill("input[name=password]", "not-the-password")

    page.get_by_role("button", name="Sign in", exact=True).click()

    expect(page.locator("main")).to_contain_text("not correct")
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")


def test_owner_signs_out(renor: Serving, new_page: OpenPage):
    page = new_page("en-US")
    sign_in(page, renor, "Sign in")

    page.get_by_role("button", name="Sign out").click()

    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in")
