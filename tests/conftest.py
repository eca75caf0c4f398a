"""Marks by folder, the people of the stories, and the services that tests may need.

A test that needs an absent service is skipped, with one line for all of them; where
CI=true the run fails instead.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from accounts.models import User
from tests import factories, services
from workspaces.models import Connection, Workspace

IS_CI = os.environ.get("CI") == "true"
KINDS = ("unit", "integration", "browser", "bench")
ABSENT = pytest.StashKey[Counter[str]]()


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    config.stash[ABSENT] = Counter()
    found = {name: service.find() for name, service in services.SERVICES.items()}
    for item in items:
        kind = item.path.relative_to(Path(__file__).parent).parts[0]
        if kind in KINDS:
            item.add_marker(kind)
        for name in getattr(item, "fixturenames", ()):
            if name in found and not found[name]:
                package = services.SERVICES[name].package
                config.stash[ABSENT][package] += 1
                item.add_marker(pytest.mark.skip(reason=f"{package} is absent"))
    if IS_CI and config.stash[ABSENT]:
        raise pytest.UsageError("\n".join(_absent_lines(config)))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in _absent_lines(config):
        terminalreporter.write_line(line, yellow=True)


def _absent_lines(config: pytest.Config) -> list[str]:
    return [
        f"{package} is absent: {count} tests that need it are "
        f"{'not possible' if IS_CI else 'skipped'}; apt-get install {package}"
        for package, count in sorted(config.stash.get(ABSENT, Counter()).items())
    ]


@dataclass(frozen=True, slots=True)
class Agent:
    """A connection, with the token that its owner saw once."""

    connection: Connection
    token: str


@dataclass(frozen=True, slots=True)
class Person:
    """An owner as the stories know them; `agents` by name."""

    user: User
    workspace: Workspace
    agents: dict[str, Agent] = field(default_factory=dict)


@pytest.fixture
def alice(db: None) -> Person:
    """The owner of most stories, with two agents that may write."""
    return _make_person("alice@example.org", ("claude", "codex"))


@pytest.fixture
def bob(db: None) -> Person:
    """Another owner, who may see nothing of alice's."""
    return _make_person("bob@example.org", ("claude",))


def _make_person(email: str, agents: tuple[str, ...]) -> Person:
    user = factories.make_user(email)
    workspace = Workspace.objects.get(owner=user)
    return Person(
        user=user,
        workspace=workspace,
        agents={name: Agent(*factories.make_agent(workspace, name)) for name in agents},
    )


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder for sockets: their paths have 108 bytes, and tmp_path may need most."""
    with tempfile.TemporaryDirectory(prefix="renor-") as folder:
        yield Path(folder)


@pytest.fixture
def redis_server(short_folder: Path) -> Iterator[str]:
    """The URL of a private Redis."""
    binary = services.find_redis()
    assert binary is not None  # a test that asks for it is skipped without
    with services.run_redis(binary, short_folder) as url:
        yield url


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The DATABASE_URL of a private PostgreSQL."""
    programs = services.find_postgresql()
    assert programs is not None
    with (
        tempfile.TemporaryDirectory(prefix="renor-") as folder,
        services.run_postgresql(programs, Path(folder)) as url,
    ):
        yield url


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the system's Chromium."""
    found = services.find_chromium()
    assert found is not None
    return found
