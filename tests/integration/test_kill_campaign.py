"""kill -9 of the real engine, again and again; the long form is `make campaign`."""

from __future__ import annotations

import os
import subprocess
import sys

from django.conf import settings

KILLS = 200
SECONDS = 300


def test_nothing_acknowledged_is_lost_by_kills():
    """In a process of its own: engines are forked from it, and this one has threads."""
    done = subprocess.run(
        (sys.executable, "-m", "tests.campaigns.kills", "--kills", str(KILLS)),
        cwd=settings.BASE_DIR,
        env={k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Summary(kills={KILLS}, " in done.stdout
