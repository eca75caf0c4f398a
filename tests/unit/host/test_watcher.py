import os
import threading
from pathlib import Path

import pytest

from memories.host import watcher
from memories.host.places import workspace_folder

ONE = "0b0e7a4e-8f0e-4a77-9d63-0f8a2f1f6d11"
TWO = "7c1f0a55-35a5-4d1c-8a3f-5a0c7f3a9e02"


class FakeNotify:
    """Stands in for the kernel: what it is to see is given to it."""

    def __init__(self, stores: list[str], is_polling: bool) -> None:
        self.stores = stores
        self.is_polling = is_polling
        self.is_open = True
        self.changes: set[tuple[int, str]] = set()

    def watch(
        self,
        debounce_ms: int,
        step_ms: int,
        timeout_ms: int,
        stop_event: threading.Event | None,
    ) -> set[tuple[int, str]] | str:
        return self.changes or "timeout"

    def close(self) -> None:
        self.is_open = False


class Kernel:
    """Makes notifies, as long as it has instances left."""

    def __init__(self, instances: int) -> None:
        self.instances = instances
        self.made: list[FakeNotify] = []

    def __call__(self, stores: list[str], force_polling: bool) -> FakeNotify:
        in_use = [n for n in self.made if n.is_open and not n.is_polling]
        if not force_polling and len(in_use) >= self.instances:
            raise OSError(24, "Too many open files")
        self.made.append(FakeNotify(stores, force_polling))
        return self.made[-1]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for workspace in (ONE, TWO):
        (workspace_folder(tmp_path, workspace) / "store").mkdir(parents=True)
    return tmp_path


def store(data: Path, workspace: str) -> str:
    return str(workspace_folder(data, workspace) / "store")


def test_poke_is_due_when_a_store_has_been_quiet():
    pending = watcher.Pending()
    pending.add(ONE, 100.0)
    pending.add(ONE, 101.0)

    assert pending.take_due(102.4) == []
    assert pending.take_due(102.5) == [ONE]
    assert pending.take_due(200.0) == []


def test_poke_is_not_put_off_for_ever_by_steady_writes():
    pending = watcher.Pending()
    for tenth in range(29):
        pending.add(ONE, 100.0 + tenth / 10)

    assert pending.take_due(102.9) == []
    assert pending.take_due(103.0) == [ONE]


def test_watcher_wakes_for_the_first_due_poke():
    pending = watcher.Pending()
    assert pending.seconds_to_next(100.0) is None

    pending.add(ONE, 100.0)
    pending.add(TWO, 101.0)

    assert pending.seconds_to_next(101.0) == 0.5


def test_change_in_a_store_names_its_workspace(data: Path):
    kernel = Kernel(instances=1)
    sight = watcher.Sight(data, kernel)
    sight.look_at([ONE, TWO])
    kernel.made[-1].changes = {
        (1, f"{store(data, TWO)}/Travel/Lisbon.md"),
        (1, f"{store(data, ONE)}/.git/index"),
        (2, f"{store(data, ONE)}/Notes/.hidden.md"),
    }

    assert sight.changed(1.0, None) == {TWO}


def test_new_set_takes_the_place_of_the_old_one(data: Path):
    kernel = Kernel(instances=1)
    sight = watcher.Sight(data, kernel)
    sight.look_at([ONE])

    sight.look_at([ONE, TWO])

    assert [notify.is_open for notify in kernel.made] == [False, True]
    assert kernel.made[-1].stores == [store(data, ONE), store(data, TWO)]
    assert sight.mode == "inotify"


def test_watcher_polls_when_inotify_is_exhausted(data: Path):
    kernel = Kernel(instances=0)
    sight = watcher.Sight(data, kernel)

    sight.look_at([ONE])

    assert sight.mode == "polling"
    assert kernel.made[-1].is_polling


def test_watcher_returns_to_inotify_when_there_is_room(data: Path):
    kernel = Kernel(instances=0)
    sight = watcher.Sight(data, kernel)
    sight.look_at([ONE])
    kernel.instances = 1

    sight.look_at([ONE, TWO])

    assert sight.mode == "inotify"
    assert not kernel.made[-1].is_polling


def test_store_that_is_gone_does_not_blind_the_others(data: Path):
    Path(store(data, ONE)).rmdir()
    kernel = Kernel(instances=1)
    sight = watcher.Sight(data, kernel)

    sight.look_at([ONE, TWO])

    assert kernel.made[-1].stores == [store(data, TWO)]


def test_nothing_awake_means_nothing_watched(data: Path):
    kernel = Kernel(instances=1)
    sight = watcher.Sight(data, kernel)
    sight.look_at([ONE])

    sight.look_at([])

    assert not kernel.made[-1].is_open
    assert sight.changed(0.0, threading.Event()) == set()


def test_name_that_is_not_utf8_does_not_blind_the_watcher(
    data: Path, capfd: pytest.CaptureFixture[str]
):
    sight = watcher.Sight(data, watcher.make_rust_notify)
    sight.look_at([ONE, TWO])
    odd = os.fsencode(store(data, TWO)) + b"/latin-\xe9.md"

    Path(os.fsdecode(odd)).write_text("olá", encoding="utf-8")
    assert sight.changed(5.0, None) == {ONE, TWO}

    Path(store(data, ONE), "after.md").write_text("seen", encoding="utf-8")
    assert sight.changed(5.0, None) == {ONE}
    assert capfd.readouterr() == ("", "")
