"""Any order of saves, lives, hands, clocks and reopenings equals a model of dicts."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from memories.engine import hidden, rules
from memories.engine.errors import Conflict
from memories.engine.keeping import STALE_BUFFER_MS
from tests.unit.engine.homes import (
    FakeClock,
    Home,
    make_caller,
    require_rebuilt_equal,
    scan,
)

LATER = 2_000_000_000
"""Seconds: what a hand writes here is newer than what the engine has written."""

TEXTS = ["zebra", "horse\r\n", "<!-- renor {", "é\n\n## 12:00\n", "a <!-- /renor x"]
SUBJECTS = ["Fjord", "Bergen"]
OBJECTS = ["SQLite", "PostgreSQL", "Go"]
SENTENCES = ["", "so it is", "indeed"]
NOTES = ["n.md", "Ideas/m.md", "Ideas/\u00e9.md"]
SECRET = re.compile(r"secret\d+qx")
REDACTED = "[redacted]"

OWNER = make_caller(
    "owner", connection_id="owner", acts=frozenset({"read", "write", "own"})
)


@dataclass
class Entry:
    """`words` are the secrets it has ever held; `put_away` is its file before and after
    it was retired by a tool.
    """

    said: str
    at_ms: int
    text: str
    words: set[str] = field(default_factory=set)
    is_revised: bool = False
    is_by_tool: bool = False
    put_away: tuple[bytes, bytes] = (b"", b"")


@dataclass
class Value:
    id: str
    object: str
    from_ms: int
    statement: str = ""
    sentences: set[str] = field(default_factory=set)
    state: str = "live"
    words: set[str] = field(default_factory=set)


@dataclass
class Note:
    """`earlier` are the texts that the owner has replaced, oldest first."""

    text: str
    words: set[str]
    earlier: list[str] = field(default_factory=list)


@dataclass
class Buffer:
    """A day log as an editor has it: its bytes, and each entry's said and text."""

    path: str
    whole: bytes
    entries: dict[str, Entry]


