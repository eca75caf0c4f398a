"""`manage.py verify_store [EMAIL]`: compare every file, event and index with the others."""

from __future__ import annotations

import sys

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memories import gateway
from memories.gateway import operations
from workspaces.access import grant_for_system
from workspaces.models import Workspace

VERIFY_SECONDS = 600.0
"""Whoever asks by hand waits for a large store."""


class Command(BaseCommand):
    help = (
        "Verify stores and indexes: a line for each workspace, exit code 1 on problems."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("email", nargs="?", default="", metavar="EMAIL")

    def handle(self, *args: object, email: str, **options: object) -> None:
        rows = Workspace.objects.order_by("created_at")
        if email:
            rows = rows.filter(owner__email__iexact=email)
            if not rows.exists():
                raise CommandError("No account has this e-mail address.")
        results = [self._verify(str(key)) for key in rows.values_list("id", flat=True)]
        if not all(results):
            sys.exit(1)

    def _verify(self, workspace_id: str) -> bool:
        try:
            found = gateway.call(
                grant_for_system(workspace_id),
                operations.VERIFY,
                deadline_seconds=VERIFY_SECONDS,
            )
        except (gateway.Unavailable, gateway.errors.EngineError) as error:
            self.stdout.write(f"{workspace_id}  not verified: {error.message}")
            return False
        counts = f"{found.events} events, {found.entries} entries, {found.notes} notes"
        problems = len(found.problems)
        self.stdout.write(f"{workspace_id}  {counts}, {problems} problems")
        for problem in found.problems:
            where = f" in {problem.path}" if problem.path else ""
            self.stdout.write(f"  {problem.code}{where}: {problem.message}")
        return not problems
