"""Refuses an agent's token from now on, in every running process."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from accounts.opening import find_account
from workspaces.access import find_connection, revoke_connection
from workspaces.models import Connection, Workspace


class Command(BaseCommand):
    help = "Refuse the token of the agent NAME of EMAIL from now on."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", metavar="EMAIL", help="the owner's e-mail")
        parser.add_argument("name", metavar="NAME", help="the agent's name")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            connection = _find(options["email"], options["name"])
            revoke_connection(connection)
        except DatabaseError as error:
            message = (
                "The accounts database does not answer. Is it reachable, and was "
                "`manage.py migrate` run?"
            )
            raise CommandError(message) from error
        self.stderr.write(f"{connection.name} is refused from now on.")


def _find(email: str, name: str) -> Connection:
    owner = find_account(email)
    if owner is None:
        message = "No account has this e-mail."
        raise CommandError(message)
    workspace = Workspace.objects.filter(owner=owner).first()
    connection = workspace and find_connection(workspace, name)
    if not connection:
        names = Connection.objects.filter(workspace__owner=owner, revoked_at=None)
        listed = ", ".join(names.order_by("name_key").values_list("name", flat=True))
        message = f"No live agent has this name. Connected are: {listed or 'none'}."
        raise CommandError(message)
    return connection
