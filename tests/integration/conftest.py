"""What the tests of pages share: an engine host, and what a page says."""

from __future__ import annotations

import html
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.core.cache import cache
from django.http import HttpResponse
from django.utils import translation

from memories import gateway
from memories.management.commands.enginehost import host_command

START_SECONDS = 20.0


@pytest.fixture(autouse=True)
def _nothing_carried_over() -> None:
    """Counts of attempts and the language of the last page outlive a test."""
    cache.clear()
    translation.deactivate()


@pytest.fixture(scope="module")
def engine_host() -> Iterator[None]:
    """Start the real one, over the data folder of the tests."""
    process = subprocess.Popen(
        host_command(),
        env={**os.environ, "PYTHONPATH": str(settings.BASE_DIR)},
        stdin=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not gateway.is_host_reachable():
            assert process.poll() is None, "the engine host ended at once"
            assert time.monotonic() < deadline, "the engine host did not answer"
            time.sleep(0.02)
        yield
    finally:
        process.terminate()
        process.wait(START_SECONDS)


@pytest.fixture
def visible() -> Callable[[HttpResponse], str]:
    """What a person reads on a page: its text without tags, white space folded."""

    def read(response: HttpResponse) -> str:
        body = response.content.decode("utf-8")
        body = re.sub(r"<(script|style|head)\b.*?</\1>", " ", body, flags=re.DOTALL)
        return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())

    return read
