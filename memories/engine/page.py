"""The page of facts made for people: Facts.md, from the current values. Pure.

It is never read back and never indexed; its first line tells it from a file that
a person has written or edited, which is never overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import rules
from .facts import ValueRow
from .markdown import text_digest

PAGE_NAME = "Facts.md"
_MARK = "<!-- renor generated "
_HOW_TO = """# Facts

What is known now, made by Renor from `facts.jsonl`. Changes to this page are not read:
to correct a fact, save its new value under the same subject and predicate (an agent
does, when told). Edit this page and it becomes a note of yours, and no longer updated.

O que vale agora, gerado pelo Renor a partir de `facts.jsonl`. Mudanças nesta página não
são lidas: para corrigir um fato, salve o novo valor com o mesmo sujeito e predicado.
Editada, a página vira uma nota sua e deixa de ser atualizada.
"""


def render(values: Sequence[ValueRow]) -> bytes:
    """Return the page's bytes; `values` are the current ones in any order."""
    lines = [_HOW_TO]
    subject = ""
    for value in sorted(values, key=lambda v: (v.subject, v.scope, v.predicate)):
        if value.subject != subject:
            subject = value.subject
            lines.append(f"\n## {_one_line(subject)}\n")
        where = "" if value.scope == rules.GLOBAL_SCOPE else f", {value.scope}"
        since = rules.render_day(value.from_ms)
        said = f", {_one_line(value.writer)}" if value.writer else ""
        lines.append(
            f"- {_one_line(value.predicate)}: **{_one_line(value.object)}** "
            f"({since}{said}{where})"
        )
    body = "\n".join(lines) + "\n"
    return f"{_MARK}{text_digest(body)} -->\n{body}".encode()


def is_page(data: bytes) -> bool:
    """Whether these bytes are a page as it was made, untouched since."""
    data = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    first, _, body = data.partition(b"\n")
    mark, _, digest = first.decode(errors="replace").partition(_MARK)
    if mark or not digest:
        return False
    return digest.strip() == f"{text_digest(body.decode(errors='replace'))} -->"


def _one_line(text: str) -> str:
    return " ".join(text.split())
