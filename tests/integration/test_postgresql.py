"""Accounts and access once more, over the database of production."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
# What touches the accounts database; memories never do.
TESTS = ("test_access.py", "test_accounts.py", "test_admin.py", "test_health.py")


def test_accounts_and_access_hold_on_postgresql(postgresql):
    done = subprocess.run(
        (
            sys.executable,
            *("-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *(str(HERE / name) for name in TESTS),
        ),
        cwd=HERE.parents[1],
        env={**os.environ, "DATABASE_URL": postgresql},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
