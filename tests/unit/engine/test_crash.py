"""The n-th call of the disk fails, tears or is the last: nothing acknowledged is lost.

After each n: every acknowledged write is readable, an unacknowledged one is whole or
absent, the store verifies clean and an index made anew equals the kept one. n grows
until the operation gets through untouched.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memories.engine import files
from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.errors import EngineError, NotFound
from memories.engine.workspace import create_workspace
from tests.unit.engine.faults import (
    FAULTS,
    FailsFromThere,
    FailsOnce,
    FaultyDisk,
    FillsUp,
    ForgetsUnflushed,
    LosesPowerBefore,
    PowerLost,
    struck,
)
from tests.unit.engine.homes import (
    FakeClock,
    Home,
    make_caller,
    require_rebuilt_equal,
    scan,
)

DAY = "2026-11-30"


# --- the operations under fault: each receipt is acknowledged as it comes

Operation = Callable[[Engine], Iterator[t.Receipt]]


def append_to_ledger(engine: Engine) -> Iterator[t.Receipt]:
    yield engine.save_memory(
        make_caller(), subject="Fjord", predicate="database", object="SQLite"
    )


def append_to_day(engine: Engine) -> Iterator[t.Receipt]:
    yield engine.remember(make_caller(), statement="acknowledged words")


def append_both(engine: Engine) -> Iterator[t.Receipt]:
    yield from append_to_day(engine)
    yield from append_to_ledger(engine)


def append_after_stale_buffer(engine: Engine) -> Iterator[t.Receipt]:
    """A first entry is fresh and gone, an older one too: put back, retired, added."""
    path = engine.store.directory / "store" / f"{DAY}.md"
    path.with_name(".swp").write_bytes(b"# by hand\n")
    path.with_name(".swp").rename(path)
    yield from append_to_day(engine)


OPERATIONS = [append_both, append_after_stale_buffer]


def acknowledge(operation: Operation, engine: Engine, known: dict[str, str]) -> None:
    """Perform an operation; keep what it acknowledges until it fails."""
    with contextlib.suppress(EngineError):
        for receipt in operation(engine):
            is_fact = receipt.id.startswith("fact:")
            text = "Fjord database: SQLite" if is_fact else "acknowledged words"
            known[receipt.id] = text


def prepare(home: Home, *, is_new: bool) -> dict[str, str]:
    """Fill a workspace; return the text of each acknowledged memory by id."""
    if is_new:
        return {}
    engine = home.open()
    home.clock.move(minutes=-20)
    old = engine.remember(make_caller(), statement="old words")
    home.clock.move(minutes=20)
    fresh = engine.remember(make_caller(), statement="fresh words")
    fact = engine.save_memory(
        make_caller(), subject="Fjord", predicate="database", object="PostgreSQL"
    )
    home.close()
    return {
        old.id: "old words",
        fresh.id: "fresh words",
        fact.id: "Fjord database: PostgreSQL",
    }


def require_sound(
    home: Home, acknowledged: dict[str, str], *, may_be_retired: bool
) -> Engine:
    """Open the workspace on a sound disk and check every promise."""
    caller = make_caller()
    engine = home.open()
    scan(engine)
    gone = []
    for memory_id, text in acknowledged.items():
        try:
            assert engine.read_memory(caller, id=memory_id).text == text
        except NotFound:
            gone.append(text)
    assert gone == (["old words"] if may_be_retired and gone else [])
    if gone:
        assert engine.memory_status(caller).retired == 1
        kept = (home.directory / "retired").iterdir()
        assert any(b"\nold words\n" in path.read_bytes() for path in kept)
    texts = [
        engine.read_memory(caller, id=memory.id).text
        for memory in engine.list_recent(caller, limit=50).memories
        if memory.kind == "entry"
    ]
    assert set(texts) <= {"old words", "fresh words", "acknowledged words"}
    assert len(texts) == len(set(texts))
    said = engine.store.reports.happened
    problems = [p for p in engine.verify(caller).problems if p not in said]
    assert problems == []
    assert {p.code for p in said} <= {
        *("torn-end", "entries-put-back", "entry-retired", "scan-stopped"),
        *("not-taken-in", "retire", "index"),
    }
    require_rebuilt_equal(home, engine)
    return engine


def run_until_through(
    make_home: Callable[[], Home],
    make_disk: Callable[[int], FaultyDisk],
    operation: Operation,
    *,
    is_new: bool,
) -> int:
    """Let n grow until the operation is done without a fault. Returns that n."""
    for number in range(1, 200):
        home = make_home()
        acknowledged = prepare(home, is_new=is_new)
        before = len(acknowledged)
        disk = make_disk(number)
        with struck(home, disk) as engine:
            if engine is not None:
                acknowledge(operation, engine, acknowledged)
        if isinstance(disk, ForgetsUnflushed):
            disk.lose()
        written = set(acknowledged)
        engine = require_sound(
            *(home, acknowledged),
            may_be_retired=operation is append_after_stale_buffer,
        )
        acknowledge(operation, engine, acknowledged)
        expected = 2 if operation is append_both else 1
        assert len(acknowledged) == before + expected
        home.close()
        if not disk.has_struck:
            assert set(acknowledged) == written
            return number
    raise AssertionError("the operation never got through")


@pytest.fixture
def make_home(tmp_path: Path) -> Callable[[], Home]:
    numbers = iter(range(1_000))
    return lambda: Home(tmp_path / str(next(numbers)) / "workspace", FakeClock())


@pytest.mark.parametrize("operation", [append_to_ledger, append_to_day])
@pytest.mark.parametrize("fault", FAULTS)
def test_first_write_of_a_workspace_under_fault(
    make_home: Callable[[], Home],
    fault: type[FaultyDisk],
    operation: Operation,
):
    through = run_until_through(make_home, fault, operation, is_new=True)

    assert through > 1


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("fault", FAULTS)
def test_write_under_fault(
    make_home: Callable[[], Home],
    fault: type[FaultyDisk],
    operation: Operation,
):
    through = run_until_through(make_home, fault, operation, is_new=False)

    assert through > 1


class TearsWrite(LosesPowerBefore):
    """Power is lost in the n-th write, after `size` of its bytes."""

    def __init__(self, number: int, size: int) -> None:
        super().__init__(number)
        self.size = size
        self.length = 0

    def _turn(self, call: Callable[[], object]) -> None:
        if self.has_struck:
            raise PowerLost

    def _write(self, descriptor: int, data: bytes) -> int:
        self.count += 1
        if self.count < self.number:
            return os.write(descriptor, data)
        self.has_struck, self.length = True, len(data)
        os.write(descriptor, data[: self.size])
        raise PowerLost


@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("operation", [append_to_ledger, append_to_day])
def test_write_torn_at_many_bytes(
    make_home: Callable[[], Home],
    operation: Operation,
    is_new: bool,
):
    size, length = 0, 1
    while size <= length:
        home = make_home()
        acknowledged = prepare(home, is_new=is_new)
        disk = TearsWrite(1, size)
        with struck(home, disk) as engine:
            assert engine is not None
            acknowledge(operation, engine, acknowledged)
        assert disk.has_struck
        length = disk.length

        engine = require_sound(home, acknowledged, may_be_retired=False)

        acknowledge(operation, engine, acknowledged)
        assert len(acknowledged) == (1 if is_new else 4)
        require_rebuilt_equal(home, engine)
        home.close()
        size += 23


@pytest.mark.parametrize("size", range(0, 260, 50))
def test_write_torn_while_a_large_store_is_scanned(
    make_home: Callable[[], Home], size: int
):
    """The torn file is met long after the first answer."""
    home = make_home()
    acknowledged = prepare(home, is_new=False)
    disk = TearsWrite(1, size)
    with struck(home, disk) as engine:
        assert engine is not None
        acknowledge(append_to_day, engine, acknowledged)
    home.delete_index()
    os.utime(home.store / f"{DAY}.md", (1, 1))
    for number in range(220):
        home.write(f"{number}.md", "")

    home.open(scan_seconds=0)

    require_sound(home, acknowledged, may_be_retired=False)


@pytest.mark.parametrize("fault", [FailsOnce, FailsFromThere, FillsUp])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_engine_goes_on_after_a_fault(
    make_home: Callable[[], Home],
    fault: type[FaultyDisk],
    operation: Operation,
):
    """Not all faults end the engine: what it says afterwards holds as well."""
    for number in range(1, 200):
        home = make_home()
        acknowledged = prepare(home, is_new=False)
        disk = fault(number)
        with struck(home, disk) as engine:
            if engine is not None:
                acknowledge(operation, engine, acknowledged)
                disk.number = 1_000_000
                scan(engine)
                acknowledge(operation, engine, acknowledged)
                scan(engine)
                assert len(acknowledged) > 3
                require_rebuilt_equal(home, engine)
        require_sound(
            *(home, acknowledged),
            may_be_retired=operation is append_after_stale_buffer,
        )
        home.close()
        if not disk.has_struck:
            return
    raise AssertionError("the operation never got through")


@pytest.mark.parametrize("fault", [FailsOnce, LosesPowerBefore, ForgetsUnflushed])
def test_workspace_made_under_fault(tmp_path: Path, fault: type[FaultyDisk]):
    for number in range(1, 100):
        directory = tmp_path / str(number)
        disk = fault(number)
        is_made = False
        with contextlib.suppress(OSError, PowerLost, files.DiskFailed):
            create_workspace(directory, "id", disk)
            is_made = True
        if isinstance(disk, ForgetsUnflushed) and disk.has_struck:
            disk.lose()

        if is_made:
            Engine(directory).close()
        create_workspace(directory, "id")
        Engine(directory).close()

        if not disk.has_struck:
            return
    raise AssertionError("the workspace was never made")


def test_shared_flush_that_fails_acknowledges_nothing(
    make_home: Callable[[], Home],
):
    home = make_home()
    acknowledged = prepare(home, is_new=False)
    disk = FailsFromThere(1_000)
    engine = home.open(disk)

    def write_together() -> None:
        with engine.sharing_flushes():
            acknowledge(append_both, engine, {})
            disk.number = disk.count + 1

    with pytest.raises(files.DiskFailed):
        write_together()

    require_sound(home, acknowledged, may_be_retired=False)


def test_file_follows_the_event_to_the_disk_in_a_shared_flush(
    make_home: Callable[[], Home],
):
    """Words must not leave their file while the event that says so may be lost."""

    class Notes(files.Disk):
        def __init__(self) -> None:
            self.calls: list[str] = []

        def _flush_data(self, descriptor: int) -> None:
            self.calls.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            super()._flush_data(descriptor)

        def _rename(self, source: Path, target: Path) -> None:
            self.calls.append(target.name)
            super()._rename(source, target)

    home = make_home()
    disk = Notes()
    engine = home.open(disk)
    entry = engine.remember(make_caller(), statement="words").id
    disk.calls.clear()

    with engine.sharing_flushes():
        engine.retire_memory(make_caller(), id=entry)

    assert disk.calls.index("facts.jsonl") < disk.calls.index(f"{DAY}.md")


def test_shared_flush_flushes_each_file_once(make_home: Callable[[], Home]):
    class CountsFlushes(files.Disk):
        flushes = 0

        def _flush_data(self, descriptor: int) -> None:
            self.flushes += 1
            super()._flush_data(descriptor)

    home = make_home()
    disk = CountsFlushes()
    engine = home.open(disk)

    with engine.sharing_flushes():
        receipts = [
            engine.remember(make_caller(), statement=f"words {n}") for n in range(5)
        ]
        acknowledge(append_to_ledger, engine, {})
        before = disk.flushes

    assert (before, disk.flushes) == (0, 2)
    for number, receipt in enumerate(receipts):
        memory = engine.read_memory(make_caller(), id=receipt.id)
        assert memory.text == f"words {number}"
