"""`manage.py enginehost`: becomes the engine host, a process without Django."""

from __future__ import annotations

import os
import sys

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Run the engine host: it starts, wakes and puts to sleep one engine for each workspace in use."
    requires_system_checks = ()

    def handle(self, *args: object, **options: object) -> None:
        environment = {**os.environ, "PYTHONPATH": str(settings.BASE_DIR)}
        # Engines are forked off the host: this process has threads and a database open.
        os.execve(sys.executable, host_command(), environment)  # noqa: S606 - no shell is meant


def host_command() -> list[str]:
    """Return what starts the engine host with these settings; `serve` starts it so."""
    command = [
        sys.executable,
        "-m",
        "memories.host",
        f"--data={settings.RENOR_DATA}",
        f"--idle-seconds={settings.RENOR_IDLE_SECONDS}",
        f"--max-awake={settings.RENOR_MAX_AWAKE}",
    ]
    if getattr(settings, "RENOR_ALLOW_NETWORK_DISK", False):
        command.append("--allow-network-disk")
    return command
