"""What reads answer: the contract of docs/mcp.md, "Reading"."""

from __future__ import annotations

import msgspec
import pytest

from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.errors import EngineError, Invalid, NotFound, TooLarge
from tests.unit.engine.homes import Home, make_caller, scan

TODAY = "2026-11-30"


def save(engine: Engine, caller: t.Caller, value: str, **given: str) -> t.Receipt:
    said = {"subject": "Fjord", "predicate": "database", "object": value, **given}
    return engine.save_memory(caller, **said)


def found(engine: Engine, query: str, **given: object) -> list[str]:
    """Return the ids that a text search finds, in order."""
    hits = engine.search_text(make_caller(), query=query, **given).hits  # type: ignore[arg-type]
    return [hit.id for hit in hits]


# --- get_context


def test_context_of_an_empty_workspace(engine: Engine, claude: t.Caller):
    for query in ("", "what database does Fjord use?"):
        context = engine.get_context(claude, query=query)
        assert (context.facts, context.memories) == ([], [])
        assert context.relevance == t.Relevance(relevant=False, reason="empty")


def test_context_of_the_story(engine: Engine, claude: t.Caller):
    save(engine, claude, "PostgreSQL")
    second = engine.remember(
        claude,
        statement="Fjord moved to SQLite.",
        subject="Fjord",
        predicate="database",
        object="SQLite",
    )

    context = engine.get_context(claude, query="what database does Fjord use?")

    assert context.facts == [
        t.Fact(
            id=second.id,
            subject="Fjord",
            predicate="database",
            object="SQLite",
            statement="Fjord moved to SQLite.",
            scope="global",
            source="claude",
            writer="claude",
            valid_from="2026-11-30T12:00:00.001Z",
        )
    ]
    assert context.relevance == t.Relevance(relevant=True)
    assert (context.retrieval, context.index.stale) == ("keyword", False)


def test_context_without_a_query_is_the_newest_facts(engine: Engine, claude: t.Caller):
    for number in range(25):
        save(engine, claude, "x", subject=f"s{number}")
    engine.remember(claude, statement="an entry")

    context = engine.get_context(claude)

    assert [fact.subject for fact in context.facts] == [
        f"s{number}" for number in range(24, 4, -1)
    ]
    assert (context.memories, context.retrieval) == ([], "facts")
    assert context.relevance == t.Relevance(relevant=True)


def test_context_with_a_query_holds_twelve_facts(engine: Engine, claude: t.Caller):
    for number in range(15):
        save(engine, claude, "zebra", subject=f"s{number}")

    assert len(engine.get_context(claude, query="zebra").facts) == 12


def test_context_of_something_else_is_not_relevant(engine: Engine, claude: t.Caller):
    engine.remember(claude, statement="The deploy runs on Fridays with Ana.")

    context = engine.get_context(claude, query="Fridays menu of the Lisbon restaurant")

    assert context.relevance == t.Relevance(relevant=False)
    assert [hit.matched for hit in context.memories] == [False]


@pytest.mark.parametrize(
    ("statement", "query"),
    [
        ("Die Straße ist lang", "Straße"),
        ("São Paulo é grande", "sao paulo"),
        ("Sao Paulo", "SÃO PAULO"),
        ("Fjord uses SQLite", "FJORD?"),
        ("The users are deploying", "user deploys"),
        ("数据库是SQLite", "数据库"),
        ("データベースは大きい", "データベース"),
        ("데이터베이스는 크다", "데이터베이스"),
        ("\uff21\uff22 wide", "\uff21\uff22"),
        ("Ελλάδα", "ελλαδα"),
        ("file_name.py is here", "file_name.py"),
        ("v1.2.3 is out", "v1.2.3"),
    ],
)
def test_context_finds_words_of_many_writings(
    engine: Engine, claude: t.Caller, statement: str, query: str
):
    receipt = engine.remember(claude, statement=statement)

    context = engine.get_context(claude, query=query)

    assert [(hit.id, hit.matched) for hit in context.memories] == [(receipt.id, True)]


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"query": "x" * 10_001}, TooLarge),
        ({"query": "\ud800"}, Invalid),
        ({"query": "a\x00"}, Invalid),
        ({"query": "a", "scope": "nonsense"}, Invalid),
    ],
)
def test_context_that_is_refused(
    engine: Engine, claude: t.Caller, given: dict[str, str], error: type[EngineError]
):
    with pytest.raises(error):
        engine.get_context(claude, **given)  # type: ignore[arg-type]  # all texts


