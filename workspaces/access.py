"""Who may enter which workspace, and the only maker of a Grant.

Tokens are looked up by their SHA-256. What was found is remembered for at most 30 s
in this process and dropped at once when access changes anywhere (generation.py).
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
import threading
import time
import unicodedata
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db import DatabaseError, IntegrityError, models, transaction
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from . import generation
from .models import Connection, Workspace

Act = Literal["read", "write", "own"]

CACHE_SECONDS = 30.0
CACHE_ENTRIES = 10_000  # about 1 KiB each: 10 MiB at most
LAST_USED_EVERY_SECONDS = 60.0
RESERVED_NAMES = frozenset({"owner", "system", "developer", "assistant", "renor"})
NAME_CHARS = 100
TOKEN = re.compile(r"renor_[A-Za-z0-9_-]{43}")
SCOPE = re.compile(r"global|project:[a-z0-9][a-z0-9._-]{0,63}")

logger = logging.getLogger(__name__)


class AccessDenied(Exception):
    """No way in; does not reveal whether the thing exists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The right to use one workspace; doors pass it on and never look inside the rules.

    `connection_id` is "owner", "system" or the Connection's id. `scopes` None means
    all; `limit_bytes` 0 means no limit.
    """

    workspace_id: str
    connection_id: str
    name: str
    acts: frozenset[Act]
    scopes: tuple[str, ...] | None = None
    limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Remembered:
    grant: Grant
    generation: str
    until: float


_lock = threading.Lock()
_remembered: OrderedDict[str, _Remembered] = OrderedDict()
_used: OrderedDict[str, float] = OrderedDict()


def grant_for_token(token: str) -> Grant:
    """Return the grant of a live connection's token.

    Raises: AccessDenied.
    """
    if not TOKEN.fullmatch(token):
        raise AccessDenied
    digest = _digest(token)
    current = generation.read()
    grant = _recall(digest, current)
    if grant is None:
        grant = _find_grant(digest)
        # Read before the database: a change in between makes this entry stale,
        # never fresh. With the counter out of reach nothing is remembered.
        if current is not None:
            _remember(digest, _Remembered(grant, current, _now() + CACHE_SECONDS))
    _touch(grant.connection_id)
    return grant


def grant_for_owner(user: AbstractBaseUser) -> Grant:
    """Return the grant of a signed-in person to their own workspace.

    Raises: AccessDenied.
    """
    if not user.is_active:
        raise AccessDenied
    workspace_id = (
        Workspace.objects.filter(owner_id=user.pk).values_list("id", flat=True).first()
    )
    if workspace_id is None:
        raise AccessDenied
    return Grant(
        workspace_id=str(workspace_id),
        connection_id="owner",
        name="owner",
        acts=frozenset({"read", "write", "own"}),
    )


def grant_for_system(workspace_id: str) -> Grant:
    """Return a grant that only reads, for tasks that look after a workspace."""
    return Grant(
        workspace_id=workspace_id,
        connection_id="system",
        name="system",
        acts=frozenset({"read"}),
    )


def make_connection(
    workspace: Workspace,
    name: str,
    *,
    read_only: bool = False,
    scopes: Iterable[str] = (),
) -> tuple[Connection, str]:
    """Let an agent in; returns its token, which cannot be shown again.

    Raises: ValidationError naming what is wrong with the name or a scope.
    """
    name = _checked_name(name)
    token = f"renor_{secrets.token_urlsafe(32)}"
    try:
        with transaction.atomic():
            connection = Connection.objects.create(
                workspace=workspace,
                name=name,
                name_key=_key(name),
                token_sha256=_digest(token),
                can_write=not read_only,
                scopes=_checked_scopes(scopes),
            )
    except IntegrityError as error:
        raise ValidationError(
            _("An agent named “%(name)s” is already connected. Choose another name."),
            code="name_taken",
            params={"name": name},
        ) from error
    return connection, token


def revoke_connection(connection: Connection) -> None:
    """Refuse the connection's token from now on, in every process. Idempotent."""
    with transaction.atomic():
        moment = timezone.now()
        live = Connection.objects.filter(pk=connection.pk, revoked_at=None)
        if live.update(revoked_at=moment):
            connection.revoked_at = moment
        announce_change()


