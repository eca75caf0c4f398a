"""Shapes that cross the engine's border, and the one place of their wire names.

Attributes are Python names; `rename` gives the name on the wire where the tool
contract (docs/mcp.md) has another. Answers are encoded as they stand here, from
the engine's socket to the MCP client, so no second module spells a wire name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import msgspec

from .errors import Detail as Detail

VERSION = "0.1.0"
"""Of the product; pyproject.toml reads it from here."""

GLOBAL_SCOPE = "global"

Act = Literal["read", "write", "own"]
Action = Literal["store", "supersede", "nochange"]
MemoryKind = Literal["note", "entry", "fact"]
Match = Literal["name", "alias", "part", "path"]
R = TypeVar("R")


class Answer(msgspec.Struct, kw_only=True, frozen=True, rename="camel"):
    """Base of all answers; fields left out of the JSON are those marked UNSET."""


class Caller(msgspec.Struct, kw_only=True, frozen=True):
    """Who calls, what they may do, and until when: first in every operation.

    `scopes` None means all. `connection_id` "" is an unauthenticated caller
    (stdio), "owner" the owner. `limit_bytes` 0 means no limit. `deadline_ms` is
    Unix time in milliseconds; an engine never begins a write after it, 0 means none.
    `client_name` is what the MCP client calls itself, the default of `source`.
    """

    connection_id: str
    name: str
    acts: frozenset[Act]
    scopes: tuple[str, ...] | None = None
    limit_bytes: int = 0
    request_id: str = ""
    deadline_ms: int = 0
    client_name: str = ""


class Warning(Answer, frozen=True):
    code: str
    message: str


class Duplicate(Answer, frozen=True):
    id: str
    subject: str
    predicate: str
    object: str
    scope: str


class Receipt(Answer, frozen=True):
    """What a save answers. The words are on the disk when it leaves the engine."""

    action: Action
    id: str
    event_id: str
    at: str
    scope: str
    indexed: bool
    supersedes: list[str] = []
    possible_duplicates: list[Duplicate] = []
    warnings: list[Warning] = []


class WriterConflict(Answer, frozen=True):
    object: str
    writer: str
    at: str


class Fact(Answer, frozen=True):
    """One value of a key. `current` and `valid_to` are set by retrieve_memory."""

    id: str
    subject: str
    predicate: str
    object: str
    statement: str
    scope: str
    source: str
    writer: str
    valid_from: str
    current: bool | msgspec.UnsetType = msgspec.UNSET
    valid_to: str | msgspec.UnsetType = msgspec.UNSET
    truncated: bool | msgspec.UnsetType = msgspec.UNSET
    writer_conflict: list[WriterConflict] | msgspec.UnsetType = msgspec.UNSET
    writer_authenticated: bool | msgspec.UnsetType = msgspec.UNSET
    untrusted: bool | msgspec.UnsetType = msgspec.UNSET
    origin: str | msgspec.UnsetType = msgspec.UNSET


class Replaced(Answer, frozen=True):
    by: str
    at: str
    source: str


class Hit(
    Answer,
    frozen=True,
    rename={
        "heading_path": "headingPath",
        "also_in": "alsoIn",
        "writer_authenticated": "writerAuthenticated",
    },
):
    """One passage of a memory. `score` compares only within one `reason`."""

    id: str
    title: str
    text: str
    heading_path: list[str]
    session_date: str
    score: float
    reason: Literal["hybrid", "semantic", "fts", "note-identity", "graph"]
    matched: bool
    scope: str
    source: str
    writer: str | msgspec.UnsetType = msgspec.UNSET
    writer_authenticated: bool | msgspec.UnsetType = msgspec.UNSET
    truncated: bool | msgspec.UnsetType = msgspec.UNSET
    edited: bool | msgspec.UnsetType = msgspec.UNSET
    replaced: Replaced | msgspec.UnsetType = msgspec.UNSET
    untrusted: bool | msgspec.UnsetType = msgspec.UNSET
    origin: str | msgspec.UnsetType = msgspec.UNSET
    also_in: list[str] | msgspec.UnsetType = msgspec.UNSET


class Relevance(Answer, frozen=True):
    relevant: bool
    reason: str | msgspec.UnsetType = msgspec.UNSET


class Tokens(Answer, frozen=True):
    used: int
    max: int


class IndexState(Answer, frozen=True):
    stale: bool


class FactConflict(Answer, frozen=True):
    id: str
    subject: str
    predicate: str
    object: str
    scope: str
    valid_from: str


class Context(Answer, frozen=True):
    """Answer of get_context. From the engine `tokens.used` is 0: the gateway counts."""

    facts: list[Fact]
    memories: list[Hit]
    retrieval: Literal["hybrid", "semantic", "keyword", "facts"]
    relevance: Relevance
    tokens: Tokens
    index: IndexState
    ranked_by: Literal["score", "session_date"] | msgspec.UnsetType = msgspec.UNSET
    conflicts: list[FactConflict] | msgspec.UnsetType = msgspec.UNSET


class History(Answer, frozen=True):
    """Answer of retrieve_memory, newest value first."""

    known: bool
    subject: str
    as_of: str
    facts: list[Fact]
    conflicts: list[FactConflict] = []
    truncated: bool | msgspec.UnsetType = msgspec.UNSET
    closest_subjects: list[str] | msgspec.UnsetType = msgspec.UNSET


class Hits(Answer, frozen=True):
    hits: list[Hit]
    relevance: Relevance
    index: IndexState
    truncated: bool | msgspec.UnsetType = msgspec.UNSET
    fallback: str | msgspec.UnsetType = msgspec.UNSET
    reason: str | msgspec.UnsetType = msgspec.UNSET


class Memory(
    Answer,
    frozen=True,
    rename={
        "event_id": "eventId",
        "total_chars": "totalChars",
        "next_offset": "nextOffset",
        "writer_authenticated": "writerAuthenticated",
        "valid_from": "validFrom",
        "valid_to": "validTo",
        "edited_by": "editedBy",
        "retired_at": "retiredAt",
        "cited_by": "citedBy",
    },
):
    """Answer of read_memory: a slice of the text and what is known around it.

    `links` are ids of notes, or names as written where there is none to see.
    `cited_by` are the facts that cite it. `versions` are the ids of earlier texts that
    the owner has replaced, newest first; `truncated`: of all but the text. `sha256` is that of the
    whole text in UTF-8, left out where hidden words are labelled: what is shown is then
    not the text (`read_text` gives it).
    """

    id: str
    kind: MemoryKind
    title: str
    text: str
    offset: int
    total_chars: int
    scope: str
    source: str
    writer: str
    at: str
    session_date: str
    tags: list[str] = []
    links: list[str] = []
    cites: list[str] = []
    cited_by: list[str] = []
    truncated: bool | msgspec.UnsetType = msgspec.UNSET
    next_offset: int | msgspec.UnsetType = msgspec.UNSET
    writer_authenticated: bool | msgspec.UnsetType = msgspec.UNSET
    edited: bool | msgspec.UnsetType = msgspec.UNSET
    edited_by: str | msgspec.UnsetType = msgspec.UNSET
    redacted: bool | msgspec.UnsetType = msgspec.UNSET
    versions: list[str] | msgspec.UnsetType = msgspec.UNSET
    sha256: str | msgspec.UnsetType = msgspec.UNSET
    retired: bool | msgspec.UnsetType = msgspec.UNSET
    retired_at: str | msgspec.UnsetType = msgspec.UNSET
    untrusted: bool | msgspec.UnsetType = msgspec.UNSET
    origin: str | msgspec.UnsetType = msgspec.UNSET
    replaces: str | msgspec.UnsetType = msgspec.UNSET
    replaced: Replaced | msgspec.UnsetType = msgspec.UNSET
    subject: str | msgspec.UnsetType = msgspec.UNSET
    predicate: str | msgspec.UnsetType = msgspec.UNSET
    object: str | msgspec.UnsetType = msgspec.UNSET
    current: bool | msgspec.UnsetType = msgspec.UNSET
    valid_from: str | msgspec.UnsetType = msgspec.UNSET
    valid_to: str | msgspec.UnsetType = msgspec.UNSET


class Entity(Answer, frozen=True):
    """Answer of lookup_entity. `entities` is how many there are in scope; of what is
    not found nothing else is said.
    """

    found: bool
    entities: int
    reason: str | msgspec.UnsetType = msgspec.UNSET
    match: Match | msgspec.UnsetType = msgspec.UNSET
    name: str | msgspec.UnsetType = msgspec.UNSET
    aliases: list[str] | msgspec.UnsetType = msgspec.UNSET
    notes: list[str] | msgspec.UnsetType = msgspec.UNSET
    facts: list[Fact] | msgspec.UnsetType = msgspec.UNSET
    others: list[str] | msgspec.UnsetType = msgspec.UNSET
    truncated: bool | msgspec.UnsetType = msgspec.UNSET


class MapMemory(Answer, frozen=True, rename=None):
    """A memory of the map, without its text; `at` of a retired one is when it was."""

    id: str
    kind: MemoryKind
    title: str
    scope: str
    source: str
    writer: str
    at: str
    session_date: str
    untrusted: bool | msgspec.UnsetType = msgspec.UNSET
    origin: str | msgspec.UnsetType = msgspec.UNSET


class Thing(Answer, frozen=True):
    """A subject, how many values it has ever had, and when the newest was saved."""

    name: str
    facts: int
    at: str


class Topic(Answer, frozen=True):
    tag: str
    memories: int


class Link(Answer, frozen=True, rename={"source": "from", "target": "to"}):
    """From a memory to a tag, to a note (its id, or its name where there is none to
    see), or from a fact to the subject that its value names.
    """

    kind: Literal["tag", "wikilink", "fact"]
    source: str
    target: str


class Doing(Answer, frozen=True):
    """A write: what was done to which memory, when, by whom."""

    kind: str
    id: str
    at: str
    writer: str
    scope: str


class Totals(Answer, frozen=True):
    """How long each list of the map would be in full."""

    memories: int
    retired: int
    things: int = 0
    topics: int = 0
    facts: int = 0
    links: int = 0
    events: int = 0


class MemoryMap(Answer, frozen=True):
    """Answer of memory_map; `truncated` names the lists that are not whole."""

    memories: list[MapMemory]
    things: list[Thing]
    topics: list[Topic]
    facts: list[Fact]
    links: list[Link]
    events: list[Doing]
    retired: list[MapMemory]
    total: Totals
    truncated: list[str]


class Retirement(Answer, frozen=True):
    """Answer of retire_memory and restore_memory. `current`, of a fact, is whether it
    is the value of its key now.
    """

    ok: bool
    id: str
    action: Literal["retired", "restored"]
    title: str
    at: str
    event_id: str
    current: bool | msgspec.UnsetType = msgspec.UNSET


class Revision(Answer, frozen=True):
    """Answer of replace_note and redact: the memory's text now, by its SHA-256.

    `event_id` is "" when nothing had to be changed. `also_in` names memories that
    hold the redacted words too, which stay there.
    """

    ok: bool
    id: str
    at: str
    event_id: str
    sha256: str
    also_in: list[str] = []
    warnings: list[Warning] = []


class Erasure(Answer, frozen=True):
    """Answer of erase. `also_in` names memories that hold words of it too."""

    ok: bool
    id: str
    at: str
    event_id: str
    also_in: list[str] = []
    warnings: list[Warning] = []


class WholeText(Answer, frozen=True):
    """Answer of read_text: a memory's text as written, for its owner to change."""

    id: str
    text: str
    sha256: str