class WorkspaceMachine(RuleBasedStateMachine):
    @initialize()
    def open_first(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="renor-")
        self.home = Home(Path(self.folder.name) / "workspace", FakeClock())
        self.engine = self.home.open()
        self.caller = make_caller()
        self.entries: dict[str, Entry] = {}
        self.retired: dict[str, Entry] = {}
        self.values: dict[str, list[Value]] = {}
        self.buffer: Buffer | None = None
        self.last_ms = 0
        self.notes: dict[str, Note] = {}
        self.retired_notes: dict[str, tuple[str, Note]] = {}
        self.gone: set[str] = set()
        self.count = 0

    def secret(self) -> str:
        self.count += 1
        return f"secret{self.count}qx"

    def teardown(self) -> None:
        if hasattr(self, "home"):
            try:
                self.check()
                require_rebuilt_equal(self.home, self.engine)
                self.check()
            finally:
                self.home.close()
                self.folder.cleanup()

    # --- saving

    @rule(text=st.sampled_from([*TEXTS, ""]))
    def remember(self, text: str) -> None:
        text = text or f"the key is {self.secret()}, so"
        earlier = self.find_retry(text)

        receipt = self.engine.remember(self.caller, statement=text)

        if earlier:
            assert (receipt.action, receipt.id) == ("nochange", earlier)
            return
        at_ms = rules.parse_moment("at", receipt.at)
        assert receipt.action == "store"
        assert receipt.id not in self.entries
        assert at_ms > self.last_ms
        self.last_ms = at_ms
        words = set(SECRET.findall(text))
        self.entries[receipt.id] = Entry(text, at_ms, text, words)

    def find_retry(self, text: str) -> str:
        since = max(self.home.clock.now_ms, self.last_ms) - 60_000
        matching = [
            memory_id
            for memory_id, entry in self.entries.items()
            if entry.said == entry.text == text
            and entry.at_ms >= since
            and not entry.is_revised
        ]
        return min(matching, default="", key=lambda one: self.entries[one].at_ms)

    @rule(
        subject=st.sampled_from(SUBJECTS),
        object=st.sampled_from([*OBJECTS, ""]),
        sentence=st.sampled_from(SENTENCES),
    )
    def save(self, subject: str, object: str, sentence: str) -> None:
        object = object or f"a {self.secret()}"
        values = self.values.setdefault(subject, [])
        current = values[-1] if values and values[-1].state == "live" else None

        said = {"subject": subject, "predicate": "is", "object": object}
        if sentence:
            receipt = self.engine.remember(self.caller, statement=sentence, **said)
        else:
            receipt = self.engine.save_memory(self.caller, **said)

        at_ms = rules.parse_moment("at", receipt.at)
        if current and current.object == object:
            assert (receipt.action, receipt.id) == ("nochange", current.id)
            if sentence and sentence not in current.sentences:
                current.statement = sentence
                current.sentences.add(sentence)
                self.note_time(at_ms)
            return
        assert receipt.action == ("supersede" if current else "store")
        assert receipt.supersedes == ([current.id] if current else [])
        self.note_time(at_ms)
        sentences = {sentence} - {""}
        words = set(SECRET.findall(object))
        value = Value(receipt.id, object, at_ms, sentence, sentences, words=words)
        values.append(value)

    def note_time(self, at_ms: int) -> None:
        assert at_ms > self.last_ms
        self.last_ms = at_ms

    # --- lives

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def retire_entry(self, data: st.DataObject) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.entries)))
        file = self.file_of(memory_id)
        before = file.read_bytes()
        answer = self.engine.retire_memory(self.caller, id=memory_id)
        entry = self.entries.pop(memory_id)
        entry.is_by_tool, entry.put_away = True, (before, file.read_bytes())
        assert (answer.id, answer.action) == (memory_id, "retired")
        assert entry.put_away[0] != entry.put_away[1]
        self.retired[memory_id] = entry
        self.last_ms = self.newest_ms()

    @precondition(lambda self: self.retired)
    @rule(data=st.data())
    def restore_entry(self, data: st.DataObject) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.retired)))
        file = self.file_of(memory_id)
        found = file.read_bytes()
        answer = self.engine.restore_memory(self.caller, id=memory_id)
        entry = self.retired.pop(memory_id)
        assert (answer.id, answer.action) == (memory_id, "restored")
        if entry.is_by_tool and found == entry.put_away[1]:
            assert file.read_bytes() == entry.put_away[0]
        entry.is_by_tool = False
        self.entries[memory_id] = entry
        self.last_ms = self.newest_ms()

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def replace_entry(self, data: st.DataObject) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.entries)))
        entry = self.entries[memory_id]
        text = f"other {self.secret()}"
        self.replace(memory_id, text)
        entry.said = entry.text = text
        entry.is_revised = True
        entry.words |= set(SECRET.findall(text))

    def replace(self, memory_id: str, text: str) -> None:
        scan(self.engine)
        before = self.engine.read_text(OWNER, id=memory_id)
        answer = self.engine.replace_note(
            OWNER, id=memory_id, text=text, expected_sha256=before.sha256
        )
        version = self.engine.read_version(
            OWNER, id=memory_id, event_id=answer.event_id
        )
        assert version.text == before.text
        self.last_ms = self.newest_ms()

    @precondition(
        lambda self: any(SECRET.search(e.text) for e in self.entries.values())
    )
    @rule(data=st.data())
    def redact_entry(self, data: st.DataObject) -> None:
        having = {one for one, e in self.entries.items() if SECRET.search(e.text)}
        memory_id = data.draw(st.sampled_from(sorted(having)))
        entry = self.entries[memory_id]
        entry.said = entry.text = self.redact(memory_id, entry.text)

    def redact(self, memory_id: str, text: str) -> str:
        found = SECRET.search(text)
        assert found
        self.close_buffer_with(found.group())
        whole = self.engine.read_text(OWNER, id=memory_id)
        start = whole.text.index(found.group())
        self.engine.redact(
            OWNER,
            id=memory_id,
            spans=[[start, start + len(found.group())]],
            expected_sha256=whole.sha256,
        )
        self.gone.add(found.group())
        self.last_ms = self.newest_ms()
        return text.replace(found.group(), REDACTED)

    def close_buffer_with(self, *words: str) -> None:
        """What a person saves again from an older copy is a person's."""
        held = self.buffer.whole if self.buffer else b""
        if any(word.encode() in held for word in words):
            self.buffer = None

    @precondition(lambda self: self.retired)
    @rule(data=st.data())
    def erase_entry(self, data: st.DataObject) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.retired)))
        buffered = self.buffer.entries.get(memory_id) if self.buffer else None
        if buffered and buffered.said != buffered.text:
            self.buffer = None
        self.engine.erase(OWNER, id=memory_id)
        self.gone |= self.retired.pop(memory_id).words
        self.last_ms = self.newest_ms()

    def values_in(self, state: str) -> list[str]:
        every = [value for values in self.values.values() for value in values]
        return sorted(value.id for value in every if value.state == state)

    def value(self, value_id: str) -> Value:
        every = [value for values in self.values.values() for value in values]
        return next(value for value in every if value.id == value_id)

    @precondition(lambda self: self.values_in("live"))
    @rule(data=st.data())
    def retire_fact(self, data: st.DataObject) -> None:
        value_id = data.draw(st.sampled_from(self.values_in("live")))
        self.engine.retire_memory(self.caller, id=value_id)
        self.value(value_id).state = "retired"
        self.last_ms = self.newest_ms()

    @precondition(lambda self: self.values_in("retired"))
    @rule(data=st.data())
    def restore_fact(self, data: st.DataObject) -> None:
        value_id = data.draw(st.sampled_from(self.values_in("retired")))
        self.engine.restore_memory(self.caller, id=value_id)
        self.value(value_id).state = "live"
        self.last_ms = self.newest_ms()

    @precondition(lambda self: self.values_in("retired"))
    @rule(data=st.data())
    def erase_fact(self, data: st.DataObject) -> None:
        value_id = data.draw(st.sampled_from(self.values_in("retired")))
        self.engine.erase(OWNER, id=value_id)
        value = self.value(value_id)
        value.state = "erased"
        self.gone |= value.words
        self.last_ms = self.newest_ms()

    @precondition(lambda self: self.values_in("live"))
    @rule(data=st.data())
    def redact_fact(self, data: st.DataObject) -> None:
        value = self.value(data.draw(st.sampled_from(self.values_in("live"))))
        text = value.statement or value.object
        if REDACTED in text:
            return
        self.engine.redact(OWNER, id=value.id, spans=[[0, len(text)]])
        self.last_ms = self.newest_ms()
        if value.statement:
            value.sentences = (value.sentences - {text}) | {REDACTED}
            value.statement = REDACTED
        else:
            value.object = REDACTED
            self.gone |= value.words

    # --- notes, by hand and by the owner

    @rule(path=st.sampled_from(NOTES), is_new=st.booleans())
    def write_note(self, path: str, *, is_new: bool) -> None:
        known = self.notes.get(path)
        earlier = known.earlier if known else []
        # The same bytes in two places and earlier texts: who moved where is a guess.
        is_new = is_new or bool(earlier)
        text = f"# note\r\n\r\n{self.secret()}\r\n" if is_new else "same words"
        file = self.home.write(path, text)
        self.count += 1
        os.utime(file, (LATER + self.count, LATER + self.count))
        scan(self.engine)
        words = set(SECRET.findall(text)) | (
            known.words if earlier and known else set()
        )
        self.notes[path] = Note(text, words, earlier)

    @precondition(lambda self: self.notes)
    @rule(data=st.data())
    def delete_note(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.notes)))
        (self.home.store / path).unlink()
        note = self.notes.pop(path)
        scan(self.engine)
        if note.earlier:
            life = self.engine.store.index.lives.find(f"note:{path}")
            assert life
            was = Note(note.earlier[-1], note.words, note.earlier)
            self.retired_notes[life.key] = (path, was)
            self.last_ms = self.newest_ms()

    @precondition(lambda self: self.notes)
    @rule(data=st.data(), now=st.sampled_from(NOTES))
    def rename_note(self, data: st.DataObject, now: str) -> None:
        path = data.draw(st.sampled_from(sorted(self.notes)))
        if now in self.notes or self.notes[path].text == "same words":
            return
        scan(self.engine)
        (self.home.store / now).parent.mkdir(exist_ok=True)
        (self.home.store / path).rename(self.home.store / now)
        self.notes[now] = self.notes.pop(path)
        scan(self.engine)

    @precondition(lambda self: self.notes)
    @rule(data=st.data())
    def replace_note(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.notes)))
        note = self.notes[path]
        text = f"other\n{self.secret()}\n"
        note.earlier.append(note.text)
        self.replace(f"note:{path}", text)
        # The file's line ends are those it had.
        note.text = (self.home.store / path).read_bytes().decode()
        assert note.text.replace("\r\n", "\n") == text
        note.words |= set(SECRET.findall(text))

    @precondition(lambda self: any(SECRET.search(n.text) for n in self.notes.values()))
    @rule(data=st.data())
    def redact_note(self, data: st.DataObject) -> None:
        having = {one for one, n in self.notes.items() if SECRET.search(n.text)}
        path = data.draw(st.sampled_from(sorted(having)))
        note = self.notes[path]
        expected = SECRET.sub(REDACTED, note.text)
        (word,) = SECRET.findall(note.text)
        self.redact(f"note:{path}", note.text.replace("\r\n", "\n"))
        note.earlier = [text for text in note.earlier if word not in text]
        note.text = expected
        assert (self.home.store / path).read_bytes() == expected.encode()

    @precondition(lambda self: self.notes)
    @rule(data=st.data())
    def retire_note(self, data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(sorted(self.notes)))
        answer = self.engine.retire_memory(self.caller, id=f"note:{path}")
        assert not (self.home.store / path).exists()
        key = f"note:{path}@{answer.event_id}"
        self.retired_notes[key] = (path, self.notes.pop(path))
        self.last_ms = self.newest_ms()

    @precondition(lambda self: self.retired_notes)
    @rule(data=st.data())
    def restore_note(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.retired_notes)))
        path, note = self.retired_notes[key]
        if path in self.notes:
            with pytest.raises(Conflict):
                self.engine.restore_memory(self.caller, id=key)
            return
        self.engine.restore_memory(self.caller, id=key)
        self.last_ms = self.newest_ms()
        del self.retired_notes[key]
        self.notes[path] = note
        assert (self.home.store / path).read_bytes() == note.text.encode()

    @precondition(lambda self: self.retired_notes)
    @rule(data=st.data())
    def erase_note(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.retired_notes)))
        self.engine.erase(OWNER, id=key)
        self.gone |= self.retired_notes.pop(key)[1].words
        self.last_ms = self.newest_ms()

    def file_of(self, memory_id: str) -> Path:
        path = memory_id.removeprefix("entry:").partition("#")[0]
        return self.home.store / path

    # --- the engine's own life

    @rule()
    def reopen(self) -> None:
        self.engine = self.home.open()

    @rule()
    def reopen_without_index(self) -> None:
        self.home.close()
        self.home.delete_index()
        self.engine = self.home.open(scan_seconds=0)

    @rule()
    def rebuild_index(self) -> None:
        self.engine.store.rebuild_index()

    @rule()
    def look(self) -> None:
        scan(self.engine)

    @rule(seconds=st.sampled_from([0.001, 1, 30, 61, 400, 700, 86_400, -5, -90_000]))
    def move_clock(self, seconds: float) -> None:
        self.home.clock.move(seconds=seconds)

    # --- other hands

    def ids_of(self, path: str) -> list[str]:
        return [one for one in self.entries if one.startswith(f"entry:{path}#")]

    @precondition(lambda self: self.entries)
    @rule(data=st.data(), word=st.sampled_from(["edited", "words\nof two", "secret"]))
    def edit_entry(self, data: st.DataObject, word: str) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.entries)))
        path, _, entry = memory_id.removeprefix("entry:").partition("#")
        whole = (self.home.store / path).read_bytes()
        start = whole.index(b" -->\n", whole.index(f'{{"id":"{entry}"'.encode())) + 5
        end = whole.index(f"\n<!-- /renor {entry} -->".encode())
        if word == "secret":
            word = self.secret()
        # Words escaped on the disk: a person's hand would write plain ones.
        self.home.swap(path, whole[:start] + word.encode() + whole[end:])
        self.entries[memory_id].text = word
        self.entries[memory_id].words |= set(SECRET.findall(word))

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def open_in_an_editor(self, data: st.DataObject) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.entries)))
        path = memory_id.removeprefix("entry:").partition("#")[0]
        held = {one: replace(self.entries[one]) for one in self.ids_of(path)}
        self.buffer = Buffer(path, (self.home.store / path).read_bytes(), held)

    @precondition(lambda self: self.buffer)
    @rule(by_rename=st.booleans())
    def save_stale_buffer(self, by_rename: bool) -> None:
        assert self.buffer is not None
        path, whole, held = self.buffer.path, self.buffer.whole, self.buffer.entries
        # What the engine has not seen yet it cannot put back: it looks within 1.5 s.
        scan(self.engine)
        if by_rename:
            self.home.swap(path, whole)
        else:
            self.home.write(path, whole)
        scan(self.engine)

        fresh_ms = max(self.home.clock.now_ms, self.last_ms) - STALE_BUFFER_MS
        for memory_id in self.ids_of(path):
            if memory_id not in held and self.entries[memory_id].at_ms < fresh_ms:
                self.retired[memory_id] = self.entries.pop(memory_id)
                self.retired[memory_id].is_by_tool = False
        for memory_id, entry in held.items():
            away = self.retired.get(memory_id)
            is_changed = entry.said != entry.text
            is_same = away is not None and entry.text == away.text
            if away is not None and away.is_by_tool and (is_same or not is_changed):
                continue
            if away is not None:
                self.entries[memory_id] = self.retired.pop(memory_id)
            now = self.entries.get(memory_id)
            if now is not None:  # else erased
                now.said, now.text = entry.said, entry.text
                now.is_revised = entry.is_revised
        self.last_ms = self.newest_ms()

    def newest_ms(self) -> int:
        """Retiring and restoring are events of their own moments."""
        return self.engine.store.index.newest_written()[1]

    # --- the comparison

    @rule()
    def check(self) -> None:
        scan(self.engine)
        assert self.engine.verify(self.caller).entries == len(self.entries)
        for memory_id, entry in self.entries.items():
            memory = self.engine.read_memory(self.caller, id=memory_id)
            assert memory.text == hidden.show(entry.text)
            assert (memory.edited is True) == (entry.text != entry.said)
            assert memory.retired is not True
            self.check_found(memory_id, entry.text)
        for memory_id, entry in self.retired.items():
            memory = self.engine.read_memory(self.caller, id=memory_id)
            assert (memory.text, memory.retired) == (hidden.show(entry.text), True)
            self.check_found("", entry.text)
        for path, note in self.notes.items():
            memory = self.engine.read_memory(self.caller, id=f"note:{path}")
            assert memory.text == note.text.replace("\r\n", "\n")
            assert (self.home.store / path).read_bytes() == note.text.encode()
            self.check_found(f"note:{path}", note.text)
        for key, (_, note) in self.retired_notes.items():
            memory = self.engine.read_memory(self.caller, id=key)
            text = note.text.replace("\r\n", "\n")
            assert (memory.text, memory.retired) == (text, True)
            self.check_found("", note.text)
        for subject, values in self.values.items():
            self.check_values(subject, values)
        retired = len(self.values_in("retired")) + len(self.retired_notes)
        status = self.engine.memory_status(self.caller)
        assert (status.entries, status.retired) == (
            len(self.entries),
            len(self.retired) + retired,
        )
        self.check_gone()

    def check_found(self, memory_id: str, text: str) -> None:
        for word in SECRET.findall(text):
            hits = self.engine.search_text(self.caller, query=word).hits
            assert [hit.id for hit in hits] == ([memory_id] if memory_id else [])

    def check_gone(self) -> None:
        if not self.gone:
            return
        for path in self.home.directory.rglob("*"):
            data = path.read_bytes() if path.is_file() else b""
            held = {word.decode() for word in re.findall(rb"secret\d+qx", data)}
            assert (path.name, held & self.gone) == (path.name, set())

    def check_values(self, subject: str, values: list[Value]) -> None:
        history = self.engine.retrieve_memory(
            self.caller, subject=subject, include_history=True
        )
        assert [(f.id, f.object, f.statement, f.current) for f in history.facts] == [
            (value.id, value.object, value.statement, value is values[-1])
            for value in reversed(values)
            if value.state == "live"
        ]
        for value in values:
            moment = rules.render_moment(value.from_ms)
            then = self.engine.retrieve_memory(
                self.caller, subject=subject, as_of=moment
            )
            is_live = value.state == "live"
            assert [fact.id for fact in then.facts] == ([value.id] if is_live else [])


TestWorkspace = WorkspaceMachine.TestCase
TestWorkspace.settings = settings(
    max_examples=30,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
