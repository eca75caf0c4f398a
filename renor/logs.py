"""Log lines: one per record, on standard error, with nothing of anybody's in them.

Messages of Renor's own packages are shown as they are, those of the queue unless they
tell of a failure; of all else only the constant part is, since what it fills in may be
a query, a token or an address. Of an exception the type and the places are shown, never
the message, which databases and parsers fill with the values at fault.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

TRUSTED = frozenset({"renor", "accounts", "memories", "workspaces"})
QUEUE = frozenset({"celery", "kombu"})
ROOT = str(Path(__file__).resolve().parent.parent)


class Line(logging.Formatter):
    """`moment LEVEL logger message key=value ...`, on one line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        stamp = moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(record.msecs):03d}Z"
        parts = [stamp, record.levelname, record.name, _message(record)]
        parts += [f"{key}={_value(value)}" for key, value in _fields(record)]
        return " ".join(parts)


class IsNews(logging.Filter):
    """Leaves out that /readyz answered 503: it is asked ten times a second at a start."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = getattr(record, "request", None)
        return getattr(request, "path", "") != "/readyz"


def _message(record: logging.LogRecord) -> str:
    owner = record.name.partition(".")[0]
    # What the queue says of a failure holds an exception's text, or what a task got.
    if owner in TRUSTED or (owner in QUEUE and record.levelno < logging.WARNING):
        return _one_line(record.getMessage())
    if isinstance(status := getattr(record, "status_code", None), int):
        return HTTPStatus(status).phrase
    if record.args:
        return _one_line(str(record.msg))
    # Without arguments the message may be already filled in: say where it is from.
    return f"{record.module}.{record.funcName}:{record.lineno}"


def _fields(record: logging.LogRecord) -> list[tuple[str, object]]:
    fields: list[tuple[str, object]] = []
    request = getattr(record, "request", None)
    if request is not None:
        # The route, not the path: paths hold keys of password resets and ids.
        match = getattr(request, "resolver_match", None)
        fields += [
            ("method", getattr(request, "method", None)),
            ("route", f"/{match.route}" if match else None),
        ]
    if isinstance(status := getattr(record, "status_code", None), int):
        fields.append(("status", status))
    if record.exc_info and record.exc_info[1] is not None:
        fields.append(("error", _chain(record.exc_info[1])))
    return fields


def _chain(error: BaseException) -> str:
    """Types and places of an exception and its causes, the first cause last."""
    described = []
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        frames = traceback.extract_tb(current.__traceback__)[-8:]
        places = ">".join(
            f"{frame.filename.removeprefix(ROOT + '/')}:{frame.lineno}"
            for frame in frames
        )
        described.append(f"{type(current).__name__}@{places}")
        current = current.__cause__ or current.__context__
    return "|".join(described)


def _value(value: object) -> str:
    return json.dumps(value if isinstance(value, int) else str(value or "-"))


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else " " for char in text)
