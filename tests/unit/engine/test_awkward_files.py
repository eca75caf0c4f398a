"""Files as people have them: each odd one is named, and the rest works."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import socket
import subprocess
import unicodedata
from pathlib import Path

import msgspec
import pytest

from memories.engine import files, recall
from memories.engine import types as t
from memories.engine.engine import Engine
from memories.engine.errors import EngineError, NotFound
from memories.engine.files import MAX_FILE_BYTES
from tests.unit.engine.homes import Home, make_caller, require_rebuilt_equal, scan
from tests.unit.engine.test_store_hands import codes, entries, found, save

TODAY = "2026-11-30.md"


def place(home: Home, raw: bytes) -> Path:
    return Path(os.fsdecode(os.fsencode(home.store) + b"/" + raw))


def put(home: Home, raw: bytes, data: bytes | None = None) -> Path:
    """Write a file, for its name alone with words of its own: equal ones are folded."""
    path = place(home, raw)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(f"zebra of {raw!r}".encode() if data is None else data)
    return path


def fingerprint(home: Home) -> dict[bytes, tuple[object, ...]]:
    """Return name, kind, times and content of all that lies in the store."""
    said: dict[bytes, tuple[object, ...]] = {}
    for folder, folders, names in os.walk(os.fsencode(home.store)):
        for name in (*folders, *names):
            path = Path(os.fsdecode(folder + b"/" + name))
            shown = path.lstat()
            content = b""
            if path.is_file() and not path.is_symlink():
                content = hashlib.sha256(path.read_bytes()).digest()
            said[folder + b"/" + name] = (shown.st_mode, shown.st_mtime_ns, content)
    return said


def problems(engine: Engine) -> dict[str, str]:
    return {
        one.path: one.message for one in engine.memory_status(make_caller()).problems
    }


def skipped(engine: Engine) -> dict[str, str]:
    report = engine.index_memory(make_caller())
    assert report.errors == len(report.skipped)
    return {one.path: one.reason for one in report.skipped}


def read_whole(engine: Engine, memory_id: str) -> str:
    """Read a memory to its end, as an agent does that was given its id."""
    text, offset = "", 0
    while True:
        part = engine.read_memory(make_caller(), id=memory_id, offset=offset)
        text += part.text
        if part.next_offset is msgspec.UNSET:
            return text
        offset = part.next_offset


# --- names


ODD_NAMES = [
    *(b"it's.md", b'"quoted".md', b"100%.md", b"a_b.md", b"a b .md", b" .md"),
    *(b"line\nend.md", b"tab\t.md", b"bell\x07.md", b"\x1b[31m.md", b"c1\xc2\x80.md"),
    *(b"a#b.md", b"a@b.md", b"note:a.md", b"a?b&c=d.md", b"*.md", b"a..md"),
    *("\U0001f469\u200d\U0001f680.md".encode(), "\u202egnp.md".encode()),
    *(b"x" * 252 + b".md", b"a.MARKDOWN", b"x.md/inner.md", b"x.md/x.md/x.md"),
    *(b"Case.md", b"case.md", b"CASE.md", b"%2e%2e/a.md", b"~/a.md", b"-rf/-.md"),
    *(b"/".join([b"d"] * 200) + b"/deep.md", b"/".join([b"long" * 40] * 20) + b"/a.md"),
]


def test_every_name_that_a_disk_allows_can_be_found_and_read(home: Home):
    for number, raw in enumerate(ODD_NAMES):
        put(home, raw, f"zebra number{number}".encode())
    before = fingerprint(home)

    engine = home.open()

    for number, raw in enumerate(ODD_NAMES):
        assert found(engine, f"number{number}") == [f"note:{raw.decode()}"]
        whole = read_whole(engine, f"note:{raw.decode()}")
        assert whole == f"zebra number{number}"
    assert skipped(engine) == {}
    assert fingerprint(home) == before
    require_rebuilt_equal(home, engine)


def test_names_that_are_not_utf8_are_named(home: Home, engine: Engine):
    put(home, b"caf\xe9.md")
    put(home, b"\xff\xfe/inner.md")
    put(home, b"\xff\xfe/2026-01-02.md", b"x" * (MAX_FILE_BYTES + 1))
    put(home, b"fine.md")
    before = fingerprint(home)

    scan(engine)

    assert found(engine, "zebra") == ["note:fine.md"]
    assert set(skipped(engine).values()) == {files.NOT_UTF8}
    report = engine.index_memory(make_caller())
    assert sorted(report.skipped_non_utf8_names) == [
        "caf\ufffd.md",
        "\ufffd\ufffd/2026-01-02.md",
        "\ufffd\ufffd/inner.md",
    ]
    assert fingerprint(home) == before


@pytest.mark.parametrize("first", ["NFC", "NFD"])
def test_spellings_of_one_name_are_one_note(home: Home, engine: Engine, first: str):
    """A note is the same when a disk or git spells its name in another form."""
    composed = unicodedata.normalize("NFC", "caf\u00e9/\u00e3.md")
    apart = unicodedata.normalize("NFD", composed)
    old, new = (composed, apart) if first == "NFC" else (apart, composed)
    put(home, old.encode(), b"zebra")
    scan(engine)

    for given in (composed, apart):
        assert engine.read_memory(make_caller(), id=f"note:{given}").text == "zebra"
    place(home, new.encode()).parent.mkdir()
    place(home, old.encode()).rename(place(home, new.encode()))
    scan(engine)

    for given in (composed, apart):
        assert engine.read_memory(make_caller(), id=f"note:{given}").text == "zebra"
    assert found(engine, "zebra") == [f"note:{composed}"]
    retired = engine.retire_memory(make_caller(), id=f"note:{apart}")
    assert retired.id == f"note:{composed}"
    engine.restore_memory(make_caller(), id=f"note:{apart}")
    assert place(home, new.encode()).read_bytes() == b"zebra"
    require_rebuilt_equal(home, engine)


def test_a_save_may_name_a_note_in_either_form(home: Home, engine: Engine):
    put(home, "caf\u00e9.md".encode(), b"zebra")
    scan(engine)
    apart = unicodedata.normalize("NFD", "note:caf\u00e9.md")

    receipt = engine.remember(
        make_caller(), statement="newer words", replaces=apart, cites=apart
    )

    assert receipt.warnings == []
    replaced = engine.read_memory(make_caller(), id="note:caf\u00e9.md").replaced
    assert replaced is not msgspec.UNSET
    assert replaced.by == receipt.id


def test_two_names_that_differ_in_form_only(home: Home, engine: Engine):
    name = "\u00e9/a.md"
    names = [unicodedata.normalize("NFC", name), unicodedata.normalize("NFD", name)]
    for name in names:
        put(home, name.encode(), name.encode())
    before = fingerprint(home)

    scan(engine)

    assert skipped(engine) == {
        "\u00e9/a.md": "another file has the same name in another form"
    }
    assert engine.memory_status(make_caller()).notes == 1
    assert fingerprint(home) == before


def test_a_hard_link_is_a_note_of_its_own(home: Home, engine: Engine):
    put(home, b"a.md", b"zebra")
    os.link(home.store / "a.md", home.store / "b.md")

    scan(engine)

    for memory_id in ("note:a.md", "note:b.md"):
        assert read_whole(engine, memory_id) == "zebra"


# --- bytes


WORDS = "zebra ol\u00e1 \u4e2d\u6587 \U0001f680"
ODD_BYTES = {
    "mark": (b"\xef\xbb\xbf" + WORDS.encode(), WORDS, ""),
    "crlf": (b"zebra\r\ntwo\r\n", "zebra\ntwo\n", ""),
    "cr": (b"zebra\rtwo\r", "zebra\ntwo\n", ""),
    "mixed": (b"zebra\r\ntwo\rthree\n", "zebra\ntwo\nthree\n", ""),
    "utf-16": (WORDS.encode("utf-16"), WORDS, "UTF-16"),
    "utf-16-be": (b"\xfe\xff" + WORDS.encode("utf-16-be"), WORDS, "UTF-16"),
    "no mark, le": (WORDS.encode("utf-16-le"), WORDS, "UTF-16"),
    "no mark, be": (WORDS.encode("utf-16-be"), WORDS, "UTF-16"),
    "odd utf-16": ("zebra".encode("utf-16") + b"x", "zebra\ufffd", "UTF-16"),
    "invalid": (b"zebra \xff\xc3", "zebra \ufffd\ufffd", "invalid UTF-8"),
    "surrogate": (b"zebra \xed\xa0\x80", "zebra \ufffd\ufffd\ufffd", "invalid UTF-8"),
    "nul": (b"zebra\x00apple\x00x", "zebra\x00apple\x00x", ""),
    "controls": (b"zebra \x07\x1b[0m", "zebra \x07\x1b[0m", ""),
    "no line end": (b"zebra", "zebra", ""),
    "one long line": (b"zebra " * 9_000, "zebra " * 9_000, ""),
}


@pytest.mark.parametrize("name", ODD_BYTES)
def test_odd_bytes_are_read_and_left(home: Home, engine: Engine, name: str):
    data, text, problem = ODD_BYTES[name]
    put(home, b"odd.md", data)
    put(home, b"fine.md")
    before = fingerprint(home)

    scan(engine)

    assert set(found(engine, "zebra")) == {"note:odd.md", "note:fine.md"}
    assert read_whole(engine, "note:odd.md") == text
    named = problems(engine).get("odd.md", "")
    assert named.startswith(problem)
    assert bool(named) == bool(problem)
    assert skipped(engine) == problems(engine)
    assert fingerprint(home) == before
    require_rebuilt_equal(home, engine)


def test_words_after_a_nul_are_found(home: Home, engine: Engine):
    put(home, b"odd.md", b"first\x00\n\nzebra words")
    scan(engine)

    assert found(engine, "zebra words") == ["note:odd.md"]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_words_are_taken_out_of_utf16_without_a_mark(
    home: Home, engine: Engine, encoding: str
):
    owner = make_caller("owner", acts=frozenset({"read", "write", "own"}))
    path = put(home, b"odd.md", "keep this secret word".encode(encoding))
    scan(engine)
    shown = engine.read_memory(owner, id="note:odd.md")

    engine.redact(
        owner,
        id="note:odd.md",
        spans=[[10, 16]],
        expected_sha256=str(shown.sha256),
    )

    assert path.read_bytes().decode(encoding) == "keep this [redacted] word"


@pytest.mark.parametrize("data", [b"", b"\n", b" \n\t", b"\xef\xbb\xbf", b"---\n---\n"])
def test_empty_files_are_notes(home: Home, engine: Engine, data: bytes):
    put(home, b"empty.md", data)
    put(home, b"fine.md")

    scan(engine)

    assert engine.read_memory(make_caller(), id="note:empty.md").title == "empty"
    assert found(engine, "zebra") == ["note:fine.md"]
    assert skipped(engine) == {}


@pytest.mark.parametrize("name", [b"big.md", b"Imported/x/2026-01-02.md"])
def test_a_file_of_50_mb_is_named_and_not_read(
    home: Home, engine: Engine, monkeypatch: pytest.MonkeyPatch, name: bytes
):
    with put(home, name).open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    put(home, b"fine.md")
    read = files.read

    def read_small(path: Path, offset: int = 0):
        assert path.stat().st_size < MAX_FILE_BYTES
        return read(path, offset)

    monkeypatch.setattr(files, "read", read_small)

    report = engine.index_memory(make_caller())

    assert report.skipped_too_large == [name.decode()]
    assert problems(engine) == {name.decode(): files.TOO_LARGE}
    assert found(engine, "zebra") == ["note:fine.md"]


# --- front matter


SAID = "---\n{}\n---\nzebra words\n"
ODD_FRONT = {
    "no end": ("---\ntitle: A\nzebra words\n", "has no end"),
    "too long": (SAID.format("a: b\n" * 14_000), "over 64 KiB"),
    "tab": (SAID.format("title:\n\t- a"), "not valid YAML"),
    "no yaml": (SAID.format("title: [a"), "not valid YAML"),
    "alias bomb": (
        SAID.format(
            "a: &a [x, x, x]\n"
            + "".join(
                f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
                for old, new in zip("abcdefghijkl", "bcdefghijklm", strict=True)
            )
            + "tags: *m"
        ),
        "",
    ),
    "endless alias": (SAID.format("title: &a [*a]"), "title"),
    "title": (SAID.format("title: {a: b}"), "title"),
    "scope": (SAID.format("scope: [fjord]"), "scope"),
    "scope words": (SAID.format("scope: Not A Slug!"), 'scope "project:Not A Slug!"'),
    "tags": (SAID.format("tags: {a: b}"), "tags"),
    "aliases": (SAID.format("aliases: {a: b}"), "aliases"),
    "no such day": (SAID.format("date: 2026-02-30"), "date"),
    "no day": (SAID.format("date: soon"), "date"),
    "year 1": (SAID.format("date: 0001-01-01"), "date"),
    "year 9999": (SAID.format("created: 9999-12-31"), "created"),
    "numbers": (SAID.format("title: 7\nscope: 7\ntags: 7\naliases: 7.5"), ""),
    "nothing": (SAID.format("title:\nscope:\ntags:\naliases:\ndate:"), ""),
    "twice": (SAID.format("title: A\ntitle: B"), ""),
    "a rule": ("---\n\nzebra words\n\n---\n", ""),
    "a rule alone": ("---\nzebra words\n", ""),
}


@pytest.mark.parametrize("name", ODD_FRONT)
def test_bad_front_matter_costs_no_word(home: Home, engine: Engine, name: str):
    text, problem = ODD_FRONT[name]
    put(home, b"odd.md", text.encode())
    put(home, b"fine.md")
    before = fingerprint(home)

    scan(engine)

    assert set(found(engine, "zebra")) == {"note:odd.md", "note:fine.md"}
    assert read_whole(engine, "note:odd.md") == text
    named = problems(engine)
    assert problem in named.get("odd.md", "")
    assert ("odd.md" in named) == bool(problem)
    assert skipped(engine) == named
    assert fingerprint(home) == before
    require_rebuilt_equal(home, engine)


def test_a_day_that_no_calendar_has_takes_nothing_else_along(
    home: Home, engine: Engine
):
    put(home, b"a.md", b"---\ntitle: The plan\nscope: fjord\ndate: 2026-02-30\n---\nx")
    scan(engine)

    memory = engine.read_memory(make_caller(), id="note:a.md")

    assert (memory.title, memory.scope) == ("The plan", "project:fjord")


# --- what is no file, or cannot be read


def test_what_is_no_file_is_never_opened(
    home: Home, engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("zebra outside", "utf-8")
    os.mkfifo(home.store / "pipe.md")
    os.mknod(home.store / "device.md", 0o600 | 0o020000, os.makedev(1, 3))
    (home.store / "dangling.md").symlink_to("nowhere.md")
    (home.store / "loop.md").symlink_to("loop.md")
    (home.store / "around").symlink_to("around")
    (home.store / "up").symlink_to("..")
    (home.store / "folder").symlink_to(outside)
    (home.store / "file.md").symlink_to(outside / "secret.md")
    put(home, b"fine.md")
    opened: list[str] = []
    really = os.open

    def watched(path, *given, **named):
        opened.append(os.fsdecode(path) if not isinstance(path, int) else "")
        return really(path, *given, **named)

    monkeypatch.setattr(os, "open", watched)
    with socket.socket(socket.AF_UNIX) as bound:
        monkeypatch.chdir(home.store)
        bound.bind("socket.md")
        scan(engine)
        named = skipped(engine)

    assert named == problems(engine)
    assert set(named) == {
        *("pipe.md", "device.md", "socket.md", "dangling.md", "loop.md"),
        *("around", "up", "folder", "file.md"),
    }
    assert not {Path(path).name for path in opened} & set(named)
    assert found(engine, "zebra") == ["note:fine.md"]


def test_a_folder_that_became_a_link_is_not_followed(
    home: Home, engine: Engine, tmp_path: Path
):
    put(home, b"notes/a.md", b"zebra")
    scan(engine)
    outside = tmp_path / "outside"
    (home.store / "notes").rename(outside)
    (outside / "a.md").write_text("secret outside", "utf-8")
    (home.store / "notes").symlink_to(outside)

    with pytest.raises(EngineError):
        engine.read_memory(make_caller(), id="note:notes/a.md")
    scan(engine)

    assert found(engine, "zebra") == []
    assert found(engine, "secret outside") == []
    assert problems(engine) == {"notes": "symbolic link: not followed"}


def vanish(path: Path) -> None:
    path.unlink()


def become_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def become_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def become_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


@pytest.mark.parametrize("becomes", [vanish, become_folder, become_pipe, become_link])
@pytest.mark.parametrize("name", ["b.md", "sub/2026-01-02.md"])
def test_a_file_that_changes_its_kind_while_it_is_read(
    home: Home, engine: Engine, monkeypatch: pytest.MonkeyPatch, becomes, name: str
):
    for each in ("a.md", name, "c.md"):
        put(home, each.encode())
    read = files.read

    def read_late(path: Path, offset: int = 0):
        if path == home.store / name and path.is_file() and not path.is_symlink():
            becomes(path)
        return read(path, offset)

    monkeypatch.setattr(files, "read", read_late)
    scan(engine)
    scan(engine)

    assert set(found(engine, "zebra")) == {"note:a.md", "note:c.md"}
    assert "scan-stopped" not in codes(engine)
    monkeypatch.undo()
    require_rebuilt_equal(home, engine)


@pytest.mark.parametrize("fault", [errno.EACCES, errno.EIO, errno.EMFILE])
def test_a_file_that_cannot_be_read_for_a_while(
    home: Home, engine: Engine, monkeypatch: pytest.MonkeyPatch, fault: int
):
    put(home, b"a.md")
    put(home, b"fine.md")
    read = files.read

    def refuse(path: Path, offset: int = 0):
        if path.name == "a.md":
            raise OSError(fault, os.strerror(fault))
        return read(path, offset)

    monkeypatch.setattr(files, "read", refuse)
    scan(engine)
    during = (found(engine, "zebra"), skipped(engine), problems(engine))
    monkeypatch.undo()
    scan(engine)

    reason = {"a.md": os.strerror(fault)}
    assert during == (["note:fine.md"], reason, reason)
    assert set(found(engine, "zebra")) == {"note:a.md", "note:fine.md"}
    assert skipped(engine) == {}


@pytest.mark.parametrize("folder", ["", "sub"])
def test_a_folder_that_cannot_be_listed_loses_nothing(
    home: Home,
    engine: Engine,
    claude: t.Caller,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
):
    """What cannot be seen is not gone: no entry is retired, no note forgotten."""
    receipt = engine.remember(claude, statement="zebra words")
    put(home, b"sub/a.md")
    put(home, b"other.md")
    (home.store / TODAY).rename(home.store / "sub" / TODAY)
    scan(engine)
    home.clock.move(minutes=11)
    whole = set(found(engine, "zebra"))
    scandir = os.scandir
    closed = os.fsencode(home.store / folder).rstrip(b"/")

    def refuse(path):
        if os.fsencode(path).rstrip(b"/") == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    scan(engine)
    during = (set(found(engine, "zebra")), skipped(engine))
    monkeypatch.undo()
    scan(engine)

    assert during == (whole, {folder: os.strerror(errno.EACCES)})
    assert engine.memory_status(claude).retired == 0
    assert entries(home) == [f"entry:sub/{TODAY}#{receipt.id.rpartition('#')[2]}"]
    assert set(found(engine, "zebra")) == whole
    assert skipped(engine) == {}


# --- editors, folders, git


def test_what_editors_leave_beside_a_note_is_no_memory(home: Home, engine: Engine):
    path = put(home, b"a.md", b"zebra one")
    scan(engine)
    for name in ("a.md~", ".a.md.swp", "4913", "#a.md#", ".#a.md", "a.md.bak", "a.tmp"):
        (home.store / name).write_text("zebra other", "utf-8")
    path.rename(home.store / "a.md.orig")
    put(home, b"a.md", b"zebra two")

    scan(engine)

    assert found(engine, "zebra") == ["note:a.md"]
    assert read_whole(engine, "note:a.md") == "zebra two"
    assert skipped(engine) == {}


def test_twenty_files_saved_at_once(home: Home, engine: Engine):
    for number in range(20):
        put(home, f"n{number}.md".encode(), b"before zebra")
    scan(engine)
    for number in range(20):
        home.swap(f"n{number}.md", f"number{number} zebra".encode())

    report = engine.index_memory(make_caller())

    assert (report.ok, report.indexed, report.total) == (True, 20, 20)
    assert found(engine, "before") == []
    for number in range(20):
        assert found(engine, f"number{number}") == [f"note:n{number}.md"]


def test_a_folder_renamed_moved_out_and_back(
    home: Home, engine: Engine, claude: t.Caller, tmp_path: Path
):
    receipt = engine.remember(claude, statement="the words of an agent")
    for number in range(5):
        put(home, f"old/n{number}.md".encode(), f"zebra number{number}".encode())
    (home.store / TODAY).rename(home.store / "old" / TODAY)
    scan(engine)
    home.clock.move(minutes=11)

    (home.store / "old").rename(home.store / "new")
    scan(engine)
    for number in range(5):
        with pytest.raises(NotFound) as raised:
            engine.read_memory(claude, id=f"note:old/n{number}.md")
        assert raised.value.details["currentId"] == f"note:new/n{number}.md"
    with pytest.raises(NotFound) as raised:
        engine.read_memory(claude, id=receipt.id)
    entry_id = str(raised.value.details["currentId"])
    assert read_whole(engine, entry_id) == "the words of an agent"

    (home.store / "new").rename(tmp_path / "away")
    scan(engine)
    assert found(engine, "zebra") == []
    assert read_whole(engine, entry_id) == "the words of an agent"  # retired, kept

    (tmp_path / "away").rename(home.store / "new")
    scan(engine)
    assert len(found(engine, "zebra")) == 5
    assert entries(home) == [entry_id]
    assert engine.memory_status(claude).retired == 0
    require_rebuilt_equal(home, engine)


needs_git = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")


def git(home: Home, *said: str, fails: bool = False) -> None:
    done = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *said],
        cwd=home.store,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_EDITOR": "true"},
    )
    assert bool(done.returncode) == fails, done.stdout + done.stderr


def commit(home: Home, message: str) -> None:
    git(home, "add", "-A")
    git(home, "commit", "-q", "-m", message)


@needs_git
def test_another_branch_checked_out_and_back(
    home: Home, engine: Engine, claude: t.Caller
):
    git(home, "init", "-q", "-b", "main")
    save(engine, claude, "SQLite")
    put(home, b"a.md", b"zebra of main")
    first = engine.remember(claude, statement="words on both")
    commit(home, "first")
    git(home, "branch", "other")
    home.clock.move(minutes=11)
    save(engine, claude, "DuckDB")
    second = engine.remember(claude, statement="words on main alone")
    put(home, b"a.md", b"giraffe of main")
    put(home, b"sub/b.md", b"hyena of main")
    commit(home, "second")
    home.clock.move(minutes=11)
    scan(engine)

    git(home, "checkout", "-q", "other")
    scan(engine)
    there = (
        found(engine, "zebra"),
        found(engine, "hyena"),
        entries(home),
        engine.retrieve_memory(claude, subject="Fjord").facts[0].object,
    )
    git(home, "stash", "-q", "--include-untracked")  # the retirements by hand
    git(home, "checkout", "-q", "main")
    scan(engine)

    assert there == (["note:a.md"], [], [first.id], "SQLite")
    assert found(engine, "giraffe") == ["note:a.md"]
    assert found(engine, "hyena") == ["note:sub/b.md"]
    assert sorted(entries(home)) == sorted([first.id, second.id])
    assert engine.retrieve_memory(claude, subject="Fjord").facts[0].object == "DuckDB"
    assert engine.verify(claude).problems == []
    require_rebuilt_equal(home, engine)


@needs_git
def test_ledgers_and_day_logs_of_two_branches_merged(
    home: Home, engine: Engine, claude: t.Caller
):
    git(home, "init", "-q", "-b", "main")
    save(engine, claude, "SQLite", subject="Common")
    engine.remember(claude, statement="common words")
    commit(home, "first")
    home.clock.move(minutes=11)
    save(engine, claude, "one", subject="Left")
    left = engine.remember(claude, statement="left words")
    commit(home, "left")
    home.clock.move(minutes=11)
    home.close()
    git(home, "checkout", "-q", "-b", "right", "HEAD~1")
    home.delete_index()  # another machine knows nothing of the left
    engine = home.open()
    save(engine, claude, "two", subject="Right")
    right = engine.remember(claude, statement="right words")
    put(home, b"a.md", b"# A\n\nzebra\n")
    commit(home, "right")
    home.clock.move(minutes=11)

    git(home, "merge", "-q", "main", fails=True)  # the day log conflicts
    assert b"<<<<<<<" in (home.store / TODAY).read_bytes()
    assert b"<<<<<<<" not in (home.store / "facts.jsonl").read_bytes()
    scan(engine)

    for subject, value in (("Common", "SQLite"), ("Left", "one"), ("Right", "two")):
        facts = engine.retrieve_memory(claude, subject=subject).facts
        assert [fact.object for fact in facts] == [value]
    for receipt, words in ((left, "left words"), (right, "right words")):
        assert read_whole(engine, receipt.id) == words
    assert len(entries(home)) == 3
    assert engine.memory_status(claude).retired == 0
    assert engine.verify(claude).problems == []
    assert engine.remember(claude, statement="after").action == "store"
    require_rebuilt_equal(home, engine)


def test_conflict_markers_in_a_note_are_text(home: Home, engine: Engine):
    text = "# A\n\n<<<<<<< HEAD\nleft zebra\n=======\nright zebra\n>>>>>>> other\n"
    put(home, b"a.md", text.encode())

    scan(engine)

    assert found(engine, "left zebra") == ["note:a.md"]
    assert found(engine, "right zebra") == ["note:a.md"]
    assert read_whole(engine, "note:a.md") == text


def test_conflict_markers_in_the_ledger_lose_no_fact(
    home: Home, engine: Engine, claude: t.Caller
):
    save(engine, claude, "one", subject="Left")
    save(engine, claude, "two", subject="Right")
    ledger = home.store / "facts.jsonl"
    sound = ledger.read_bytes()
    lines = sound.splitlines(keepends=True)
    parts = [b"<<<<<<< HEAD\n", lines[0], b"=======\n", lines[1], b">>>>>>> other\n"]
    ledger.write_bytes(b"".join(parts))
    scan(engine)

    for subject in ("Left", "Right"):
        assert engine.retrieve_memory(claude, subject=subject).known
    assert "ledger-damaged" in codes(engine)
    with pytest.raises(EngineError):
        save(engine, claude, "three")
    assert engine.remember(claude, statement="an entry").action == "store"

    ledger.write_bytes(sound)
    scan(engine)
    assert save(engine, claude, "three").action == "store"
    assert "ledger-damaged" not in codes(engine)


def test_many_files_of_long_names_stay_within_an_answer(
    home: Home, engine: Engine, claude: t.Caller
):
    for number in range(300):
        name = f"{number:03d}" + "\u6f22" * 80 + ".md"
        (home.store / name).symlink_to("nowhere")
    scan(engine)

    def count(text: str) -> int:
        return len(text.encode())  # a token is at least a byte

    for answer in (engine.index_memory(claude), engine.memory_status(claude)):
        cut = recall.bound(answer, count)
        assert len(msgspec.json.encode(cut)) <= recall.ANSWER_TOKENS
        assert cut.truncated is True
