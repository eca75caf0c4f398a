"""Lets an agent into somebody's memory. The token is the last line of the output."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, transaction

from accounts.models import User
from accounts.opening import find_account, open_account, open_workspace
from workspaces.access import make_connection
from workspaces.models import Connection, Workspace


class Command(BaseCommand):
    help = (
        "Connect an agent to the memory of EMAIL. Prints its token, once, alone on "
        "the last line of standard output; all else goes to standard error."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", metavar="EMAIL", help="the owner's e-mail")
        parser.add_argument("name", metavar="NAME", help="the agent's name, 1 to 100")
        parser.add_argument(
            "--create", action="store_true", help="make the owner if there is none"
        )
        parser.add_argument(
            "--read-only", action="store_true", help="the agent may not save"
        )
        parser.add_argument(
            "--scope",
            action="append",
            default=[],
            metavar="S",
            help="limit it to global or project:<slug>; may be given again",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with transaction.atomic():
                workspace, made = self._workspace(options["email"], options["create"])
                connection, token = make_connection(
                    workspace,
                    options["name"],
                    read_only=options["read_only"],
                    scopes=options["scope"],
                )
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from error
        except DatabaseError as error:
            message = (
                "The accounts database does not answer. Is it reachable, and was "
                "`manage.py migrate` run?"
            )
            raise CommandError(message) from error
        if made:
            self.stderr.write("Made the owner and an empty memory.")
        self.stderr.write(_told(connection))
        self.stdout.write(token)

    def _workspace(self, email: str, create: bool) -> tuple[Workspace, bool]:
        owner = find_account(email)
        if owner is None:
            if not create:
                message = (
                    "No account has this e-mail. Check it, or add --create to make it."
                )
                raise CommandError(message)
            owner = open_account(email)
            return _found(owner), True
        if not owner.is_active:
            message = "This account is switched off; its agents are refused."
            raise CommandError(message)
        if not Workspace.objects.filter(owner=owner).exists():
            if not create:
                message = "This account has no memory. Add --create to make one."
                raise CommandError(message)
            return open_workspace(owner), True
        return _found(owner), False


def _found(owner: User) -> Workspace:
    return Workspace.objects.get(owner=owner)


def _told(connection: Connection) -> str:
    may = "reads and saves" if connection.can_write else "only reads"
    where = ", ".join(connection.scopes) or "all scopes"
    return (
        f"Connected {connection.name}: it {may}, in {where}. "
        "Its token follows and is not shown again:"
    )
