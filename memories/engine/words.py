"""Words as the index keeps and looks for them, and the scopes of a question. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence

from . import rules

TOKENIZER = ("porter", ["unicode61", "remove_diacritics", "2"])
TOKENIZE = "tokenize='porter unicode61 remove_diacritics 2'"

IN_SCOPE = "(?1 IS NULL OR scope IN (SELECT value FROM json_each(?1)))"


def scopes_json(scopes: Sequence[str] | None) -> str | None:
    return None if scopes is None else json.dumps(list(scopes))


def match_any(terms: Iterable[str]) -> str:
    """Return the FTS5 query for any of the terms."""
    return " OR ".join(quote(term) for term in terms)


def quote(term: str) -> str:
    """Return a term as an FTS5 string: operators in it are ordinary characters."""
    return '"' + searchable(term).replace('"', '""') + '"'


# Kana, CJK, hangul: in NFC, one character a syllable or an idea.
IDEOGRAPHS = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_IDEOGRAPH = re.compile(f"([{IDEOGRAPHS}])")


def searchable(text: str) -> str:
    """Return a text as its words are kept and looked for.

    Accents and case are taken away in every script (unicode61 knows Latin's alone).
    Chinese, Japanese and Korean characters stand apart, each a word: unicode61 takes
    a run of them for one; apart, a query of two is a phrase.
    """
    if text.isascii():
        return text
    parts = _IDEOGRAPH.split(unicodedata.normalize("NFC", text))
    parts[::2] = map(rules.fold_search, parts[::2])
    return " ".join(parts) if len(parts) > 1 else parts[0]