def test_context_is_stale_while_files_wait(home: Home, claude: t.Caller):
    for number in range(300):
        home.write(f"{number}.md", f"note {number}")
    engine = home.open(scan_seconds=0)

    before = engine.get_context(claude, query="note").index
    scan(engine)

    assert before == t.IndexState(stale=True)
    assert engine.get_context(claude, query="note").index == t.IndexState(stale=False)


# --- search_text


def test_search_of_a_phrase_goes_before_its_words(home: Home, engine: Engine):
    claude = make_caller()
    exact = engine.remember(claude, statement="the red fox jumps")
    engine.remember(claude, statement="the fox is red, it jumps")

    answer = engine.search_text(claude, query="Red Fox")

    assert [hit.id for hit in answer.hits] == [exact.id]
    assert answer.fallback is msgspec.UNSET
    assert answer.relevance == t.Relevance(relevant=True)


def test_search_falls_back_to_any_word(engine: Engine, claude: t.Caller):
    first = engine.remember(claude, statement="the fox is red, it jumps")
    second = save(engine, claude, "red")
    engine.remember(claude, statement="something else")

    answer = engine.search_text(claude, query="jumping red foxes")

    assert answer.fallback == "any-word"
    assert [hit.id for hit in answer.hits] == [first.id, second.id]


def test_search_finds_a_current_fact_and_not_an_old_one(
    engine: Engine, claude: t.Caller
):
    save(engine, claude, "PostgreSQL")
    second = save(engine, claude, "SQLite")

    assert found(engine, "PostgreSQL") == []
    assert found(engine, "SQLite") == [second.id]


@pytest.mark.parametrize(
    "query",
    [
        *('"', "'", '"fox"', "fox*", "fox OR", "NOT fox", "fox AND (", "NEAR(fox, 2)"),
        *("text: fox", "^fox", "fox + -", "{fox}", "%fox%", "fox;--", "f\\ox", "()"),
        *("...", "*", "🎉", "fox 🎉", "\u200d", "\ufeff", "a\tb\nc\r", "-- fox"),
        *(
            "OR",
            "fox" * 3_000,
            "fox " * 2_500,
            "漢字" * 5_000,
            '"' * 10_000,
            "é" * 10_000,
        ),
        " ".join(f"w{number}" for number in range(1_500)),
    ],
)
def test_search_of_any_query_is_answered(engine: Engine, claude: t.Caller, query: str):
    engine.remember(claude, statement="the red fox jumps")

    answer = engine.search_text(claude, query=query)
    context = engine.get_context(claude, query=query)

    assert answer.index == context.index == t.IndexState(stale=False)
    for hit in (*answer.hits, *context.memories):
        assert hit.text == "the red fox jumps"


@pytest.mark.parametrize("query", ['"red" fox', "(fox", "red-ish", "C++ & C#"])
def test_search_takes_operators_for_characters(
    engine: Engine, claude: t.Caller, query: str
):
    exact = engine.remember(claude, statement=f"so: {query} it is")
    engine.remember(claude, statement="red fox, ish, C and C")

    answer = engine.search_text(claude, query=query)

    assert [hit.id for hit in answer.hits] == [exact.id]
    assert answer.fallback is msgspec.UNSET


