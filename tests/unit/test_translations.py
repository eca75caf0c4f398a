"""Everything a page shows exists in both languages, and the catalogues are compiled.

To refresh them (GNU gettext is needed for that alone):
`manage.py makemessages -l en -l pt_BR -i .venv -i tests --no-wrap --add-location file`,
translate what is new, then `manage.py compilemessages -l en -l pt_BR`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import polib
import pytest
from django.conf import settings
from django.template.base import Lexer, Node, Template, Token, TokenType
from django.template.engine import Engine
from django.templatetags.i18n import BlockTranslateNode, TranslateNode

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("en", "pt_BR")
PACKAGES = ("renor", "accounts", "workspaces", "memories")
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
CALLS = {"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy"}
# Names of programs and protocols, which are the same everywhere.
NAMES = {"Renor", "Claude Code", "Codex", "Cursor", "VS Code", "UTC", "· Renor"}
SPOKEN = {"alt", "title", "placeholder", "aria-label", "content"}


def _catalogue(language: str) -> polib.POFile:
    folder = ROOT / "locale" / language / "LC_MESSAGES"
    return polib.pofile(str(folder / "django.po"))


def _compiled(language: str) -> polib.MOFile:
    folder = ROOT / "locale" / language / "LC_MESSAGES"
    return polib.mofile(str(folder / "django.mo"))


def _in_python() -> Iterator[str]:
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            if "migrations" in file.parts:
                continue
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and _called(node) in CALLS:
                    yield from _constants(node)


def _called(node: ast.Call) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", ""))


def _constants(node: ast.Call) -> Iterator[str]:
    for argument in node.args[:2]:
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            yield argument.value


def _in_templates() -> Iterator[str]:
    for file in TEMPLATES:
        template = Template(
            file.read_text(encoding="utf-8"), engine=Engine.get_default()
        )
        nodes = [
            *template.nodelist.get_nodes_by_type(TranslateNode),
            *template.nodelist.get_nodes_by_type(BlockTranslateNode),
        ]
        for node in nodes:
            yield from _of_node(node)


def _of_node(node: Node) -> Iterator[str]:
    if isinstance(node, TranslateNode):
        yield str(node.filter_expression.var.literal)
    if isinstance(node, BlockTranslateNode):
        yield node.render_token_list(node.singular)[0]
        if node.plural:
            yield node.render_token_list(node.plural)[0]


def _trimmed(text: str) -> str:
    return re.sub(r"\s*\n\s*", " ", text.strip())


def _words(language: str) -> dict[str, str]:
    found = {}
    for entry in _catalogue(language):
        if entry.msgid_plural:
            found[entry.msgid] = entry.msgstr_plural[0]
            found[entry.msgid_plural] = entry.msgstr_plural[1]
        else:
            found[entry.msgid] = entry.msgstr
    return found


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_string_is_translated(language):
    needed = {_trimmed(text) for text in (*_in_python(), *_in_templates())}
    words = _words(language)

    assert len(needed) > 80
    assert sorted(needed - words.keys()) == []
    assert [text for text in needed if not words[text]] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_catalogue_holds_nothing_unused_or_unsure(language):
    needed = {_trimmed(text) for text in (*_in_python(), *_in_templates())}
    catalogue = _catalogue(language)

    assert sorted(_words(language).keys() - needed) == []
    assert [entry.msgid for entry in catalogue if entry.fuzzy or entry.obsolete] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_compiled_catalogue_equals_its_source(language):
    source = [
        (entry.msgid, entry.msgstr, entry.msgstr_plural)
        for entry in _catalogue(language)
    ]
    compiled = [
        (entry.msgid, entry.msgstr, entry.msgstr_plural)
        for entry in _compiled(language)
    ]

    assert sorted(compiled, key=str) == sorted(source, key=str)


@pytest.mark.parametrize("language", LANGUAGES)
def test_translation_keeps_the_places_to_fill_and_the_markup(language):
    def marks(text: str) -> list[str]:
        return sorted(re.findall(r"%\(\w+\)[sd]|</?\w+>", text))

    for text, translated in _words(language).items():
        assert marks(translated) == marks(text), text


def test_portuguese_is_not_english():
    same = {text for text, translated in _words("pt_BR").items() if text == translated}

    assert same == {"e-mail"}


def test_offered_languages_are_those_translated():
    assert [code for code, _ in settings.LANGUAGES] == ["en", "pt-br"]


class Spoken(HTMLParser):
    """Collects what a person reads or hears, attributes included."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self._silent += tag in {"script", "style"}
        if tag == "meta":
            return
        self.found += [named[name] or "" for name in SPOKEN & named.keys()]

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in {"script", "style"}

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.found.append(data)


def _without_tags(source: str) -> str:
    """The template's own text: what tags and variables put in is taken out."""
    kept = []
    inside = False
    for token in Lexer(source).tokenize():
        if token.token_type == TokenType.BLOCK:
            inside = _is_inside(token, inside)
        elif token.token_type == TokenType.TEXT and not inside:
            kept.append(token.contents)
    return "".join(kept)


def _is_inside(token: Token, inside: bool) -> bool:
    name = token.split_contents()[0]
    if name in {"blocktranslate", "blocktrans", "comment"}:
        return True
    return inside and not name.startswith("end")


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_template_shows_no_untranslated_words(file):
    spoken = Spoken()
    spoken.feed(_without_tags(file.read_text(encoding="utf-8")))

    words = {" ".join(text.split()) for text in spoken.found}

    assert {text for text in words - NAMES if re.search(r"[^\W\d_]{2}", text)} == set()
