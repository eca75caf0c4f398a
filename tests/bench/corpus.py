"""A memory to measure with: daily notes in English and Portuguese, and a ledger.

Deterministic: the same seed gives the same bytes, on any machine. Words are drawn as
real ones are, few often and many seldom, so that searches meet common and rare ones.
"""

# ruff: noqa: SIM905 - long lists of words, quoted one by one, would not be read

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Literal

from memories.engine import ledger, moments, rules
from memories.engine.types import Event

Language = Literal["en", "pt"]

NOTE_COUNT = 87
EVENT_COUNT = 994
SUBJECT_COUNT = 120
SECTIONS = (16, 22)
FIRST_DAY = date(2026, 8, 1)
SEED = 42
"""Of the seeds tried, the one whose notes give about 1,845 chunks."""

NAMES = (
    "fjord lantern quartz harbor meadow copper falcon tundra saffron orbit juniper "
    "granite willow ember delta cobalt prism sequoia anchor basalt cedro maré farol "
    "serra jangada ipê aurora neblina caju garoa pampa lavoura"
).split()
PARTS = (
    "api worker portal gateway importer ledger scheduler mobile reports search billing "
    "notifier"
).split()
TOOLS = (
    "PostgreSQL SQLite Redis Kafka nginx Terraform Kubernetes Celery Django Grafana "
    "Prometheus RabbitMQ Elasticsearch Keycloak ClickHouse Vault Ansible Sentry Debian "
    "systemd OpenTelemetry MinIO Varnish HAProxy Airflow dbt Playwright pytest ruff uv"
).split()
THINGS: dict[Language, Sequence[str]] = {
    "en": (
        "connection pool, retry queue, rate limiter, session cache, migration script, "
        "webhook handler, upload worker, login form, feature flag, nightly backup, "
        "search ranking, invoice template, payment callback, audit log, PDF exporter, "
        "price table, stock count, onboarding mail, password reset, export archive, "
        "access token, health check, error page, deploy pipeline, release checklist, "
        "data retention rule, thumbnail service, shipping quote, tax rounding, "
        "customer import, duplicate detector, time zone bug, disk alert, memory leak, "
        "load balancer, certificate renewal, staging database, query planner, "
        "support inbox, incident review, roadmap draft, budget sheet, vendor contract"
    ).split(", "),
    "pt": (
        "fila de reprocessamento, cache de sessão, limitador de taxa, script de "
        "migração, tela de login, rotina de backup, gerador de boletos, exportador de "
        "PDF, tabela de preços, validação de CPF, relatório mensal, importador de "
        "planilhas, painel de métricas, serviço de notificações, cálculo de frete, "
        "conciliação bancária, controle de estoque, nota fiscal, senha esquecida, "
        "certificado vencido, alerta de disco, vazamento de memória, política de "
        "retenção, banco de homologação, esteira de publicação, ata da reunião, "
        "contrato do fornecedor, planilha de custos, caixa de suporte, revisão do "
        "incidente, arredondamento de imposto, fuso horário, página de erro"
    ).split(", "),
}
REASONS: dict[Language, Sequence[str]] = {
    "en": (
        "because the timeout was shorter than the slowest query; since two workers "
        "wrote the same row; after customers reported duplicated messages; because the "
        "planner never used the index; so that a deploy needs no maintenance window; "
        "because the parser stopped at empty lines; to keep the container under its "
        "limit; after the renewal broke the staging host; until the vendor ships a fix; "
        "as the numbers of last month did not add up; because nobody reads that chart"
    ).split("; "),
    "pt": (
        "porque o tempo limite era menor que a consulta mais lenta; já que dois "
        "processos gravavam a mesma linha; depois que clientes reclamaram de mensagens "
        "duplicadas; porque o planejador nunca usava o índice; para publicar sem janela "
        "de manutenção; porque o leitor travava em linhas vazias; para manter o "
        "contêiner abaixo do limite; depois que a renovação derrubou a homologação; até "
        "o fornecedor entregar a correção; pois os números do mês passado não batiam"
    ).split("; "),
}
FORMS: dict[Language, Sequence[str]] = {
    "en": (
        "In {name} we rewrote the {thing} {reason}.",
        "The {thing} of {name} now runs on {tool}, {reason}.",
        "Decided: the {thing} stays as it is {reason}; look again in {n} weeks.",
        "Measured the {thing}: {n} ms before, {m} ms after, with {tool} underneath.",
        "Do not repeat: changing the {thing} without a backup of {name} cost {n} hours.",
        "Ticket {name}-{n}: the {thing} fails when {tool} restarts.",
        "Next: move the {thing} out of {name} and document the way back.",
        "The team prefers small reviews; the one of the {thing} had {n} files.",
    ),
    "pt": (
        "No {name} reescrevemos a parte de {thing} {reason}.",
        "A parte de {thing} do {name} agora usa {tool}, {reason}.",
        "Decidido: {thing} fica como está {reason}; rever em {n} semanas.",
        "Medimos {thing}: {n} ms antes, {m} ms depois, com {tool} por baixo.",
        "Não repetir: mexer em {thing} sem cópia do {name} custou {n} horas.",
        "Chamado {name}-{n}: {thing} falha quando o {tool} reinicia.",
        "Próximo passo: tirar {thing} do {name} e documentar o caminho de volta.",
        "A equipe prefere revisões curtas; a de {thing} tinha {n} arquivos.",
    ),
}
QUESTIONS: dict[Language, Sequence[str]] = {
    "en": (
        "what did we decide about the {thing} in {name}?",
        "why does the {thing} fail when {tool} restarts?",
        "which {predicate} does {name} {part} use?",
        "how long did the {thing} take before and after the change?",
        "what was the next step for the {thing} of {name}, and who documents it?",
        "did moving {name} to {tool} help, {reason}?",
        "{name} {part} {tool}",
        "ticket {name}-{n}",
    ),
    "pt": (
        "o que decidimos sobre {thing} no {name}?",
        "por que {thing} falha quando o {tool} reinicia?",
        "qual {predicate} o {name} {part} usa?",
        "quanto tempo levava {thing} antes e depois da mudança?",
        "qual era o próximo passo de {thing} do {name}?",
        "mudar o {name} para {tool} ajudou, {reason}?",
        "{name} {part} {tool}",
        "chamado {name}-{n}",
    ),
}
PREDICATES: dict[Language, Sequence[str]] = {
    "en": (
        "database",
        "deploy host",
        "owner team",
        "python version",
        "queue",
        "status",
    ),
    "pt": (
        "banco de dados",
        "servidor",
        "equipe responsável",
        "versão",
        "fila",
        "prazo",
    ),
}