@pytest.mark.parametrize("query", ["数据", "据库", "東京", "데이터"])
def test_search_finds_two_characters_inside_a_run(
    engine: Engine, claude: t.Caller, query: str
):
    engine.remember(claude, statement="other 据 数 words")
    receipt = engine.remember(claude, statement="这个数据库在東京都, 데이터베이스")

    assert found(engine, query) == [receipt.id]


@pytest.mark.parametrize("top_k", [1, 3, 50])
def test_search_returns_at_most_top_k(engine: Engine, claude: t.Caller, top_k: int):
    for number in range(5):
        engine.remember(claude, statement=f"fox number {number}")

    assert len(found(engine, "fox", top_k=top_k)) == min(top_k, 5)


@pytest.mark.parametrize("top_k", [0, -1, 51])
def test_search_for_too_few_or_many(engine: Engine, claude: t.Caller, top_k: int):
    with pytest.raises(Invalid):
        engine.search_text(claude, query="fox", top_k=top_k)


@pytest.mark.parametrize("query", ["", " ", "x" * 10_001, "\ud800"])
def test_search_that_is_refused(engine: Engine, claude: t.Caller, query: str):
    with pytest.raises(Invalid):
        engine.search_text(claude, query=query)


def test_search_of_a_note_says_where_it_stands(home: Home, claude: t.Caller):
    home.write(
        "plans/2026-01-02 trip.md",
        "---\ntitle: The trip\nscope: fjord\n---\n# Days\n\n## First\n\nBergen by ship.",
    )
    engine = home.open()

    hit = engine.search_text(claude, query="Bergen by ship").hits[0]

    assert hit == t.Hit(
        id="note:plans/2026-01-02 trip.md",
        title="The trip",
        text="## First\n\nBergen by ship.",
        heading_path=["Days", "First"],
        session_date="2026-01-02",
        score=hit.score,
        reason="fts",
        matched=True,
        scope="project:fjord",
        source="",
    )


def test_search_lists_a_memory_once(home: Home, claude: t.Caller):
    home.write("long.md", "\n\n".join(f"# Part {n}\n\nzebra {n}" for n in range(40)))
    engine = home.open()

    assert found(engine, "zebra") == ["note:long.md"]


def test_search_when_a_word_stands_nearly_everywhere(home: Home, claude: t.Caller):
    for number in range(520):
        home.write(
            f"{number}.md", f"common words {number} {'rare' if number == 7 else ''}"
        )
    engine = home.open()

    context = engine.get_context(claude, query="rare common")
    only = engine.get_context(claude, query="common")

    assert [hit.id for hit in context.memories] == ["note:7.md"]
    assert len(only.memories) == 24


# --- retrieve_memory


def test_retrieve_as_of_the_edges(home: Home, engine: Engine, claude: t.Caller):
    save(engine, claude, "PostgreSQL")
    home.clock.move(days=1)
    save(engine, claude, "SQLite")

    answers = {
        as_of: engine.retrieve_memory(claude, subject="Fjord", as_of=as_of)
        for as_of in (
            *("2026-11-30T11:59:59.999Z", "2026-11-30T12:00:00Z"),
            *("2026-12-01T11:59:59.999Z", "2026-12-01T12:00:00Z"),
            *("2026-11-29", "2026-11-30", "2026-12-01", "2999-12-31"),
            *("2026-12-01T13:59:59.999+02:00", "2026-11-30T12:00:00"),
        )
    }

    assert [[f.object for f in answer.facts] for answer in answers.values()] == [
        *([], ["PostgreSQL"], ["PostgreSQL"], ["SQLite"]),
        *([], ["PostgreSQL"], ["SQLite"], ["SQLite"]),
        *(["PostgreSQL"], ["PostgreSQL"]),
    ]
    assert all(answer.known for answer in answers.values())
    then = answers["2026-11-30"].facts[0]
    assert (then.current, then.valid_to) == (False, "2026-12-01T12:00:00.000Z")
    assert answers["2026-11-30"].as_of == "2026-11-30T23:59:59.999Z"