class EarlierText(Answer, frozen=True):
    """Answer of read_version: what a memory said before the owner replaced it."""

    id: str
    event_id: str
    replaced_at: str
    text: str


class Storage(Answer, frozen=True, rename=None):
    used_bytes: int
    limit_bytes: int


class Problem(Answer, frozen=True):
    """A file or condition the owner should know of; `path` never holds memory text."""

    code: str
    message: str
    path: str = ""
    at: str = ""


class Version(Answer, frozen=True):
    version: str


class Status(Answer, frozen=True):
    notes: int
    entries: int
    chunks: int
    entities: int
    facts: int
    relations: int
    retired: int
    semantic: bool
    embedding_dims: int
    chunks_without_vectors: int
    embedding_rebuild: int
    storage: Storage
    problems: list[Problem]
    index: IndexState
    renor: Version
    truncated: bool | msgspec.UnsetType = msgspec.UNSET


class SkippedFile(Answer, frozen=True):
    path: str
    reason: str


class IndexReport(Answer, frozen=True):
    ok: bool
    total: int
    indexed: int
    errors: int
    skipped_too_large: list[str]
    skipped_non_utf8_names: list[str]
    skipped: list[SkippedFile] = []
    warning: str | msgspec.UnsetType = msgspec.UNSET
    failure: str | msgspec.UnsetType = msgspec.UNSET
    truncated: bool | msgspec.UnsetType = msgspec.UNSET


