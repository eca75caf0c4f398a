"""Makes what tests need, through the functions the product itself uses."""

from __future__ import annotations

from itertools import count

from accounts.models import User
from accounts.opening import open_account
from workspaces.access import Act, Grant, make_connection
from workspaces.models import Connection, Workspace

PASSWORD = "correct-horse-battery"

_numbers = count(1)


def make_user(email: str = "", *, password: str = PASSWORD) -> User:
    """Return a person with their workspace, row and folder."""
    return open_account(email or f"person{next(_numbers)}@example.org", password)


def make_workspace(email: str = "") -> Workspace:
    return Workspace.objects.get(owner=make_user(email))


def make_agent(
    workspace: Workspace,
    name: str = "",
    *,
    read_only: bool = False,
    scopes: tuple[str, ...] = (),
) -> tuple[Connection, str]:
    """Return a connection and its token."""
    return make_connection(
        workspace,
        name or f"agent-{next(_numbers)}",
        read_only=read_only,
        scopes=scopes,
    )


def make_grant(
    workspace_id: str,
    *,
    connection_id: str = "connection-1",
    name: str = "claude",
    acts: frozenset[Act] = frozenset({"read", "write"}),
    scopes: tuple[str, ...] | None = None,
    limit_bytes: int = 0,
) -> Grant:
    """Return a grant without asking anyone: for tests below the doors."""
    return Grant(
        workspace_id=workspace_id,
        connection_id=connection_id,
        name=name,
        acts=acts,
        scopes=scopes,
        limit_bytes=limit_bytes,
    )
