"""A Renor that runs, and Chromium pages that listen for anything amiss."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.serving import Serving, serving

# No sandbox: test runs are often root, or in containers without user namespaces. The
# rest keeps Chromium from talking to anyone but the server under test.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="module")
def renor() -> Iterator[Serving]:
    with (
        tempfile.TemporaryDirectory(prefix="renor-") as folder,
        serving(Path(folder)) as started,
    ):
        yield started


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS])
        yield started
        started.close()


@pytest.fixture
def new_page(browser: Browser, renor: Serving) -> Iterator[Callable[[str], Page]]:
    """Open pages of a visitor whose browser asks for a language.

    At the end nothing may have been amiss: no error on the console (a breach of the
    content policy is one), no exception, no answer of 400 or more.
    """
    amiss: list[str] = []
    contexts = []

    def open_page(language: str) -> Page:
        context = browser.new_context(base_url=renor.url, locale=language)
        contexts.append(context)
        page = context.new_page()
        page.on(
            "console",
            lambda message: (
                amiss.append(message.text)
                if message.type in {"error", "warning"}
                else None
            ),
        )
        page.on("pageerror", lambda error: amiss.append(str(error)))
        page.on(
            "response",
            lambda answer: (
                amiss.append(f"{answer.status} {answer.url}")
                if answer.status >= 400
                else None
            ),
        )
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert amiss == []
