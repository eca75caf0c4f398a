"""The owner's pages. Translate only: everything is asked of the gateway."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, cast

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from memories import gateway
from workspaces.access import AccessDenied, Grant, grant_for_owner
from workspaces.models import Connection

logger = logging.getLogger(__name__)

RECENT_COUNT: Final = 10
TROUBLES_SHOWN: Final = 5
KINDS: Final[dict[str, str | Promise]] = {
    "note": _("Note"),
    "entry": _("Entry"),
    "fact": _("Fact"),
}
PROBLEMS: Final[dict[str, str | Promise]] = {
    "clock-behind": _("The server's clock is behind the newest memory."),
    "entries-put-back": _("Fresh entries were missing after an edit and put back."),
    "entry-retired": _("An entry was removed by hand; it is retired, not lost."),
    "events-gone": _("Lines were removed from the ledger by hand."),
    "events-put-back": _("Fresh lines were missing from the ledger and put back."),
    "file": _("This file could only be read in part."),
    "index": _("The search index could not be made anew; it is tried again."),
    "ledger-damaged": _("The ledger is damaged; until it is mended it is only read."),
    "ledger-event": _("A line of the ledger could not be understood."),
    "not-taken-in": _("This file could not be read into the search index yet."),
    "page-kept": _("You edited this page: it is a note now and no longer updated."),
    "restore": _("An entry put back by hand could not be recorded in the ledger."),
    "retire": _("An entry removed by hand could not be recorded in the ledger."),
    "scan-stopped": _("Looking through the files was stopped; it begins anew."),
    "skipped": _("This file is not memory and was passed over."),
    "torn-end": _("A write was cut short; its beginning was set aside."),
}
# These put what is remembered in doubt: they are shown before all others.
GRAVE: Final = frozenset({"ledger-damaged", "events-gone", "ledger-event", "index"})
OTHER_PROBLEM: Final = _("Something is amiss; verify_store on the server says what.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something in the store that the owner should know, in their language."""

    text: str | Promise
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A memory as the page shows it."""

    kind: str | Promise
    title: str
    scope: str
    writer: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    status: gateway.operations.Status
    troubles: Sequence[Trouble]
    troubles_left_out: int
    recent: Sequence[Line]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """Lines to paste. Names of programs and files are theirs: not translated."""

    address: str
    command: str
    claude: str
    codex: str
    cursor: str
    vscode: str
    header: str


@login_required
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    user = cast("AbstractBaseUser", request.user)
    email = str(user.get_username())
    try:
        grant = grant_for_owner(user)
    except AccessDenied:
        context: dict[str, object] = {"command": _command(email, create=True)}
        return render(request, "memories/no_workspace.html", context)
    context = {
        "connections": list(
            Connection.objects.filter(
                workspace_id=grant.workspace_id, revoked_at=None
            ).order_by("name_key")
        ),
        "connect": _connect(email),
        "store": _store(grant),
    }
    try:
        context["overview"] = _overview(grant)
    except gateway.Unavailable as away:
        logger.warning("Workspace %s is away: %s", grant.workspace_id, away.message)
        retry_after_seconds = away.retry_after_seconds
    except gateway.errors.EngineError as error:
        logger.warning("Workspace %s: %s", grant.workspace_id, error.code)
        retry_after_seconds = 5
    else:
        return render(request, "memories/home.html", context)
    response = render(request, "memories/home.html", context, status=503)
    response.headers["Retry-After"] = str(retry_after_seconds)
    return response


def _overview(grant: Grant) -> Overview:
    status = gateway.call(grant, gateway.operations.MEMORY_STATUS)
    recent = gateway.call(grant, gateway.operations.LIST_RECENT, limit=RECENT_COUNT)
    problems = sorted(status.problems, key=lambda found: found.code not in GRAVE)
    return Overview(
        status=status,
        troubles=[
            Trouble(text=PROBLEMS.get(found.code, OTHER_PROBLEM), path=found.path)
            for found in problems[:TROUBLES_SHOWN]
        ],
        troubles_left_out=len(problems[TROUBLES_SHOWN:]),
        recent=[
            Line(
                kind=KINDS[memory.kind],
                title=memory.title,
                scope=memory.scope,
                writer=memory.writer or memory.source,
                at=datetime.fromisoformat(memory.at),
            )
            for memory in recent.memories
        ],
    )


def _store(grant: Grant) -> str:
    """Where the files lie; only for who sits at the machine, others cannot go there."""
    if not settings.IS_LOOPBACK:
        return ""
    return str(settings.RENOR_DATA / "workspaces" / grant.workspace_id / "store")


def _command(email: str, *, create: bool = False) -> str:
    line = f".venv/bin/python manage.py connect_agent {email} my-agent"
    return f"{line} --create" if create else line


def _connect(email: str) -> Connect:
    address = f"{settings.RENOR_PUBLIC_URL}/mcp"
    header = "Authorization: Bearer YOUR_TOKEN"
    server = {"url": address, "headers": {"Authorization": "Bearer YOUR_TOKEN"}}
    return Connect(
        address=address,
        command=_command(email),
        claude=f'claude mcp add --transport http renor {address} --header "{header}"',
        codex=(
            f'[mcp_servers.renor]\nurl = "{address}"\n'
            'bearer_token_env_var = "RENOR_TOKEN"'
        ),
        cursor=json.dumps({"mcpServers": {"renor": server}}, indent=2),
        vscode=json.dumps({"servers": {"renor": {"type": "http", **server}}}, indent=2),
        header=header,
    )
