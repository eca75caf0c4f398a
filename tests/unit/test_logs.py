"""What a line of the log shows, and what it never does."""

from __future__ import annotations

import logging
import sys

import pytest

from renor.logs import Line

FAILED = "Task %(name)s[%(id)s] %(description)s: %(exc)s"


def record(name: str, level: int, message: str, *arguments: object) -> str:
    error = sys.exc_info() if sys.exc_info()[0] else None
    made = logging.LogRecord(name, level, __file__, 1, message, arguments, error)
    return Line().format(made)


def test_failed_task_is_logged_without_the_text_of_its_exception() -> None:
    told = {
        "name": "memories.tasks.verify_store",
        "id": "0b0e7a4e",
        "description": "raised unexpected",
        "exc": "ValueError('Zanzibar is a secret word')",
    }
    try:
        raise ValueError("Zanzibar is a secret word")
    except ValueError:
        line = record("celery.app.trace", logging.ERROR, FAILED, told)

    assert "Zanzibar" not in line
    assert FAILED in line
    assert "ValueError@" in line


@pytest.mark.parametrize("name", ["kombu.connection", "daphne.server"])
def test_trouble_of_a_server_shows_no_address(name: str) -> None:
    line = record(name, logging.WARNING, "Failed at %s", "redis://user:secret@host")

    assert line.endswith("Failed at %s")


def test_failure_that_is_already_filled_in_is_only_placed() -> None:
    line = record("celery.worker", logging.CRITICAL, "Unrecoverable: 'Zanzibar'")

    assert "Zanzibar" not in line


def test_what_the_queue_says_in_health_is_shown_whole() -> None:
    line = record("celery.apps.worker", logging.INFO, "%s ready.", "celery@host")

    assert line.endswith("celery@host ready.")