@dataclass(frozen=True, slots=True)
class Made:
    """What was written, in numbers; chunks are the engine's to count."""

    notes: int
    note_bytes: int
    events: int
    subjects: int


def make_store(folder: Path, seed: int = SEED) -> Made:
    """Write notes and ledger into a store's folder."""
    sizes = []
    for number in range(NOTE_COUNT):
        day = FIRST_DAY + timedelta(days=number)
        text = make_note(day, _chance(seed, f"note {number}"))
        path = folder / f"{day.isoformat()}.md"
        sizes.append(path.write_bytes(text.encode()))
    events = list(_iter_events(_chance(seed, "ledger")))
    lines = b"".join(ledger.render_line(event) for event in events)
    (folder / ledger.LEDGER_NAME).write_bytes(lines)
    return Made(
        notes=len(sizes),
        note_bytes=sum(sizes),
        events=len(events),
        subjects=len({event.subject for event in events}),
    )


def iter_questions(seed: int) -> Iterator[str]:
    """Yield questions without end, English and Portuguese in turn, hardly one twice."""
    chance = _chance(seed, "questions")
    while True:
        for language in _LANGUAGES:
            yield _fill(chance, language, chance.choice(QUESTIONS[language]))


def iter_statements(seed: int) -> Iterator[str]:
    """Yield sentences an agent would save, without end."""
    chance = _chance(seed, "statements")
    while True:
        for language in _LANGUAGES:
            yield " ".join(_sentences(chance, language, 2))


def make_note(day: date, chance: random.Random) -> str:
    main: Language = chance.choice(_LANGUAGES)
    lines = [f"# {day.isoformat()}", ""]
    for _ in range(chance.randint(*SECTIONS)):
        language: Language = main if chance.random() < 0.8 else _other(main)
        lines += _section(chance, language)
    return "\n".join(lines)


