"""The workspace of a test, the engine on it, and who calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from memories.engine import types as t
from memories.engine.engine import Engine
from tests.unit.engine.homes import FakeClock, Home, make_caller

# Machines are busy at times: what is slow is bounded by the tests that say so.
settings.register_profile("engine", deadline=None)
settings.load_profile("engine")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def home(tmp_path: Path, clock: FakeClock) -> Iterator[Home]:
    home = Home(tmp_path / "workspace", clock)
    yield home
    home.close()


@pytest.fixture
def engine(home: Home) -> Engine:
    return home.open()


@pytest.fixture
def claude() -> t.Caller:
    """An agent that may do all an agent may."""
    return make_caller("claude")


@pytest.fixture
def codex() -> t.Caller:
    """Another agent of the same owner."""
    return make_caller("codex")


@pytest.fixture
def reader() -> t.Caller:
    """An agent without permission to write."""
    return make_caller("reader", may_write=False)


@pytest.fixture
def guest() -> t.Caller:
    """An agent that the owner limited to one project."""
    return make_caller("guest", scopes=("project:fjord",))