def test_retrieve_by_predicate(engine: Engine, claude: t.Caller):
    save(engine, claude, "SQLite")
    save(engine, claude, "Go", predicate="language")

    def objects(predicate: str = "") -> list[str]:
        answer = engine.retrieve_memory(claude, subject=" Fjord", predicate=predicate)
        assert answer.known
        return [fact.object for fact in answer.facts]

    assert objects() == ["Go", "SQLite"]
    assert objects("database ") == ["SQLite"]
    assert objects("owner") == []


def test_retrieve_an_unknown_subject(engine: Engine, claude: t.Caller):
    save(engine, claude, "SQLite")
    save(engine, claude, "x", subject="Bergen")

    answer = engine.retrieve_memory(claude, subject="fjörd")

    assert (answer.known, answer.facts) == (False, [])
    assert answer.closest_subjects == ["Fjord"]


def test_retrieve_no_subject_names_the_known_ones(engine: Engine, claude: t.Caller):
    save(engine, claude, "SQLite")
    save(engine, claude, "x", subject="Bergen")

    with pytest.raises(Invalid) as raised:
        engine.retrieve_memory(claude, subject=" ")

    assert raised.value.details == {"knownSubjects": ["Bergen", "Fjord"]}


@pytest.mark.parametrize(
    "given",
    [
        {"subject": "s" * 201},
        {"subject": "s", "predicate": "p" * 201},
        {"subject": "s", "as_of": "soon"},
        {"subject": "s", "scope": "soon"},
        {"subject": "\x00s"},
    ],
)
def test_retrieve_that_is_refused(
    engine: Engine, claude: t.Caller, given: dict[str, str]
):
    with pytest.raises(Invalid):
        engine.retrieve_memory(claude, **given)  # type: ignore[arg-type]  # all texts


# --- read_memory


def test_read_a_long_note_in_pieces(home: Home, claude: t.Caller):
    text = "".join(f"line {number} é漢\n" for number in range(5_000))
    home.write("long.md", text)
    engine = home.open()

    pieces, offset = [], 0
    while True:
        memory = engine.read_memory(claude, id="note:long.md", offset=offset)
        assert (memory.offset, memory.total_chars) == (offset, len(text))
        assert len(msgspec.json.encode(memory.text)) <= 16_000
        pieces.append(memory.text)
        if memory.next_offset is msgspec.UNSET:
            break
        offset = memory.next_offset

    assert "".join(pieces) == text


def test_read_a_note(home: Home, claude: t.Caller):
    text = "---\ndate: 2026-01-02\ntags: [x]\n---\n# Title\n\nSee [[other]] #y"
    home.write("a.md", "\ufeff" + text.replace("\n", "\r\n"))
    engine = home.open()

    memory = engine.read_memory(claude, id="note:a.md")

    assert (memory.text, memory.title, memory.kind) == (text, "Title", "note")
    assert (memory.session_date, memory.tags) == ("2026-01-02", ["x", "y"])
    assert (memory.links, memory.writer) == (["other"], "")
    assert memory.writer_authenticated is msgspec.UNSET


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("2026-11-29.md", "by hand"),
        ("logs/2026-11-29.md", "by hand"),
        ("Imported/x/2026-11-29.md", "by hand"),
        ("2026 plans.md", "by hand"),
        ("empty.md", ""),
        ("2026-11-28.md", ""),
    ],
)
def test_read_notes_of_any_name(home: Home, claude: t.Caller, path: str, text: str):
    home.write(path, text)
    engine = home.open()

    assert engine.read_memory(claude, id=f"note:{path}").text == text