def find_connection(workspace: Workspace, name: str) -> Connection | None:
    """Find a live connection by its name, folded as uniqueness folds it."""
    return Connection.objects.filter(
        workspace=workspace, name_key=_key(name), revoked_at=None
    ).first()


def announce_change() -> None:
    """Make every process forget its grants once the current transaction is durable."""
    transaction.on_commit(_forget_all)


def is_token_counter_reachable() -> bool:
    return generation.read() is not None


def _forget_all() -> None:
    with _lock:
        _remembered.clear()
    generation.advance()


def _find_grant(digest: str) -> Grant:
    connection = (
        Connection.objects.filter(
            token_sha256=digest,
            revoked_at=None,
            workspace__owner__is_active=True,
        )
        .only("id", "name", "can_write", "scopes", "workspace_id")
        .first()
    )
    if connection is None:
        raise AccessDenied
    acts: frozenset[Act] = frozenset({"read"})
    if connection.can_write:
        acts |= {"write"}
    return Grant(
        workspace_id=str(connection.workspace_id),
        connection_id=str(connection.id),
        name=connection.name,
        acts=acts,
        scopes=tuple(connection.scopes) or None,
    )


def _recall(digest: str, current: str | None) -> Grant | None:
    with _lock:
        found = _remembered.get(digest)
        if found is None:
            return None
        if found.generation != current or found.until <= _now():
            del _remembered[digest]
            return None
        _remembered.move_to_end(digest)
        return found.grant


def _remember(digest: str, entry: _Remembered) -> None:
    with _lock:
        _remembered[digest] = entry
        _remembered.move_to_end(digest)
        while len(_remembered) > CACHE_ENTRIES:
            _remembered.popitem(last=False)


def _touch(connection_id: str) -> None:
    """Note the use, at most once a minute; a call never fails because of it."""
    now = _now()
    with _lock:
        if now - _used.get(connection_id, -LAST_USED_EVERY_SECONDS) < (
            LAST_USED_EVERY_SECONDS
        ):
            return
        _used[connection_id] = now
        _used.move_to_end(connection_id)
        while len(_used) > CACHE_ENTRIES:
            _used.popitem(last=False)
    moment = timezone.now()
    minute_ago = moment - timedelta(seconds=LAST_USED_EVERY_SECONDS)
    # Other processes keep minutes of their own; the row decides between them.
    due = models.Q(last_used_at=None) | models.Q(last_used_at__lt=minute_ago)
    try:
        Connection.objects.filter(due, pk=connection_id).update(last_used_at=moment)
    except DatabaseError:
        logger.warning("The last use of a connection could not be noted")


def _now() -> float:
    return time.monotonic()


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("ascii")).hexdigest()


def _key(name: str) -> str:
    folded = unicodedata.normalize("NFC", name).casefold()
    return " ".join(unicodedata.normalize("NFC", folded).split())


def _checked_name(name: str) -> str:
    name = unicodedata.normalize("NFC", name).strip()
    if not 1 <= len(name) <= NAME_CHARS:
        raise ValidationError(
            _("A name has 1 to %(limit)d characters; this one has %(length)d."),
            code="name_length",
            params={"limit": NAME_CHARS, "length": len(name)},
        )
    # Controls, invisible format marks, surrogates, line and paragraph separators.
    if any(
        unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in name
    ):
        raise ValidationError(
            _("A name may not hold control or invisible characters."),
            code="name_characters",
        )
    # Compatibility forms (full-width letters and the like) must not pass either.
    if _key(unicodedata.normalize("NFKC", name)) in RESERVED_NAMES:
        raise ValidationError(
            _("“%(name)s” is kept for Renor itself. Choose another name."),
            code="name_reserved",
            params={"name": name},
        )
    return name


def _checked_scopes(scopes: Iterable[str]) -> list[str]:
    wanted = list(dict.fromkeys(scopes))
    for scope in wanted:
        if not SCOPE.fullmatch(scope):
            raise ValidationError(
                _(
                    "“%(scope)s” is not a scope. Write global, or project: and a name "
                    "of lower-case letters, digits, dots, hyphens and underscores, "
                    "such as project:fjord."
                ),
                code="scope",
                params={"scope": scope},
            )
    return wanted
