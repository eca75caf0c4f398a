"""Any order of saves, hands, clocks and reopenings equals a model of plain dicts."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from memories.engine import hidden, rules
from memories.engine.keeping import STALE_BUFFER_MS
from tests.unit.engine.homes import (
    FakeClock,
    Home,
    make_caller,
    require_rebuilt_equal,
    scan,
)

TEXTS = ["zebra", "horse\r\n", "<!-- renor {", "é\n\n## 12:00\n", "a <!-- /renor x"]
SUBJECTS = ["Fjord", "Bergen"]
OBJECTS = ["SQLite", "PostgreSQL", "Go"]
SENTENCES = ["", "so it is", "indeed"]


@dataclass
class Entry:
    said: str
    at_ms: int
    text: str


@dataclass
class Value:
    id: str
    object: str
    from_ms: int
    statement: str = ""
    sentences: set[str] = field(default_factory=set)


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
        self.buffer: tuple[str, bytes, dict[str, str]] | None = None
        self.last_ms = 0

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

    @rule(text=st.sampled_from(TEXTS))
    def remember(self, text: str) -> None:
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
        self.entries[receipt.id] = Entry(text, at_ms, text)

    def find_retry(self, text: str) -> str:
        since = max(self.home.clock.now_ms, self.last_ms) - 60_000
        matching = [
            memory_id
            for memory_id, entry in self.entries.items()
            if entry.said == entry.text == text and entry.at_ms >= since
        ]
        return min(matching, default="", key=lambda one: self.entries[one].at_ms)

    @rule(
        subject=st.sampled_from(SUBJECTS),
        object=st.sampled_from(OBJECTS),
        sentence=st.sampled_from(SENTENCES),
    )
    def save(self, subject: str, object: str, sentence: str) -> None:
        values = self.values.setdefault(subject, [])
        current = values[-1] if values else None

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
        values.append(Value(receipt.id, object, at_ms, sentence, sentences))

    def note_time(self, at_ms: int) -> None:
        assert at_ms > self.last_ms
        self.last_ms = at_ms

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
    @rule(data=st.data(), word=st.sampled_from(["edited", "words\nof two"]))
    def edit_entry(self, data: st.DataObject, word: str) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.entries)))
        path, _, entry = memory_id.removeprefix("entry:").partition("#")
        whole = (self.home.store / path).read_bytes()
        start = whole.index(b" -->\n", whole.index(f'{{"id":"{entry}"'.encode())) + 5
        end = whole.index(f"\n<!-- /renor {entry} -->".encode())
        # Words escaped on the disk: a person's hand would write plain ones.
        self.home.swap(path, whole[:start] + word.encode() + whole[end:])
        self.entries[memory_id].text = word

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def open_in_an_editor(self, data: st.DataObject) -> None:
        memory_id = data.draw(st.sampled_from(sorted(self.entries)))
        path = memory_id.removeprefix("entry:").partition("#")[0]
        texts = {one: self.entries[one].text for one in self.ids_of(path)}
        self.buffer = (path, (self.home.store / path).read_bytes(), texts)

    @precondition(lambda self: self.buffer)
    @rule(by_rename=st.booleans())
    def save_stale_buffer(self, by_rename: bool) -> None:
        assert self.buffer is not None
        path, whole, texts = self.buffer
        # What the engine has not seen yet it cannot put back: it looks within 1.5 s.
        scan(self.engine)
        if by_rename:
            self.home.swap(path, whole)
        else:
            self.home.write(path, whole)
        scan(self.engine)

        fresh_ms = max(self.home.clock.now_ms, self.last_ms) - STALE_BUFFER_MS
        for memory_id in self.ids_of(path):
            if memory_id not in texts and self.entries[memory_id].at_ms < fresh_ms:
                self.retired[memory_id] = self.entries.pop(memory_id)
                self.last_ms = self.newest_ms()
        for memory_id, text in texts.items():
            if memory_id in self.retired:
                self.entries[memory_id] = self.retired.pop(memory_id)
                self.last_ms = self.newest_ms()
            self.entries[memory_id].text = text

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
        for subject, values in self.values.items():
            self.check_values(subject, values)
        status = self.engine.memory_status(self.caller)
        assert (status.entries, status.retired) == (
            len(self.entries),
            len(self.retired),
        )

    def check_values(self, subject: str, values: list[Value]) -> None:
        history = self.engine.retrieve_memory(
            self.caller, subject=subject, include_history=True
        )
        assert [(f.id, f.object, f.statement, f.current) for f in history.facts] == [
            (value.id, value.object, value.statement, value is values[-1])
            for value in reversed(values)
        ]
        for value in values:
            moment = rules.render_moment(value.from_ms)
            then = self.engine.retrieve_memory(
                self.caller, subject=subject, as_of=moment
            )
            assert [fact.id for fact in then.facts] == [value.id]


TestWorkspace = WorkspaceMachine.TestCase
TestWorkspace.settings = settings(
    max_examples=30,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
