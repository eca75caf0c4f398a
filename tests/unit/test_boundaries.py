"""The directions of docs/architecture.md, held by the import contracts and by trying."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter import configuration
from importlinter.application.use_cases import lint_imports

ROOT = Path(__file__).parents[2]

# What an engine and its host do without: a fork server must be small and have one
# thread, and the engine is to be usable without the product around it.
FOREIGN = {"accounts", "asgiref", "celery", "django", "httpx", "numpy", "renor"}


def test_import_contracts_hold(capfd):
    configuration.configure()

    holds = lint_imports(str(ROOT / "pyproject.toml"), cache_dir=None, no_logo=True)

    assert holds, capfd.readouterr().out


@pytest.mark.parametrize(
    "module", ["memories.engine", "memories.engine.server", "memories.host.__main__"]
)
def test_engine_and_host_load_nothing_of_the_product(module):
    program = f"import sys, {module}; print(*sys.modules, sep='\\n')"

    done = subprocess.run(
        (sys.executable, "-c", program),
        cwd=ROOT,
        # What measures coverage would load modules of its own.
        env={k: v for k, v in os.environ.items() if not k.startswith("COVERAGE")},
        capture_output=True,
        text=True,
        check=True,
    )

    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded & FOREIGN == set()