def test_read_a_day_log_gives_its_hand_text(
    home: Home, engine: Engine, claude: t.Caller
):
    engine.remember(claude, statement="an entry")
    before = engine.read_memory(claude, id=f"note:{TODAY}.md").text
    with (home.store / f"{TODAY}.md").open("a") as file:
        file.write("\nby hand\n")
    scan(engine)

    assert before == ""
    assert engine.read_memory(claude, id=f"note:{TODAY}.md").text == "by hand"


def test_read_a_fact(home: Home, engine: Engine, claude: t.Caller):
    first = save(engine, claude, "PostgreSQL")
    second = engine.remember(
        claude,
        statement="It is SQLite now.",
        subject="Fjord",
        predicate="database",
        object="SQLite",
    )

    old = engine.read_memory(claude, id=first.id)
    new = engine.read_memory(claude, id=second.id, offset=3)

    assert (old.text, old.current, old.valid_to) == (
        *("Fjord database: PostgreSQL", False),
        "2026-11-30T12:00:00.001Z",
    )
    assert (new.text, new.current, new.valid_to) == (
        *("is SQLite now.", True),
        msgspec.UNSET,
    )
    assert (new.subject, new.predicate, new.object) == ("Fjord", "database", "SQLite")


def test_read_at_and_beyond_the_end(engine: Engine, claude: t.Caller):
    receipt = engine.remember(claude, statement="abc")

    assert engine.read_memory(claude, id=receipt.id, offset=3).text == ""
    for offset in (4, -1):
        with pytest.raises(Invalid):
            engine.read_memory(claude, id=receipt.id, offset=offset)


@pytest.mark.parametrize(
    "unknown",
    [
        *("note:none.md", "entry:none", "fact:none", "fact:", "none", "note:"),
        *("note:../workspace.json", "note:/etc/passwd", "note:facts.jsonl", "entry:#"),
        *(
            "note:" + "x" * 3_000,
            "fact:' OR 1=1",
            "note:%",
            "note:A.md",
            "entry:a.md#e",
        ),
    ],
)
def test_read_of_what_is_not_there(home: Home, claude: t.Caller, unknown: str):
    home.write("a.md", "here")
    engine = home.open()

    with pytest.raises(NotFound):
        engine.read_memory(claude, id=unknown)


@pytest.mark.parametrize("refused", ["", " ", "note:\x00", "note:\ud800", "x" * 5_001])
def test_read_of_what_is_no_id(engine: Engine, claude: t.Caller, refused: str):
    with pytest.raises(Invalid):
        engine.read_memory(claude, id=refused)


def test_read_of_a_note_that_is_gone_before_a_scan(home: Home, claude: t.Caller):
    path = home.write("a.md", "here")
    engine = home.open()
    path.unlink()

    with pytest.raises(EngineError):
        engine.read_memory(claude, id="note:a.md")


def test_read_of_an_entry_in_a_file_moved_by_hand_names_its_new_id(
    home: Home, engine: Engine, claude: t.Caller
):
    receipt = engine.remember(claude, statement="an entry")
    (home.store / "logs").mkdir()
    (home.store / f"{TODAY}.md").rename(home.store / "logs" / f"{TODAY}.md")
    scan(engine)

    with pytest.raises(NotFound) as raised:
        engine.read_memory(claude, id=receipt.id)

    current = raised.value.details["currentId"]
    assert current == f"entry:logs/{TODAY}.md#{receipt.event_id}"
    assert engine.read_memory(claude, id=str(current)).text == "an entry"


def test_read_of_a_note_moved_by_hand_names_its_new_id(
    home: Home, engine: Engine, claude: t.Caller
):
    home.write("plan.md", "the plan")
    scan(engine)
    (home.store / "old").mkdir()
    (home.store / "plan.md").rename(home.store / "old" / "plan of May.md")
    scan(engine)

    with pytest.raises(NotFound) as raised:
        engine.read_memory(claude, id="note:plan.md")

    assert raised.value.details["currentId"] == "note:old/plan of May.md"
    home.write("plan.md", "another plan")
    scan(engine)
    assert engine.read_memory(claude, id="note:plan.md").text == "another plan"