class RecentMemory(Answer, frozen=True):
    """One line of the owner's newest memories, for the dashboard."""

    id: str
    kind: MemoryKind
    title: str
    scope: str
    source: str
    writer: str
    at: str


class RecentMemories(Answer, frozen=True):
    memories: list[RecentMemory]


class Verification(Answer, frozen=True):
    """What verify found: `problems` empty means store and index agree."""

    events: int
    entries: int
    notes: int
    problems: list[Problem]


class Written(Answer, frozen=True):
    """Whether a request id was written, and its receipt if so."""

    receipt: Receipt | None


class Nothing(Answer, frozen=True):
    """Answer of operations that have none (ping, poke)."""


class Event(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of the ledger; the names are the file format's.

    `about` is the memory an event speaks of: the value a repeat belongs to, the
    memory a retire or restore moves; "" for a save, which is its own value.
    `sha256` is that of the bytes a retire or revise kept in `retired/`; `by` says
    whose hand it was ("hand" in an editor, "owner" in the product). `file` is the
    path as the disk spells it, where that is not `path`, and `modified_at` the file's
    time. `unfinished` is on an erase or redact whose words may still be in files;
    `spans` are those to redact, in code points of the text with this `sha256`.
    `redacted` counts how often words were taken out of a save or a repeat.
    """

    id: str
    kind: str
    recorded_at: str
    about: str = ""
    subject: str = ""
    predicate: str = ""
    object: str = ""
    statement: str = ""
    scope: str = "global"
    writer: str = ""
    writer_id: str = ""
    source: str = ""
    cites: list[str] = []
    replaces: str = ""
    valid_from: str = ""
    supersedes: list[str] = []
    by: str = ""
    path: str = ""
    file: str = ""
    sha256: str = ""
    modified_at: str = ""
    spans: list[tuple[int, int]] = []
    unfinished: bool = False
    redacted: int = 0
    request: str = ""


@dataclass(frozen=True, slots=True)
class Operation(Generic[R]):
    """A callable of the engine by name: the act it needs and what it answers."""

    name: str
    act: Act
    answer: type[R]


REMEMBER = Operation("remember", "write", Receipt)
SAVE_MEMORY = Operation("save_memory", "write", Receipt)
REMEMBER_NOTE = Operation("remember_note", "write", Receipt)
GET_CONTEXT = Operation("get_context", "read", Context)
RETRIEVE_MEMORY = Operation("retrieve_memory", "read", History)
SEARCH_TEXT = Operation("search_text", "read", Hits)
SEARCH_MEMORY = Operation("search_memory", "read", Hits)
LOOKUP_ENTITY = Operation("lookup_entity", "read", Entity)
MEMORY_MAP = Operation("memory_map", "read", MemoryMap)
READ_MEMORY = Operation("read_memory", "read", Memory)
MEMORY_STATUS = Operation("memory_status", "read", Status)
RETIRE_MEMORY = Operation("retire_memory", "write", Retirement)
RESTORE_MEMORY = Operation("restore_memory", "write", Retirement)
REPLACE_NOTE = Operation("replace_note", "own", Revision)
REDACT = Operation("redact", "own", Revision)
ERASE = Operation("erase", "own", Erasure)
READ_TEXT = Operation("read_text", "own", WholeText)
READ_VERSION = Operation("read_version", "own", EarlierText)
INDEX_MEMORY = Operation("index_memory", "read", IndexReport)
LIST_RECENT = Operation("list_recent", "read", RecentMemories)
VERIFY = Operation("verify", "read", Verification)
FIND_WRITTEN = Operation("find_written", "read", Written)
PING = Operation("ping", "read", Nothing)
POKE = Operation("poke", "read", Nothing)
"""PING and POKE are the host's and the watcher's: they do not keep an engine awake."""

OPERATIONS = {
    operation.name: operation
    for operation in (
        REMEMBER,
        SAVE_MEMORY,
        REMEMBER_NOTE,
        GET_CONTEXT,
        RETRIEVE_MEMORY,
        SEARCH_MEMORY,
        SEARCH_TEXT,
        LOOKUP_ENTITY,
        MEMORY_MAP,
        READ_MEMORY,
        RETIRE_MEMORY,
        RESTORE_MEMORY,
        REPLACE_NOTE,
        REDACT,
        ERASE,
        READ_TEXT,
        READ_VERSION,
        MEMORY_STATUS,
        INDEX_MEMORY,
        LIST_RECENT,
        VERIFY,
        FIND_WRITTEN,
        PING,
        POKE,
    )
}
