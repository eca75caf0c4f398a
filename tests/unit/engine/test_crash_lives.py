"""The n-th call of the disk fails, tears or is the last: lives are whole all the same.

After each n a sound disk is opened: what was acknowledged stands, what was not is
wholly done or wholly absent, words are never in neither place, and an erasure that the
ledger has decided finishes by itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from memories.engine import files
from memories.engine.engine import Engine
from memories.engine.errors import EngineError, NotFound
from tests.unit.engine.faults import (
    FAULTS,
    FailsFromThere,
    FaultyDisk,
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

DAY = "2026-11-30.md"
NOTE = "Ideas/Über zebras.md"
WORD = "zebra"
SECRET = "hunter22"

OWNER = make_caller(
    "owner", connection_id="owner", acts=frozenset({"read", "write", "own"})
)

Act = Callable[[Home, Engine, list[str]], None]
"""Does a case's operation, which may have been done already; raises EngineError."""


@dataclass(frozen=True)
class Case:
    """`prepare` returns the ids of the memories concerned, the first the one changed.

    `gone` are words that no file holds once the operation is done; `decides` is the
    kind of the event after which it finishes by itself, "" where only a receipt counts.
    """

    name: str
    prepare: Callable[[Home, Engine], list[str]]
    act: Act
    gone: tuple[str, ...] = ()
    decides: str = ""


def prepare_entry(home: Home, engine: Engine) -> list[str]:
    before = engine.remember(make_caller(), statement="other words")
    entry = engine.remember(make_caller(), statement=f"the {WORD} is {SECRET}\n\n## 12")
    after = engine.remember(make_caller(), statement="more words")
    home.write(f"copy/{DAY}", (home.store / DAY).read_bytes())
    return [entry.id, before.id, after.id]


def prepare_note(home: Home, engine: Engine) -> list[str]:
    file = home.write(NOTE, f"# one {WORD}\r\n\r\nthe key is {SECRET}\r\n")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    home.write("Ideas/other.md", "other words")
    return [f"note:{NOTE}", "note:Ideas/other.md"]


def prepare_fact(home: Home, engine: Engine) -> list[str]:
    def save(name: str, object: str, statement: str) -> str:
        return engine.remember(
            make_caller(name),
            subject="Fjord",
            predicate="key",
            object=object,
            statement=statement,
        ).id

    first = save("claude", "none", "there was none")
    value = save("claude", f"{SECRET} {WORD}", f"the {WORD} key is {SECRET}")
    save("codex", f"{SECRET} {WORD}", f"I too: {SECRET} of the {WORD}")
    other = engine.save_memory(
        make_caller(), subject="Bergen", predicate="is", object="a town"
    )
    return [value, first, other.id]


def with_earlier_texts(
    prepare: Callable[[Home, Engine], list[str]],
) -> Callable[[Home, Engine], list[str]]:
    def prepared(home: Home, engine: Engine) -> list[str]:
        ids = prepare(home, engine)
        scan(engine)
        memory = engine.read_memory(OWNER, id=ids[0])
        for text in ("plain words", memory.text):
            said = engine.read_memory(OWNER, id=ids[0])
            engine.replace_note(
                OWNER, id=ids[0], text=text, expected_sha256=str(said.sha256)
            )
        return ids

    return prepared


def retired(
    prepare: Callable[[Home, Engine], list[str]],
) -> Callable[[Home, Engine], list[str]]:
    def prepared(home: Home, engine: Engine) -> list[str]:
        ids = prepare(home, engine)
        scan(engine)
        engine.retire_memory(OWNER, id=ids[0])
        return ids

    return prepared


def prepare_old_entry(home: Home, engine: Engine) -> list[str]:
    ids = prepare_entry(home, engine)
    (home.store / f"copy/{DAY}").unlink()
    home.clock.move(minutes=11)
    return ids


def retired_by_hand(home: Home, engine: Engine) -> list[str]:
    ids = prepare_old_entry(home, engine)
    scan(engine)
    cut_by_hand(home, engine, ids)
    return ids


def retire(home: Home, engine: Engine, ids: list[str]) -> None:
    assert engine.retire_memory(OWNER, id=ids[0]).action == "retired"


def cut_by_hand(home: Home, engine: Engine, ids: list[str]) -> None:
    whole = (home.store / DAY).read_bytes()
    entry = ids[0].rpartition("#")[2].encode()
    if b'{"id":"' + entry in whole:
        start = whole.rindex(b"## 12:00", 0, whole.index(b'{"id":"' + entry))
        end = whole.index(b"<!-- /renor " + entry + b" -->\n") + len(entry) + 17
        home.swap(DAY, whole[:start] + whole[end:])
    scan(engine)