# --- what a scoped connection may not see


def test_scoped_connection_sees_its_scope_alone(home: Home, engine: Engine):
    claude, guest = make_caller(), make_caller("guest", scopes=("project:fjord",))
    inside = engine.remember(claude, statement="zebra in", scope="project:fjord")
    outside = engine.remember(claude, statement="zebra out")
    fact_in = save(engine, claude, "zebra", scope="project:fjord")
    fact_out = save(engine, claude, "zebra", subject="Other")
    home.write("note.md", "zebra note")
    scan(engine)

    context = engine.get_context(guest, query="zebra")
    assert [hit.id for hit in context.memories] == [inside.id]
    assert [fact.id for fact in context.facts] == [fact_in.id]
    assert [fact.id for fact in engine.get_context(guest).facts] == [fact_in.id]
    hits = engine.search_text(guest, query="zebra").hits
    assert {hit.id for hit in hits} == {inside.id, fact_in.id}
    recent = engine.list_recent(guest).memories
    assert [memory.id for memory in recent] == [fact_in.id, inside.id]
    for hidden in (outside.id, fact_out.id, "note:note.md"):
        with pytest.raises(NotFound):
            engine.read_memory(guest, id=hidden)
    status = engine.memory_status(guest)
    assert (status.notes, status.entries, status.facts, status.entities) == (0, 1, 1, 1)
    assert (status.chunks, status.problems) == (1, [])


def test_scoped_connection_and_subjects_it_may_not_see(
    engine: Engine, claude: t.Caller, guest: t.Caller
):
    save(engine, claude, "hidden")
    save(engine, claude, "seen", subject="Fjords", scope="project:fjord")

    answer = engine.retrieve_memory(guest, subject="Fjord", include_history=True)

    assert (answer.known, answer.facts) == (False, [])
    assert answer.closest_subjects == ["Fjords"]
    with pytest.raises(Invalid) as raised:
        engine.retrieve_memory(guest, subject="")
    assert raised.value.details == {"knownSubjects": ["Fjords"]}


@pytest.mark.parametrize("scope", ["global", "project:other", "scope:none"])
def test_scoped_connection_asking_elsewhere(
    engine: Engine, claude: t.Caller, guest: t.Caller, scope: str
):
    save(engine, claude, "hidden")
    engine.remember(claude, statement="hidden", scope="project:other")

    context = engine.get_context(guest, query="hidden", scope=scope)

    assert (context.facts, context.memories) == ([], [])
    assert context.relevance == t.Relevance(relevant=False, reason="empty")
    answer = engine.retrieve_memory(guest, subject="Fjord", scope=scope)
    assert (answer.known, answer.closest_subjects) == (False, [])


def test_scoped_connection_and_files_it_may_not_see(home: Home, guest: t.Caller):
    home.write("secret-name.md", b"\xff")
    (home.store / "secret-link.md").symlink_to("secret-name.md")
    engine = home.open()

    report = engine.index_memory(guest)

    assert "secret" not in msgspec.json.encode(report).decode()
    assert (report.total, report.errors) == (0, 0)


def test_scoped_connection_gets_the_same_scores_whatever_else_there_is(
    home: Home, engine: Engine, claude: t.Caller, guest: t.Caller
):
    engine.remember(claude, statement="zebra and horse", scope="project:fjord")
    engine.remember(claude, statement="horse alone here", scope="project:fjord")
    before = engine.get_context(guest, query="zebra horse donkey")

    for number in range(20):
        engine.remember(claude, statement=f"zebra donkey number {number} of others")

    assert engine.get_context(guest, query="zebra horse donkey") == before


