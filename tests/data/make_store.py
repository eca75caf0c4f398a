"""Make a store of record: `python -m tests.data.make_store store-v1`.

Run once for each version of the format; what it made is never made anew, since every
later version must open it. Clock and ids are fixed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from memories.engine.engine import Engine
from tests.unit.engine.homes import FakeClock, Home, make_caller, scan

OWNER = make_caller(
    "owner", connection_id="owner", acts=frozenset({"read", "write", "own"})
)
CLAUDE, CODEX = make_caller("claude"), make_caller("codex")
NOTES: dict[str, bytes] = {
    "MEMORY.md": b"# Lasting\n\nWritten by hand, see [[Boats]].\n",
    "Ideas/Boats.md": (
        b"---\ntitle: Boats\naliases: [Ships]\ntags: [sea]\ndate: 2026-05-04\n---\n"
        b"# Boats\n\nA list:\n\n- one\n- two\n\n```\n# no heading\n```\n"
    ),
    "Ideas/Caf\u00e9.md": "Wide words in UTF-16.\n".encode("utf-16"),
    "Ideas/Windows.md": b"\xef\xbb\xbfLine ends\r\nof two characters\r\n",
    "Work/Fjord.md": b"---\nscope: project:fjord\n---\nOnly for one project.\n",
    "Imported/old/2026-01-01.md": (
        b'# 2026-01-01\n\n<!-- renor {"id":"x"} -->\nplain text here\n'
    ),
    "Gone.md": b"To be retired.\n",
    "Wiped.md": b"To be erased: quetzal.\n",
    "Revised.md": b"The first version.\n",
}


def fill(home: Home, engine: Engine) -> tuple[list[str], list[str]]:
    """Do everything once; return the ids that are there and those that are gone."""
    for path, data in NOTES.items():
        file = home.write(path, data)
        os.utime(file, (1_790_000_000, 1_790_000_000))
    scan(engine)
    tricky = "Words like <!-- renor {} --> and <!-- /renor x -->\n\n## 12:00\n"
    first = engine.remember(CLAUDE, statement=tricky, source="chat").id
    home.clock.move(days=1)
    old = engine.remember(CODEX, statement="The port is 80.", scope="project:fjord").id
    home.clock.move(minutes=5)
    new = engine.remember(
        CLAUDE, statement="The port is 81.", scope="project:fjord", replaces=old
    ).id
    note = engine.remember_note(CLAUDE, text="Filed earlier.", date="2026-10-01").id
    revised = engine.remember(CLAUDE, statement="To be revised.").id
    redacted = engine.remember(CLAUDE, statement="The key is hunter22, ok?").id
    retired = engine.remember(CLAUDE, statement="Retired by a tool.").id
    erased = engine.remember(CLAUDE, statement="To be erased: axolotl.").id
    facts = [
        engine.save_memory(CLAUDE, subject="Fjord", predicate="db", object="SQLite").id,
        engine.remember(
            CODEX,
            statement="It uses PostgreSQL now.",
            subject="Fjord",
            predicate="db",
            object="PostgreSQL",
            cites=first,
        ).id,
        engine.save_memory(CODEX, subject="Fjord", predicate="key", object="k").id,
    ]
    engine.remember(
        CLAUDE, statement="Still so.", subject="Fjord", predicate="db",
        object="PostgreSQL",
    )  # fmt: skip
    wiped = engine.save_memory(CLAUDE, subject="Fjord", predicate="pin", object="9").id
    for one, text in (
        (revised, "Revised by the owner."),
        ("note:Revised.md", "New.\n"),
    ):
        said = engine.read_memory(OWNER, id=one)
        engine.replace_note(OWNER, id=one, text=text, expected_sha256=str(said.sha256))
    os.utime(home.store / "Revised.md", (1_790_000_000, 1_790_000_000))
    scan(engine)
    engine.redact(OWNER, id=redacted, spans=[[11, 19]])
    for one in (retired, erased, facts[2], wiped, "note:Gone.md", "note:Wiped.md"):
        engine.retire_memory(OWNER, id=one)
    for one in (erased, wiped, "note:Wiped.md"):
        engine.erase(OWNER, id=one)
    home.clock.move(days=2)
    by_hand = engine.remember(CODEX, statement="Removed by hand.").id
    edited = engine.remember(CODEX, statement="Edited by hand.").id
    home.clock.move(minutes=11)
    day = edited.removeprefix("entry:").partition("#")[0]
    whole = (home.store / day).read_bytes()
    start = whole.index(b"## ")
    stop = whole.index(b"## ", start + 3)
    whole = whole[:start] + whole[stop:]
    home.swap(day, whole.replace(b"Edited by hand.", b"Edited, indeed."))
    scan(engine)
    there = [first, old, new, note, revised, redacted, retired, *facts, by_hand, edited]
    there += [f"note:{path}" for path in NOTES if path != "Wiped.md"]
    return there, [erased, wiped, "note:Wiped.md"]


def main(name: str) -> None:
    target = Path(__file__).parent / name
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "workspace", FakeClock())
        engine = home.open()
        there, gone = fill(home, engine)
        engine.write_page()
        memories = {}
        for one in there:
            memory = engine.read_memory(OWNER, id=one)
            memories[one] = {
                "text": memory.text,
                "scope": memory.scope,
                "retired": memory.retired is True,
                "day": memory.session_date,
            }
        home.close()
        home.delete_index()
        (home.directory / "lock").unlink(missing_ok=True)
        shutil.copytree(home.directory, target / "workspace")
    (target / "workspace" / "incoming").rmdir()
    said = {"memories": memories, "gone": gone}
    text = json.dumps(said, indent=1, ensure_ascii=False)
    (target / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
