"""Names of notes: what a term, a wikilink or a person may call them. Part of the index.

A name is a note's title, an alias, its path, or the end of its path. Whoever calls
holds the transaction. Source: docs/mcp.md, "Links between notes".
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence

import apsw
import msgspec

from . import rules
from .words import IN_SCOPE, TOKENIZE, match_any, scopes_json, searchable

TITLE, ALIAS, PATH, PATH_END = range(4)

TABLES = (
    # `form` is without case and accents, `written` without case alone.
    "CREATE TABLE name(memory INT, kind INT, form TEXT, written TEXT)",
    "CREATE INDEX name_form ON name(form)",
    "CREATE INDEX name_memory ON name(memory)",
    f"""CREATE VIRTUAL TABLE identity USING fts5(path, title, tags, aliases,
       content='', contentless_delete=1, {TOKENIZE})""",
)

PATH_ENDS = 6
_SUFFIX = re.compile(r"\.(md|markdown)$", re.IGNORECASE)


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """A note that has a name, and which of its names that is."""

    kind: int
    form: str
    written: str
    id: str
    path: str
    title: str


class Names:
    """The tables of names, on the index's connection."""

    def __init__(self, db: apsw.Connection) -> None:
        self._db = db

    def put(
        self,
        memory: int,
        path: str,
        title: str,
        tags: Iterable[str],
        aliases: Sequence[str],
    ) -> None:
        """Note what a note is called; `title` is "" where that names no thing."""
        bare = bare_path(path)
        known = [(TITLE, title), *((ALIAS, one) for one in aliases), (PATH, bare)]
        known += [(PATH_END, end) for end in _path_ends(bare)]
        self._db.executemany(
            "INSERT INTO name VALUES(?, ?, ?, ?)",
            [
                (memory, kind, fold(said), _written(said))
                for kind, said in known
                if said
            ],
        )
        self._db.execute(
            "INSERT INTO identity(rowid, path, title, tags, aliases) "
            "VALUES(?, ?, ?, ?, ?)",
            (
                memory,
                searchable(bare),
                searchable(title),
                searchable("\n".join(tags)),
                searchable("\n".join(aliases)),
            ),
        )

    def remove(self, memory: int) -> None:
        self._db.execute("DELETE FROM name WHERE memory=?", (memory,))
        self._db.execute("DELETE FROM identity WHERE rowid=?", (memory,))

    def holding(self, term: str, scopes: Sequence[str] | None, limit: int) -> list[int]:
        """Return the numbers of notes that have a term in their path, title, tags or
        aliases, the newest first.
        """
        bare = bare_path(term) or term
        rows = self._db.execute(
            "SELECT memory.num FROM identity JOIN memory ON memory.num = identity.rowid "
            f"WHERE identity MATCH ?2 AND {IN_SCOPE} ORDER BY at_ms DESC LIMIT ?3",
            (scopes_json(scopes), match_any([bare]), limit),
        )
        return [int(str(row[0])) for row in rows]

    def resolve(
        self, links: Sequence[tuple[str, str]], scopes: Sequence[str] | None
    ) -> list[str]:
        """Return, for each link (path of the note it stands in, target as written),
        the id of the note it leads to, "" where there is none in scope.
        """
        wanted = [(path, *_target(path, said)) for path, said in links]
        named: dict[str, list[Named]] = {}
        for one in self.find({form for _, _, form in wanted if form}, scopes):
            named.setdefault(one.form, []).append(one)
        return [
            _nearest(path, target, named.get(form, [])) for path, target, form in wanted
        ]

    def find(self, forms: Iterable[str], scopes: Sequence[str] | None) -> list[Named]:
        """Return the notes that are called by one of these forms."""
        return self._find(
            "form IN (SELECT value FROM json_each(?2))",
            (scopes_json(scopes), json.dumps(list(forms))),
        )

    def find_part(
        self, form: str, kinds: Sequence[int], scopes: Sequence[str] | None
    ) -> list[Named]:
        """Return the notes with a name of these kinds that holds a form."""
        return self._find(
            "name.kind IN (SELECT value FROM json_each(?3)) AND instr(form, ?2)",
            (scopes_json(scopes), form, json.dumps(list(kinds))),
        )

    def _find(self, where: str, values: tuple[str | None, ...]) -> list[Named]:
        rows = self._db.execute(
            "SELECT name.kind, form, written, memory.id, memory.path, memory.title "
            "FROM name JOIN memory ON memory.num = name.memory "
            f"WHERE {where} AND {IN_SCOPE}",
            values,
        )
        return [
            Named(
                kind=int(str(row[0])),
                form=str(row[1]),
                written=str(row[2]),
                id=str(row[3]),
                path=str(row[4]),
                title=str(row[5]),
            )
            for row in rows
        ]

    def titles(self, scopes: Sequence[str] | None) -> set[str]:
        """Return the forms of all titles that name a thing."""
        rows = self._db.execute(
            "SELECT DISTINCT form FROM name JOIN memory ON memory.num = name.memory "
            f"WHERE name.kind = {TITLE} AND {IN_SCOPE}",
            (scopes_json(scopes),),
        )
        return {str(row[0]) for row in rows}


def fold(text: str) -> str:
    """Return a name without case, accents and doubled white space."""
    return " ".join(rules.fold_search(text).split())


def bare_path(path: str) -> str:
    """Return a note's path without the ending of its file."""
    return _SUFFIX.sub("", path)


def _written(text: str) -> str:
    return rules.fold_name(rules.fold_name(text).casefold())


def _path_ends(path: str) -> Iterator[str]:
    parts = path.split("/")
    for start in range(max(1, len(parts) - PATH_ENDS), len(parts)):
        yield "/".join(parts[start:])


def _target(path: str, said: str) -> tuple[str, str]:
    """Return a link's target as it is compared, and its form."""
    target = bare_path(said.strip())
    if target.startswith(("./", "../")):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    target = target.lstrip("/")
    return _written(target), fold(target)


def _nearest(path: str, target: str, named: Sequence[Named]) -> str:
    """Return the note that a link in `path` means: by its file before its title before
    an alias; of several in the same folder, else with the shortest path.
    """
    folder = posixpath.dirname(path)

    def distance(one: Named) -> tuple[int, bool, bool, int, str]:
        by_file = one.kind in (PATH, PATH_END)
        return (
            0 if by_file else 1 + one.kind,
            not ("/" in target and one.kind == PATH),
            posixpath.dirname(one.path) != folder,
            len(one.path),
            one.path,
        )

    meant = [one for one in named if one.written == target]
    return min(meant, key=distance).id if meant else ""
