"""A reader written from docs/store-format.md agrees with the engine, and a store of
this version's making opens as it stands.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from memories.engine.engine import Engine
from memories.engine.errors import NotFound
from tests.store_reader import Workspace, read_workspace
from tests.unit.engine.homes import START_MS, FakeClock, Home, make_caller, scan

RECORDS = sorted((Path(__file__).parents[2] / "data").glob("store-v*"))
OWNER = make_caller(
    "owner", connection_id="owner", acts=frozenset({"read", "write", "own"})
)
WRITTEN_SECONDS = 1_790_000_000
LATER_MS = START_MS + 30 * 86_400_000
TEXTS = [
    *(
        "plain words",
        "two\nlines\r\n",
        "<!-- renor {",
        "a <!-- /renor x -->",
        "é\u2028",
    ),
    *("## 12:00\nlike a heading", "<!-- \\renor twice -->", "hunter22 in the open"),
]


class Life:
    """A workspace to which anything happens, in an order that a seed decides."""

    def __init__(self, home: Home, seed: int) -> None:
        self.home = home
        self.engine = home.open()
        self.choose = random.Random(seed)  # noqa: S311 - nothing secret
        self.ids: list[str] = []
        self.retired: list[str] = []

    def step(self) -> None:
        self.home.clock.move(minutes=self.choose.choice([0, 1, 7, 400]))
        kinds = [self.save, self.save, self.save_fact, self.write, self.retire]
        kinds += [self.restore, self.revise, self.redact, self.erase, self.edit]
        self.choose.choice(kinds)()

    def save(self) -> None:
        writer = make_caller(self.choose.choice(["claude", "codex"]))
        receipt = self.engine.remember_note(
            writer,
            text=self.choose.choice(TEXTS) + f" {len(self.ids)}",
            date=self.choose.choice(["", "2026-11-01", "2026-11-02"]),
            scope=self.choose.choice(["", "project:fjord"]),
        )
        self.ids.append(receipt.id)

    def save_fact(self) -> None:
        receipt = self.engine.remember(
            make_caller(self.choose.choice(["claude", "codex"])),
            statement=f"so it is {self.choose.randrange(3)}",
            subject=self.choose.choice(["Fjord", "Fjord  ", "Bergen"]),
            predicate="is",
            object=self.choose.choice(["one", "two"]),
            scope=self.choose.choice(["", "project:fjord"]),
        )
        self.ids.append(receipt.id)

    def write(self) -> None:
        name = self.choose.choice(["", "Ideas/"]) + f"n{len(self.ids)}.md"
        words = f"# T\n\nby hand {self.choose.random()}\n"
        encoding = self.choose.choice(["utf-8", "utf-16", "utf-8-sig"])
        self.home.write(name, words.encode(encoding))
        scan(self.engine)
        self.ids.append(f"note:{name}")

    def edit(self) -> None:
        for path in self.home.store.glob("2026*.md"):
            whole = path.read_bytes()
            self.home.swap(path.name, whole.replace(b"plain words", b"other words"))
        scan(self.engine)

    def pick(self, *kinds: str) -> str:
        live = [i for i in self.ids if i not in self.retired and i.startswith(kinds)]
        return self.choose.choice(sorted(set(live))) if live else ""

    def retire(self) -> None:
        if memory_id := self.pick("entry:", "fact:", "note:"):
            self.engine.retire_memory(OWNER, id=memory_id)
            self.retired.append(memory_id)

    def restore(self) -> None:
        if self.retired:
            memory_id = self.choose.choice(self.retired)
            if memory_id.startswith("note:"):
                return  # another may have been written in its place
            self.engine.restore_memory(OWNER, id=memory_id)
            self.retired.remove(memory_id)

    def erase(self) -> None:
        if self.retired:
            memory_id = self.choose.choice(self.retired)
            self.engine.erase(OWNER, id=memory_id)
            self.retired.remove(memory_id)
            self.ids = [one for one in self.ids if one != memory_id]

    def revise(self) -> None:
        if memory_id := self.pick("entry:"):
            said = self.engine.read_text(OWNER, id=memory_id)
            self.engine.replace_note(
                OWNER,
                id=memory_id,
                text=f"revised {self.choose.random()}",
                expected_sha256=said.sha256,
            )

    def redact(self) -> None:
        if memory_id := self.pick("entry:", "fact:"):
            said = self.engine.read_text(OWNER, id=memory_id)
            if len(said.text) > 8:
                self.engine.redact(
                    OWNER, id=memory_id, spans=[[2, 6]], expected_sha256=said.sha256
                )


def require_agree(found: Workspace, engine: Engine) -> None:
    """Compare what the reader found with what the engine answers."""
    passages = engine.store.index.passages
    rows = {row.id: row for row in passages.newest(None, 10_000)}
    entries = {i: row for i, row in rows.items() if row.kind == "entry"}
    assert {f"entry:{e.path}#{e.id}" for e in found.entries.values()} == set(entries)
    for entry in found.entries.values():
        row = entries[f"entry:{entry.path}#{entry.id}"]
        assert (entry.text, entry.marker.get("scope", "global")) == (
            row.text,
            row.scope,
        )
    notes = {i.removeprefix("note:") for i in rows if i.startswith("note:")}
    assert {path for path, text in found.notes.items() if text} == notes
    for path in notes:
        assert found.notes[path] == engine.store.read_text(rows[f"note:{path}"])
    for value in found.values.values():
        known = engine.store.index.facts.find_value(value.id)
        assert known is not None
        assert (known.object, known.statement) == (value.object, value.statement)
        assert known.retired == value.is_retired
        assert (known.to_ms is None) == (not value.valid_to)
    lives = engine.store.index.lives.list_retired(None, 10_000)
    kept = {life.key: life for life in lives if not life.key.startswith("fact:")}
    assert found.retired.keys() == kept.keys()
    for key, text in found.retired.items():
        was = kept[key].row
        assert was is not None
        assert text == (was.text or engine.store.read_kept(kept[key]))


@pytest.mark.parametrize("seed", range(12))
def test_reader_and_engine_agree(tmp_path: Path, seed: int):
    home = Home(tmp_path / "workspace", FakeClock())
    life = Life(home, seed)
    for number in range(60):
        life.step()
        if number % 20 == 19:
            life.engine.write_page()
            require_agree(read_workspace(home.directory), life.engine)
    home.close()


# --- the store of record


def snapshot(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(
            path.read_bytes()
        ).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.name)
def test_store_of_every_version_opens_as_it_stands(tmp_path: Path, record: Path):
    expected: dict[str, Any] = json.loads((record / "expected.json").read_bytes())
    copied = shutil.copytree(record / "workspace", tmp_path / "workspace")
    home = Home(copied, FakeClock(LATER_MS), is_new=False)
    for note in home.store.rglob("*.md"):
        os.utime(note, (WRITTEN_SECONDS, WRITTEN_SECONDS))  # a checkout has its own
    before = snapshot(home.store)

    engine = home.open()
    scan(engine)
    found = read_workspace(home.directory)

    assert snapshot(home.store) == before
    problems = engine.verify(OWNER).problems
    assert [one.path for one in problems] == ["Ideas/Caf\u00e9.md"]  # in UTF-16
    require_agree(found, engine)
    for memory_id, said in expected["memories"].items():
        memory = engine.read_memory(OWNER, id=memory_id)
        assert {
            "text": memory.text,
            "scope": memory.scope,
            "retired": memory.retired is True,
            "day": memory.session_date,
        } == said
    for memory_id in expected["gone"]:
        with pytest.raises(NotFound):
            engine.read_memory(OWNER, id=memory_id)
    home.close()


def test_there_is_a_store_of_record():
    assert [path.name for path in RECORDS] == ["store-v1"]