def restore(home: Home, engine: Engine, ids: list[str]) -> None:
    assert engine.restore_memory(OWNER, id=ids[0]).action == "restored"


def replace(home: Home, engine: Engine, ids: list[str]) -> None:
    said = engine.read_memory(OWNER, id=ids[0])
    answer = engine.replace_note(
        OWNER, id=ids[0], text="giraffes", expected_sha256=str(said.sha256)
    )
    assert answer.ok


def redact(home: Home, engine: Engine, ids: list[str]) -> None:
    text = engine.read_memory(OWNER, id=ids[0]).text
    if SECRET in text:
        start = text.index(SECRET)
        spans = [[start, start + len(SECRET)]]
        assert engine.redact(OWNER, id=ids[0], spans=spans).ok


def erase(home: Home, engine: Engine, ids: list[str]) -> None:
    try:
        assert engine.erase(OWNER, id=ids[0]).ok
    except NotFound:
        if not ids[0].startswith("note:"):  # whose name is gone too
            raise


STRIDES: dict[type[FaultyDisk], int] = {FailsFromThere: 3, LosesPowerBefore: 3}
"""Faults that leave the disk as another of FAULTS does: every third call is enough."""

CASES = [
    Case("retire entry", prepare_entry, retire),
    Case("retire note", prepare_note, retire),
    Case("retire fact", prepare_fact, retire),
    Case("retire by hand", prepare_old_entry, cut_by_hand),
    Case("restore entry", retired(prepare_entry), restore),
    Case("restore note", retired(prepare_note), restore),
    Case("restore fact", retired(prepare_fact), restore),
    Case("restore from hand", retired_by_hand, restore),
    Case("replace entry", prepare_entry, replace),
    Case("replace note", prepare_note, replace),
    Case(
        "redact entry", with_earlier_texts(prepare_entry), redact, (SECRET,), "redact"
    ),
    Case("redact note", with_earlier_texts(prepare_note), redact, (SECRET,), "redact"),
    Case("redact fact", prepare_fact, redact, (SECRET,), "redact"),
    Case(
        "erase entry",
        retired(with_earlier_texts(prepare_entry)),
        erase,
        (WORD, SECRET),
        "erase",
    ),
    Case(
        "erase note",
        retired(with_earlier_texts(prepare_note)),
        erase,
        (WORD, SECRET),
        "erase",
    ),
    Case("erase fact", retired(prepare_fact), erase, (WORD, SECRET), "erase"),
]


