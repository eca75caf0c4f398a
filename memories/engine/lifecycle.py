"""Lives of memories: retired and restored by whom may write, revised by the owner.

A call that is made twice answers as the first: retiring and restoring always, the
owner's acts under their request id (of an erased note nothing is left to ask for).
Rules: docs/mcp.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from . import files, hidden, markdown, recall, rules
from . import types as t
from .answers import is_same_words, may_see, unknown_memory
from .errors import Busy, Conflict, Invalid
from .facts import ValueRow, title_of_value
from .keeping import ATTEMPTS
from .lives import Life, note_of
from .operation import Operations, on_index
from .passages import MemoryRow, Passage
from .rewriting import check_spans
from .shelf import sha256
from .types import Event

Done = TypeVar("Done")

INDEX_SECONDS = 2.0
SAME_SHOWN = 20
PIECES = 40
"""Lines of an erased text that are looked for elsewhere: enough to name who holds them."""

RARE = 3
"""A word in no more passages than this is worth naming who else holds it."""


class Lifecycle(Operations):
    @on_index
    def retire_memory(self, caller: t.Caller, *, id: str) -> t.Retirement:
        """Take a memory out of use: found by nothing from now on, and restorable.

        Durable on return. Raises: EngineError; files.DiskFailed.
        """
        id = rules.require_id("id", id)
        self._require_may_write(caller)
        if id.startswith("fact:"):
            return self._deciding(lambda: self._retire_fact(caller, id))
        return self._deciding(lambda: self._retire_words(caller, id))

    @on_index
    def restore_memory(self, caller: t.Caller, *, id: str) -> t.Retirement:
        """Put a retired memory back as it was. Durable on return.

        Raises: Conflict when it is not retired or its place is taken; EngineError.
        """
        id = rules.require_id("id", id)
        self._require_may_write(caller)
        return self._deciding(lambda: self._restore(caller, id))

    def _deciding(self, step: Callable[[], Done]) -> Done:
        """Decide from the ledger as it stands; anew where another hand changes it."""
        for _ in range(ATTEMPTS):
            try:
                self.store.sync_in_transaction()
                return step()
            except files.Changed:
                continue
        message = "another program keeps changing the files; try again in a moment"
        raise Busy(message)

    def _event(self, caller: t.Caller, kind: str, about: str, scope: str) -> Event:
        self._require_in_time(caller.deadline_ms)
        event_id, at_ms = self.store.moments.next()
        return Event(
            id=event_id,
            kind=kind,
            recorded_at=rules.render_moment(at_ms),
            about=about,
            scope=scope,
            writer=caller.name,
            writer_id=caller.connection_id,
            by="owner" if "own" in caller.acts else "",
            request=caller.request_id,
        )

    # --- retiring

    def _retire_fact(self, caller: t.Caller, memory_id: str) -> t.Retirement:
        value = self._get_value(caller, memory_id)
        if not value.retired:
            event = self._event(caller, "retire", memory_id, value.scope)
            self.store.append_event(event)
        return self._told(self._life_of(memory_id))

    def _retire_words(self, caller: t.Caller, memory_id: str) -> t.Retirement:
        row = self._find_now(memory_id)
        life = self._find_life(caller, memory_id)
        if row is None and life is not None and life.is_retired:
            return self._told(life)
        row = self._get_row(caller, memory_id)
        if self.store.look_at(row.path):
            row = self._get_row(caller, memory_id)
        if row.kind == "note":
            self._require_no_entries(caller, row)
        event = self._event(caller, "retire", row.id, row.scope)
        if not self.store.retire(event, row):
            raise files.Changed
        return self._told(self._life_of(row.id))

    def _require_no_entries(self, caller: t.Caller, row: MemoryRow) -> None:
        entries = self.store.index.passages.entries_of(row.path)
        if entries:
            ids = [one.id for one in entries if may_see(caller, one.scope)]
            message = f"{row.path} is a day's log with entries: retire them one by one"
            raise Invalid(message, entryIds=ids[:SAME_SHOWN])

    # --- restoring

    def _restore(self, caller: t.Caller, memory_id: str) -> t.Retirement:
        life = self._find_life(caller, memory_id)
        if life is None or life.state == "erased":
            if memory_id.startswith("fact:"):
                self._get_value(caller, memory_id)
            else:
                self._get_row(caller, memory_id)
            raise _not_retired(memory_id)
        if not life.is_retired:
            if not life.key.startswith("fact:") and self._live_row(life) is None:
                raise unknown_memory(memory_id)
            return self._told(life)
        event = self._event(caller, "restore", _about(life), life.scope)
        event.path = life.path
        if life.key.startswith("fact:"):
            self.store.append_event(event)
        else:
            self.store.restore(event, life)
        return self._told(self.store.index.lives.find_key(life.key) or life)

    # --- what is known of a life

    def _find_life(self, caller: t.Caller, memory_id: str) -> Life | None:
        """Return the life of a memory the caller may see; an erased one has none."""
        life = self.store.index.lives.find(memory_id)
        if life is None or life.state == "erased" or not may_see(caller, life.scope):
            return None
        return life

    def _life_of(self, memory_id: str) -> Life:
        life = self.store.index.lives.find(memory_id)
        if life is None:  # the index lags behind a full disk: the words are safe
            message = "it is done, but the index could not take it in: try again"
            raise Busy(message)
        return life

    def _get_value(self, caller: t.Caller, memory_id: str) -> ValueRow:
        value = self.store.index.facts.find_value(memory_id)
        life = self.store.index.lives.find_key(memory_id)
        is_erased = life is not None and life.state == "erased"
        if value is None or is_erased or not may_see(caller, value.scope):
            raise unknown_memory(memory_id)
        return value

    def _told(self, life: Life) -> t.Retirement:
        value, current = None, None
        if life.key.startswith("fact:"):
            value = self.store.index.facts.find_value(life.key)
            current = value is not None and not value.retired and value.to_ms is None
        return t.Retirement(
            ok=True,
            id=self._id_of(life),
            action="retired" if life.is_retired else "restored",
            title=hidden.show(self._title_of(life, value)),
            at=rules.render_moment(life.at_ms),
            event_id=life.event.id,
            current=msgspec.UNSET if current is None else current,
        )

    def _title_of(self, life: Life, value: ValueRow | None) -> str:
        if value is not None:
            return title_of_value(value)
        row = life.row or self._live_row(life)
        return row.title if row else ""

    def _live_row(self, life: Life) -> MemoryRow | None:
        passages = self.store.index.passages
        if life.key.startswith("#"):
            return passages.find_entry(life.key.removeprefix("#"))
        return passages.find_memory(note_of(life.key))

    def _id_of(self, life: Life) -> str:
        """Return the id by which a memory answers now."""
        if life.key.startswith("fact:"):
            return life.key
        row = life.row or self._live_row(life)
        if life.key.startswith("#"):
            return row.id if row else life.event.about
        return self.store.id_of_note(life)

    def _id_of_key(self, key: str) -> str:
        """Return the id of a memory by the key that its earlier texts are kept under."""
        life = self.store.index.lives.find_key(key)
        if life is not None and life.is_retired:
            return self._id_of(life)
        row = self.store.index.passages.find_entry(key.removeprefix("#"))
        return row.id if row else key

    # --- the owner's own

    @on_index
    def replace_note(
        self, caller: t.Caller, *, id: str, text: str, expected_sha256: str
    ) -> t.Revision:
        """Give a note or an entry another text. The earlier one is kept and readable
        (`read_version`), writer, id and date stay.

        `expected_sha256` is that of the text as it was read (`Memory.sha256`).
        Raises: Conflict when the text is another by now; EngineError.
        """
        self._require_own(caller)
        most = rules.STATEMENT_CHARS if id.startswith("entry:") else rules.NOTE_CHARS
        rules.require_text("text", text, most)
        return self._deciding(
            lambda: self._replace_note(caller, id, text, expected_sha256)
        )

    def _replace_note(
        self, caller: t.Caller, memory_id: str, text: str, expected: str
    ) -> t.Revision:
        row, said = self._read_whole(caller, memory_id)
        digest = sha256(said.encode())
        if text == said:
            done = self._find_done(caller, "revise")
            at = done.recorded_at if done else rules.render_moment(row.at_ms)
            return _revision(row.id, at, done.id if done else "", digest)
        if expected.lower() not in (digest, self._digest_of_file(row)):
            message = "the text has changed since it was read: read it again"
            raise Conflict(message, currentSha256=digest)
        if row.kind == "note" and self.store.index.passages.entries_of(row.path):
            message = (
                f"{row.path} is a day's log: replace its entries one by one, or edit "
                "the file"
            )
            raise Invalid(message)
        event = self._event(caller, "revise", row.id, row.scope)
        self.store.replace_words(event, row, said, text)
        return _revision(row.id, event.recorded_at, event.id, sha256(text.encode()))

    @on_index
    def redact(
        self,
        caller: t.Caller,
        *,
        id: str,
        spans: Sequence[Sequence[int]],
        expected_sha256: str = "",
    ) -> t.Revision:
        """Take words out of a memory for good; id and dates stay.

        `spans` are [start, end] in code points of the whole text (of a fact: of its
        sentence, else of its object). When this returns, no file of the workspace
        holds the words but those of memories named in `also_in`.
        Raises: Conflict; EngineError.
        """
        self._require_own(caller)
        id = rules.require_id("id", id)
        event, also = self._deciding(
            lambda: self._decide_redaction(caller, id, spans, expected_sha256)
        )
        self._finish_erasing(event.id)
        if not self.store.index.lives.past_of(event.about, "redact"):
            message = "the text was changed meanwhile: nothing was taken out, read it"
            raise Conflict(message)
        now = self._text_now(caller, event.about)
        return t.Revision(
            ok=True,
            id=event.about,
            at=event.recorded_at,
            event_id=event.id,
            sha256=sha256(now.encode()),
            also_in=also,
            warnings=_untouched(also),
        )

    def _decide_redaction(
        self, caller: t.Caller, memory_id: str, spans: object, expected: str
    ) -> tuple[Event, list[str]]:
        """Append the event that decides; return it and who else holds the words."""
        done = self._find_done(caller, "redact")
        if done is not None:
            return done, []
        path = ""
        if memory_id.startswith("fact:"):
            value = self._get_value(caller, memory_id)
            if value.retired:
                raise _retired_already(memory_id)
            about, scope = value.id, value.scope
            said = value.statement or value.object
        else:
            row, said = self._read_whole(caller, memory_id)
            about, scope, path = row.id, row.scope, row.path
        digest = sha256(said.encode())
        if expected and expected.lower() != digest:
            message = "the text has changed since it was read: read it again"
            raise Conflict(message, currentSha256=digest)
        if not expected and hidden.show(said) != said:
            message = (
                "it holds hidden words, which reads show labelled: take the spans from "
                "read_text, and give its sha256 as expected_sha256"
            )
            raise Conflict(message)
        checked = check_spans(spans, len(said))
        words = [said[start:stop] for start, stop in checked]
        if about.startswith("fact:"):
            self._require_not_in_key(about, words)
        else:
            self.store.require_rewritable(row, checked)
        event = self._event(caller, "redact", about, scope)
        event.path, event.sha256 = path, digest
        event.spans, event.unfinished = checked, True
        also = [one for one in self._same_words(words) if one != about]
        self.store.append_event(event)
        return event, also

    def _find_done(self, caller: t.Caller, kind: str) -> Event | None:
        """Return what this very request has decided before the answer was lost."""
        if not caller.request_id:
            return None
        event = self.store.index.facts.find_event_by_request(caller.request_id)
        return event if event is not None and event.kind == kind else None

    def _require_not_in_key(self, value_id: str, words: list[str]) -> None:
        value = self.store.index.facts.find_value(value_id)
        names = f"{value.subject}\n{value.predicate}" if value else ""
        if any(word in names for word in words):
            message = (
                "the words stand in the fact's subject or predicate: retire and erase "
                "the fact instead"
            )
            raise Invalid(message)

    def _text_now(self, caller: t.Caller, memory_id: str) -> str:
        if memory_id.startswith("fact:"):
            value = self._get_value(caller, memory_id)
            return value.statement or value.object
        return self._read_whole(caller, memory_id)[1]

    @on_index
    def erase(self, caller: t.Caller, *, id: str) -> t.Erasure:
        """Delete a retired memory for good. When this returns no file of the workspace
        holds its words but those of memories named in `also_in`.

        Raises: Conflict when it is not retired; EngineError.
        """
        self._require_own(caller)
        id = rules.require_id("id", id)
        event, also = self._deciding(lambda: self._decide_erasure(caller, id))
        self._finish_erasing(event.id)
        return t.Erasure(
            ok=True,
            id=id,
            at=event.recorded_at,
            event_id=event.id,
            also_in=also,
            warnings=_untouched(also),
        )

    def _decide_erasure(
        self, caller: t.Caller, memory_id: str
    ) -> tuple[Event, list[str]]:
        """Append the event that decides; return it and who else holds the words."""
        done = self._find_done(caller, "erase")
        erased = self.store.index.lives.find(memory_id)
        if done is None and erased is not None and erased.state == "erased":
            done = erased.event
        if done is not None:
            return done, []
        # What a crash has left of a retired note is put away first: an erased one's
        # file would be a note like any other.
        self.store.finish_scan()
        life = self._find_life(caller, memory_id)
        row = self.store.index.passages.find_memory(memory_id)
        if life is None or not life.is_retired or (row and row.kind != "fact"):
            if memory_id.startswith("fact:"):
                self._get_value(caller, memory_id)
            else:
                self._get_row(caller, memory_id)
            message = f"{memory_id} is not retired: retire it first, then erase it"
            raise Conflict(message)
        texts = self._texts_of(life)
        event = self._event(caller, "erase", _about(life), "")
        event.scope = rules.GLOBAL_SCOPE
        event.writer = event.writer_id = ""
        event.unfinished = True
        own = self._id_of(life)
        also = [one for one in self._same_words(texts) if one != own]
        self.store.append_event(event)
        return event, also

    def _texts_of(self, life: Life) -> list[str]:
        if life.key.startswith("fact:"):
            lines = self.store.index.facts.lines_of(life.key)
            return [
                text for one in lines for text in (one.object, one.statement) if text
            ]
        if life.row is not None and life.row.kind == "entry":
            return [life.row.text]
        data = self.store.shelf.read(life.sha256) or b""
        return [markdown.decode_note(data)[0]]

    def _finish_erasing(self, event_id: str) -> None:
        for _ in range(ATTEMPTS):
            self.store.finish_scan()
            try:
                self.store.finish_erasing()
                facts = self.store.index.facts
                if facts.unfinished_events() or not facts.has_event(event_id):
                    break
            except files.Changed:
                continue
            # What a large store has left to index is done between other calls.
            self.store.finish_scan(INDEX_SECONDS)
            return
        message = (
            "it is decided, but the disk or another program is in the way: it is "
            "finished as soon as the files are left alone"
        )
        raise Busy(message)

    def _same_words(self, texts: Sequence[str]) -> list[str]:
        """Return the memories that hold a line of these texts, or a rare word."""
        index = self.store.index
        lines = [line.strip() for text in texts for line in text.splitlines()]
        pieces = [line for line in lines if index.passages.stems(line)][:PIECES]
        found = [
            passage.memory.id
            for piece in pieces
            for passage in self._holding(piece)
            if is_same_words(piece, passage.text)
        ]
        found += index.facts.values_holding(pieces)
        found += map(self._id_of, index.lives.search_retired(pieces, None))
        for key, digest in index.lives.revised():
            text = self.store.kept_text(digest, is_entry=key.startswith("#")) or ""
            if any(is_same_words(piece, text) for piece in pieces):
                found.append(self._id_of_key(key))
        for word in self._rare_words(texts):
            found += [passage.memory.id for passage in self._holding(word)]
        return list(dict.fromkeys(found))[:SAME_SHOWN]

    def _holding(self, term: str) -> list[Passage]:
        search = self.store.index.passages.search
        return [
            passage
            for is_fact in (False, True)
            for passage in search([term], scopes=None, facts=is_fact, limit=SAME_SHOWN)
        ]

    def _rare_words(self, texts: Sequence[str]) -> list[str]:
        words = recall.query_words(" ".join(texts), rules.fold_search)
        passages = self.store.index.passages
        stems = {word: passages.stems(word) for word in words if len(word) > 3}
        each = passages.frequencies({stem for some in stems.values() for stem in some})
        return [
            word
            for word, some in stems.items()
            if some and 0 < min(each.get(stem, 0) for stem in some) <= RARE
        ]

    @on_index
    def read_version(
        self, caller: t.Caller, *, id: str, event_id: str
    ) -> t.EarlierText:
        """Return what a memory said before the owner replaced it in `event_id`."""
        self._require_own(caller)
        for past in self.store.index.lives.past_of(self._key(caller, id), "revise"):
            if past.event == event_id:
                is_entry = id.startswith("entry:")
                text = self.store.kept_text(past.sha256, is_entry=is_entry)
                if text is None:
                    break
                return t.EarlierText(
                    id=id,
                    event_id=event_id,
                    replaced_at=rules.render_moment(past.at_ms),
                    text=text,
                )
        message = f'no earlier text "{event_id[:40]}" is kept of {id[:200]}'
        raise Conflict(message)

    @on_index
    def read_text(self, caller: t.Caller, *, id: str) -> t.WholeText:
        """Return a live memory's whole text as it was written, hidden words unlabelled:
        what spans and `expected_sha256` speak of. Of a fact its sentence, else object.
        """
        self._require_own(caller)
        id = rules.require_id("id", id)
        self._look_at_ledger()
        text = self._text_now(caller, id)
        return t.WholeText(id=id, text=text, sha256=sha256(text.encode()))

    def _key(self, caller: t.Caller, memory_id: str) -> str:
        row = self._find_now(memory_id)
        life = self._find_life(caller, memory_id)
        if row is None and life is not None:
            return life.key
        return self._get_row(caller, memory_id).id

    def _read_whole(self, caller: t.Caller, memory_id: str) -> tuple[MemoryRow, str]:
        """Return a live note or entry and its whole text as it stands in its file."""
        live = self._find_now(memory_id)
        life = self._find_life(caller, memory_id)
        if live is None and life is not None and life.is_retired:
            raise _retired_already(memory_id)
        row = self._get_row(caller, memory_id)
        if self.store.look_at(row.path):
            row = self._get_row(caller, memory_id)
        return row, self.store.read_text(row)

    def _digest_of_file(self, row: MemoryRow) -> str:
        return "" if row.kind == "entry" else self.store.index.digest_of(row.path)


def _about(life: Life) -> str:
    """Return what an event says it is about, for one that names a single life."""
    if life.key.startswith("#"):
        return f"entry:{life.key}"
    return life.key


def _not_retired(memory_id: str) -> Conflict:
    return Conflict(f"{memory_id} is not retired: there is nothing to restore")


def _retired_already(memory_id: str) -> Conflict:
    return Conflict(f"{memory_id} is retired: restore it first, or erase it")


def _revision(memory_id: str, at: str, event_id: str, digest: str) -> t.Revision:
    return t.Revision(
        ok=True,
        id=memory_id,
        at=at,
        event_id=event_id,
        sha256=digest,
    )


def _untouched(also_in: Sequence[str]) -> list[t.Warning]:
    """Return what an erasure does not reach, so that nobody believes it does."""
    said = [
        t.Warning(
            code="copies-untouched",
            message=(
                "git history, backups and copies made elsewhere still hold the words"
            ),
        )
    ]
    if also_in:
        message = "other memories hold some of the words: see alsoIn"
        said.append(t.Warning(code="also-in", message=message))
    return said
