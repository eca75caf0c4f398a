"""`manage.py erase_memory EMAIL ID --yes`: delete a retired memory for good."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from memories import gateway
from memories.gateway import operations
from workspaces.access import AccessDenied, Grant, grant_for_owner

ERASE_SECONDS = 600.0
"""The index is made anew, which takes a large store a while."""


class Command(BaseCommand):
    help = (
        "Delete a retired memory of the account EMAIL for good: no file of the "
        "workspace holds its words afterwards. Git history, backups and copies made "
        "elsewhere are not touched."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", metavar="EMAIL", help="the owner's e-mail")
        parser.add_argument(
            "id", metavar="ID", help="the memory's id, as a read or a receipt gave it"
        )
        parser.add_argument(
            "--yes", action="store_true", help="yes, it cannot be undone"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        grant = _grant_for(options["email"])
        memory_id = options["id"]
        if not options["yes"]:
            message = (
                f"{memory_id} would be deleted for good, which cannot be undone. "
                "Nothing was changed; repeat the command with --yes."
            )
            raise CommandError(message)
        try:
            erased = gateway.call(
                grant,
                operations.ERASE,
                deadline_seconds=ERASE_SECONDS,
                id=memory_id,
            )
        except (gateway.Unavailable, gateway.errors.EngineError) as error:
            raise CommandError(error.message) from error
        self.stdout.write(f"{erased.id} is erased.")
        for warning in erased.warnings:
            self.stderr.write(f"{warning.message}")
        for other in erased.also_in:
            self.stderr.write(f"  {other}")


def _grant_for(email: str) -> Grant:
    try:
        user = get_user_model().objects.filter(email__iexact=email).first()
        if user is None:
            message = "No account has this e-mail."
            raise CommandError(message)
        return grant_for_owner(user)
    except AccessDenied as error:
        message = "This account is not active, or has no workspace."
        raise CommandError(message) from error
    except DatabaseError as error:
        message = (
            "The accounts database does not answer. Is it reachable, and was "
            "`manage.py migrate` run?"
        )
        raise CommandError(message) from error