def leaks(home: Home, words: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return where under the workspace folder any of the words stand, names too."""
    found = []
    for path in home.directory.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        name = str(path.relative_to(home.directory))
        found += [
            (word, name) for word in words if word in name or word.encode() in data
        ]
    return found


def view(home: Home, engine: Engine, ids: list[str]) -> dict[str, object]:
    """Return what a user meets: memories, what is found, the files."""
    scan(engine)
    memories: dict[str, tuple[object, ...]] = {}
    for one in ids:
        try:
            memory = engine.read_memory(OWNER, id=one)
            memories[one] = (memory.text, memory.retired, memory.redacted)
        except NotFound:
            memories[one] = ("", True, "not found")
    found = {
        one.id
        for word in (WORD, SECRET, "giraffes", "words")
        for one in engine.search_text(OWNER, query=word).hits
    }
    facts = engine.retrieve_memory(OWNER, subject="Fjord", include_history=True).facts
    status = engine.memory_status(OWNER)
    return {
        "memories": memories,
        "found": sorted(found),
        "facts": [(f.id, f.object, f.statement, f.current) for f in facts],
        "counts": (status.entries, status.notes, status.facts, status.retired),
        "files": {
            str(path.relative_to(home.store)): path.read_bytes()
            for path in home.store.rglob("*.md")
            if path.name != "Facts.md"
        },
    }


def fill(home: Home, case: Case) -> list[str]:
    engine = home.open()
    ids = case.prepare(home, engine)
    scan(engine)
    engine.write_page()
    home.close()
    return ids


def has_event(home: Home, kind: str) -> bool:
    ledger = home.store / "facts.jsonl"
    lines = ledger.read_bytes().split(b"\n")[:-1] if ledger.exists() else []
    return any(f'"kind":"{kind}"'.encode() in line for line in lines)


def require_whole(
    home: Home, case: Case, ids: list[str], *, views: list[object], is_done: bool
) -> None:
    """Open on a sound disk and check every promise; then do it again."""
    is_done = is_done or bool(case.decides and has_event(home, case.decides))
    engine = home.open()
    seen = view(home, engine, ids)
    assert seen == views[1] if is_done else seen in views
    if seen == views[1]:
        assert leaks(home, case.gone) == []
    require_sound(home, engine)
    case.act(home, engine, ids)
    assert view(home, engine, ids) == views[1]
    assert leaks(home, case.gone) == []
    if seen != views[1]:
        require_sound(home, engine)
    home.close()


def require_sound(home: Home, engine: Engine) -> None:
    said = engine.store.reports.happened
    problems = [p for p in engine.verify(OWNER).problems if p not in said]
    assert [p for p in problems if "another file" not in p.message] == []
    codes = {p.code for p in said} - {
        *("torn-end", "entry-retired", "scan-stopped", "not-taken-in", "retire"),
        *("index", "erasing", "retired-missing"),
    }
    assert codes == set()
    require_rebuilt_equal(home, engine)


@pytest.fixture
def make_home(tmp_path: Path) -> Callable[[], Home]:
    numbers = iter(range(1_000))
    return lambda: Home(tmp_path / str(next(numbers)) / "workspace", FakeClock())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("fault", FAULTS)
def test_lives_under_fault(
    make_home: Callable[[], Home], fault: type[FaultyDisk], case: Case
):
    run_until_through(make_home, fault, case, stride=STRIDES.get(fault, 1))


# Without an index nobody knows what a hand made vanish: docs/decisions/0002.
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.name != "retire by hand"],
    ids=lambda case: case.name,
)
@pytest.mark.parametrize("is_older", [True, False], ids=["older", "none"])
def test_lives_when_power_takes_the_index_too(
    make_home: Callable[[], Home], case: Case, *, is_older: bool
):
    """SQLite's last commits may be lost with the power, or all of the index."""

    def lose(home: Home, before: dict[Path, bytes]) -> None:
        home.delete_index()
        for path, data in before.items() if is_older else ():
            path.write_bytes(data)

    run_until_through(make_home, ForgetsUnflushed, case, lose_index=lose, stride=2)


def run_until_through(
    make_home: Callable[[], Home],
    fault: type[FaultyDisk],
    case: Case,
    *,
    lose_index: Callable[[Home, dict[Path, bytes]], None] = lambda home, before: None,
    stride: int = 1,
) -> None:
    """Let n grow until the operation is done without a fault."""
    home = make_home()
    ids = fill(home, case)
    engine = home.open()
    views: list[object] = [view(home, engine, ids)]
    case.act(home, engine, ids)
    views.append(view(home, engine, ids))
    home.close()

    for number in range(1, 300, stride):
        home = make_home()
        assert fill(home, case) == ids
        index = {path: path.read_bytes() for path in home.directory.glob("index.*")}
        disk = fault(number)
        is_done = False
        with struck(home, disk) as struck_engine, contextlib.suppress(EngineError):
            if struck_engine is not None:
                case.act(home, struck_engine, ids)
                is_done = True
        home.close()
        if isinstance(disk, ForgetsUnflushed):
            disk.lose()
        lose_index(home, index)
        require_whole(home, case, ids, views=views, is_done=is_done)
        if not disk.has_struck:
            assert is_done
            return
    raise AssertionError("the operation never got through")


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.decides], ids=lambda case: case.name
)
def test_power_lost_while_the_index_is_thrown_away(
    make_home: Callable[[], Home], case: Case, monkeypatch: pytest.MonkeyPatch
):
    home = make_home()
    ids = fill(home, case)
    engine = home.open()
    case.act(home, engine, ids)
    views: list[object] = [None, view(home, engine, ids)]
    home.close()
    unlink_now = Path.unlink
    for number in range(1, 10):
        home = make_home()
        assert fill(home, case) == ids
        turns = iter(range(1, 100))

        def unlink(path: Path, missing_ok: bool = False, due: int = number) -> None:
            if next(turns) == due:  # noqa: B023 - of this round
                raise PowerLost
            unlink_now(path, missing_ok=missing_ok)

        is_done = False
        with struck(home, files.Disk()) as struck_engine, monkeypatch.context() as now:
            now.setattr(Path, "unlink", unlink)
            assert struck_engine is not None
            case.act(home, struck_engine, ids)
            is_done = True
        require_whole(home, case, ids, views=views, is_done=True)
        if is_done:
            assert number > 3
            return
    raise AssertionError("the operation never got through")