def _section(chance: random.Random, language: Language) -> list[str]:
    hour, minute = chance.randint(7, 21), chance.randint(0, 59)
    thing = _draw(chance, THINGS[language])
    title = f"{hour:02d}:{minute:02d}" if chance.random() < 0.5 else thing.capitalize()
    lines = [f"{'##' if chance.random() < 0.7 else '###'} {title}", ""]
    for _ in range(chance.randint(1, 3)):
        lines += [*_block(chance, language), ""]
    return lines


def _block(chance: random.Random, language: Language) -> list[str]:
    kind = chance.random()
    if kind < 0.45:
        sentences = _sentences(chance, language, chance.randint(2, 6))
        return [f"- {sentence}" for sentence in sentences]
    if kind < 0.8:
        return [" ".join(_sentences(chance, language, chance.randint(2, 7)))]
    if kind < 0.92:
        name, tool = _draw(chance, NAMES), _draw(chance, TOOLS).lower()
        host = f"{name}-{chance.randint(1, 99)}"
        commands = (f"# {host}", f"systemctl restart {tool}", "make migrate")
        return ["```bash", *commands, "```"]
    rows = [
        f"| p{p} | {chance.randint(9, 900)} | {chance.randint(1, 90)} |"
        for p in (50, 95)
    ]
    return ["| ms | 1 | 2 |", "| --- | ---: | ---: |", *rows]


def _sentences(chance: random.Random, language: Language, count: int) -> list[str]:
    return [
        _fill(chance, language, _draw(chance, FORMS[language])) for _ in range(count)
    ]


def _fill(chance: random.Random, language: Language, form: str) -> str:
    return form.format(
        name=_draw(chance, NAMES).capitalize(),
        part=_draw(chance, PARTS),
        tool=_draw(chance, TOOLS),
        thing=_draw(chance, THINGS[language]),
        reason=_draw(chance, REASONS[language]),
        predicate=chance.choice(PREDICATES[language]),
        n=chance.randint(2, 4_000),
        m=chance.randint(1, 400),
    )


def _iter_events(chance: random.Random) -> Iterator[Event]:
    """Yield saves over the subjects; a key that has a value already supersedes it."""
    pairs = [f"{name.capitalize()} {part}" for name in NAMES for part in PARTS]
    subjects = chance.sample(pairs, SUBJECT_COUNT)
    current: dict[tuple[str, str], str] = {}
    start = datetime(FIRST_DAY.year, FIRST_DAY.month, FIRST_DAY.day, tzinfo=UTC)
    at_ms = rules.milliseconds(start)
    for number in range(EVENT_COUNT):
        language = _LANGUAGES[number % 2]
        key = (
            subjects[number] if number < SUBJECT_COUNT else _draw(chance, subjects),
            chance.choice(PREDICATES[language]),
        )
        at_ms += chance.randint(60_000, 14_000_000)
        event = _event(chance, language, key, at_ms)
        if key in current:
            event.supersedes = [current[key]]
        current[key] = f"fact:{event.id}"
        yield event


def _event(
    chance: random.Random, language: Language, key: tuple[str, str], at_ms: int
) -> Event:
    subject, predicate = key
    value = f"{_draw(chance, TOOLS)} {chance.randint(1, 30)}.{chance.randint(0, 9)}"
    moment = rules.render_moment(at_ms)
    is_said = chance.random() < 0.5
    reason = _draw(chance, REASONS[language])
    return Event(
        id=moments.make_id(at_ms, chance.getrandbits(30)),
        kind="save",
        recorded_at=moment,
        subject=subject,
        predicate=predicate,
        object=value,
        statement=f"{subject}: {predicate} {value}, {reason}." if is_said else "",
        writer="claude",
        writer_id="bench",
        source="claude",
        valid_from=moment,
    )


_LANGUAGES: tuple[Language, Language] = ("en", "pt")


def _other(language: Language) -> Language:
    return "pt" if language == "en" else "en"


def _chance(seed: int, purpose: str) -> random.Random:
    return random.Random(f"{seed} {purpose}")  # noqa: S311 - the same bytes each run


def _draw(chance: random.Random, words: Sequence[str]) -> str:
    """Return a word: the first ones often, the last ones seldom (power law)."""
    return words[int(len(words) * chance.random() ** 1.7)]