def test_read_in_a_scope(engine: Engine, claude: t.Caller):
    save(engine, claude, "PostgreSQL")
    save(engine, claude, "SQLite", scope="project:fjord")

    def objects(scope: str) -> list[str]:
        answer = engine.retrieve_memory(claude, subject="Fjord", scope=scope)
        return [fact.object for fact in answer.facts]

    assert objects("") == ["SQLite", "PostgreSQL"]
    assert objects("global") == ["PostgreSQL"]
    assert objects("scope:fjord") == ["SQLite"]
    assert objects("project:other") == []


def test_note_with_a_scope_in_its_front_matter(home: Home, guest: t.Caller):
    home.write("a.md", "---\nscope: fjord\n---\nzebra")
    home.write("b.md", "---\nscope: project:fjord\n---\nzebra too")
    home.write("c.md", "---\nscope: 'Not a slug'\n---\nzebra")
    engine = home.open()

    hits = engine.search_text(guest, query="zebra").hits

    assert sorted(hit.id for hit in hits) == ["note:a.md", "note:b.md"]
    problems = engine.memory_status(make_caller()).problems
    assert [(problem.path, problem.code) for problem in problems] == [("c.md", "file")]


# --- status, recent, verify


def test_status_of_a_workspace(home: Home, claude: t.Caller):
    home.write("a.md", "# A\n\na\n\n# B\n\nb")
    engine = home.open()
    engine.remember(claude, statement="an entry")
    save(engine, claude, "PostgreSQL")
    save(engine, claude, "SQLite")

    status = engine.memory_status(make_caller(limit_bytes=1_000))

    counts = (status.entries, status.chunks, status.facts, status.entities)
    assert counts == (1, 3, 2, 2)
    assert (status.retired, status.semantic, status.embedding_dims) == (0, False, 0)
    assert status.storage == t.Storage(used_bytes=22, limit_bytes=1_000)
    assert (status.problems, status.index) == ([], t.IndexState(stale=False))
    assert msgspec.json.decode(msgspec.json.encode(status), type=t.Status) == status


def test_recent_memories(home: Home, engine: Engine, claude: t.Caller):
    entry = engine.remember(claude, statement="# An entry\nof two lines")
    old = save(engine, claude, "PostgreSQL")
    fact = save(engine, claude, "SQLite")

    recent = engine.list_recent(claude, limit=10).memories

    assert [(m.id, m.kind, m.title, m.writer) for m in recent] == [
        (fact.id, "fact", "Fjord database: SQLite", "claude"),
        (entry.id, "entry", "An entry", "claude"),
    ]
    assert old.id not in {memory.id for memory in recent}
    assert len(engine.list_recent(claude, limit=1).memories) == 1


def test_verify_of_a_sound_store(home: Home, claude: t.Caller):
    home.write("a.md", "a note")
    engine = home.open()
    engine.remember(claude, statement="an entry")
    save(engine, claude, "SQLite")

    assert engine.verify(claude) == t.Verification(
        events=1, entries=1, notes=2, problems=[]
    )


def test_index_memory_reports_what_it_did(home: Home, engine: Engine, claude: t.Caller):
    home.write("a.md", "a")
    home.write("b.md", b"caf\xe9")
    (home.store / "link.md").symlink_to("a.md")

    report = engine.index_memory(claude)
    again = engine.index_memory(claude)

    assert (report.ok, report.total, report.indexed, report.errors) == (True, 2, 2, 2)
    assert [(file.path, file.reason) for file in report.skipped] == [
        ("link.md", "symbolic link: not followed"),
        ("b.md", "invalid UTF-8: the odd bytes are shown as U+FFFD"),
    ]
    assert (again.total, again.indexed) == (2, 0)


def test_index_memory_that_runs_out_of_time(home: Home):
    for number in range(250):
        home.write(f"{number}.md", "word " * 20_000)
    engine = home.open(scan_seconds=0)

    report = engine.index_memory(make_caller(deadline_ms=1))

    assert (report.ok, report.warning) == (False, "index-unfinished")
