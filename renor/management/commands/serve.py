"""Everything on one machine, one command: web, engine host, queue, worker, clock.

Prepares what is missing, starts the parts in the order in which they are needed, and
says how to come in once the server is ready. Keeping them running: renor/supervisor.py.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import signal
import socket
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connections
from django.db.migrations.executor import MigrationExecutor
from psycopg_pool import PoolTimeout

from accounts.models import User
from accounts.opening import open_account
from memories.management.commands.enginehost import host_command
from renor.readiness import missing_parts, wait_until_ready
from renor.supervisor import Part, Supervisor, end_with_parent
from workspaces.access import make_connection
from workspaces.models import Workspace

FIRST_OWNER: Final = "owner@localhost"
FIRST_AGENT: Final = "claude-code"
# 32 letters and digits, none easily taken for another: 20 of them hold 100 bits.
READABLE: Final = "abcdefghijkmnpqrstuvwxyz23456789"

# What a Renor that is just ending may still hold: its lock, then its port.
LOCK_SECONDS: Final = 6.0
PORT_SECONDS: Final = 3.0
REDIS_SECONDS: Final = 5.0
SLOW_SECONDS: Final = 10.0
# A socket's address has room for 108 bytes, the last of them a zero (unix(7)).
SOCKET_PATH_BYTES: Final = 107


class Command(BaseCommand):
    help = "Run all of Renor on this machine; Ctrl-C or SIGTERM ends all of it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--end-with-parent",
            action="store_true",
            help="end when the process that started this one ends, however it ends "
            "(Linux)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["end_with_parent"]:
            end_with_parent(signal.SIGTERM)
        lock = _take_lock(settings.RENOR_RUN / "serve.lock")
        try:
            _require_free_port(settings.RENOR_HOST, settings.RENOR_PORT)
            for step in _prepare():
                self.stdout.write(f"serve   | {step}")
                self.stdout.flush()
            _Everything(lock).run()
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        finally:
            os.close(lock)


class _Everything:
    """The parts, in the order in which they are needed."""

    def __init__(self, lock: int) -> None:
        self._supervisor = Supervisor(
            sys.stdout,
            folder=settings.BASE_DIR,
            env=_environment(),
            on_ending=lambda: _note(lock, f"{os.getpid()} ending"),
        )
        self._is_ready = False
        self._last_answer = b""

    def run(self) -> None:
        self._start_queue()
        self._supervisor.run()

    def _start_queue(self) -> None:
        """Start Redis if it is ours to start; the settings of the others look for it."""
        path = settings.RENOR_RUN / "redis.sock"
        path.unlink(missing_ok=True)  # left by one that was killed
        binary = shutil.which("redis-server")
        if settings.REDIS_URL or binary is None:
            self._start_server()
        elif len(os.fsencode(path)) > SOCKET_PATH_BYTES:
            self._supervisor.say(f"the queue stays on disk: {path} is too long a name")
            self._start_server()
        else:
            self._supervisor.start(_redis(binary, path))
            self._supervisor.wait_for(
                path.exists,
                seconds=REDIS_SECONDS,
                every_seconds=0.01,
                then=lambda _: self._start_server(),
            )

    def _start_server(self) -> None:
        for part in (_engines(), _web()):
            self._supervisor.start(part)
        wait_until_ready(
            self._supervisor.loop,
            settings.RENOR_HOST,
            settings.RENOR_PORT,
            settings.RENOR_PUBLIC_URL,
            self._welcome,
            self._note_answer,
        )
        self._supervisor.loop.call_later(SLOW_SECONDS, self._say_if_slow)

    def _welcome(self) -> None:
        self._is_ready = True
        # Only now: until the server answers, both cores are its own.
        for part in (_worker(), _beat()):
            self._supervisor.start(part)
        self._supervisor.terminal.write(_welcome())
        connections.close_all()

    def _note_answer(self, answer: bytes) -> None:
        self._last_answer = answer

    def _say_if_slow(self) -> None:
        if not self._is_ready:
            missing = ", ".join(missing_parts(self._last_answer))
            self._supervisor.say(f"not ready yet: {missing}; waiting goes on")


def _redis(binary: str, path: Path) -> Part:
    options = ("--unixsocket", str(path), "--unixsocketperm", "600", "--port", "0")
    # The queue is a doorbell, the counter a hint: nothing in it is worth a disk.
    memory_only = ("--save", "", "--appendonly", "no", "--dir", str(path.parent))
    # Its start alone is eight lines, whatever the level: they go beside its socket.
    log = path.with_name("redis.log")
    log.unlink(missing_ok=True)
    return Part(
        name="redis",
        command=(binary, *options, *memory_only, "--logfile", str(log)),
        is_leaned_on=True,
    )


def _engines() -> Part:
    return Part(name="engines", command=host_command(), is_leaned_on=True)


def _web() -> Part:
    address = ("-b", settings.RENOR_HOST, "-p", str(settings.RENOR_PORT))
    return Part(
        name="web",
        command=_python("-m", "daphne", "-v", "0", *address, "renor.asgi:application"),
    )


def _worker() -> Part:
    pool = ("-P", "threads", "-c", "2", "--without-gossip", "--without-mingle")
    return Part(name="worker", command=_celery("worker", *pool))


def _beat() -> Part:
    return Part(name="beat", command=_celery("beat", "--pidfile="))


def _celery(verb: str, *options: str) -> tuple[str, ...]:
    # Whoever runs all of Renor as root (in a container) has decided that for all of it.
    hushed = ("-W", "ignore:You're running the worker with superuser")
    run = ("-m", "celery", "-q", "-A", "renor", verb, "-l", "WARNING")
    return _python(*hushed, *run, *options)


def _python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)


def _environment() -> dict[str, str]:
    """What the parts inherit: this process's choices, spelt out."""
    return {
        **os.environ,
        "RENOR_DATA": str(settings.RENOR_DATA),
        "DJANGO_SETTINGS_MODULE": "renor.settings",
        "PYTHONUNBUFFERED": "1",
    }


def _take_lock(path: Path) -> int:
    """Return the descriptor that holds the lock for as long as it is open."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + LOCK_SECONDS
    while not _is_taken(lock):
        holder = os.pread(lock, 64, 0).decode("ascii", "replace").strip()
        if time.monotonic() > deadline or not holder.endswith("ending"):
            os.close(lock)
            message = (
                f"Renor runs already with this data folder (process {holder}). End "
                "that one first, or choose another folder and port: "
                "RENOR_DATA=/path RENOR_PORT=8001"
            )
            raise CommandError(message)
        time.sleep(0.05)
    _note(lock, str(os.getpid()))
    return lock


def _is_taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _note(lock: int, text: str) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{text}\n".encode("ascii"), 0)


def _require_free_port(host: str, port: int) -> None:
    deadline = time.monotonic() + PORT_SECONDS
    while not _is_free(host, port):
        if time.monotonic() > deadline:
            message = (
                f"Port {port} on {host} is taken by another program. Choose another "
                f"one: RENOR_PORT={port + 1 if port < 65_535 else 8000}"
            )
            raise CommandError(message)
        time.sleep(0.05)


def _is_free(host: str, port: int) -> bool:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        message = f"RENOR_HOST={host} is no address of this machine: {error}"
        raise CommandError(message) from error
    family, kind, protocol, _, address = found[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError:
            return False
    return True


def _prepare() -> Iterator[str]:
    """Bring database and static files up to date; yields a line per step before it."""
    executor = _migration_executor()
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        yield f"database: {len(plan)} migrations"
        call_command("migrate", interactive=False, verbosity=0)
    connections.close_all()

    stamp = settings.STATIC_ROOT / ".sources"
    sources = _fingerprint_static_sources()
    if not stamp.exists() or stamp.read_text(encoding="ascii") != sources:
        yield "static files"
        call_command("collectstatic", interactive=False, verbosity=0)
        stamp.write_text(sources, encoding="ascii")


def _migration_executor() -> MigrationExecutor:
    try:
        return MigrationExecutor(connections["default"])
    except (OperationalError, PoolTimeout):
        # Their texts may hold the address and the user: the cause is not shown.
        message = (
            "The accounts database cannot be reached: see that it runs, and that "
            "DATABASE_URL is right."
        )
        raise CommandError(message) from None


def _fingerprint_static_sources() -> str:
    digest = hashlib.sha256()
    for finder in get_finders():
        for name, storage in finder.list([]):
            status = Path(storage.path(name)).stat()
            digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _welcome() -> str:
    """Return how to come in; on the first start, with an account made for it.

    The password and the token stand nowhere else: only their hashes are kept.
    """
    owner = User.objects.order_by("pk").first()
    if owner is not None:
        reset = f"{_manage('changepassword')} {owner.email}"
        return _render(
            sign_in=f"{owner.email}   (a new password: {reset})",
            agent=f"{_manage('connect_agent')} {owner.email} NAME",
        )
    password = _readable_password()
    owner = open_account(FIRST_OWNER, password)
    # Whoever starts Renor on a machine also looks after its accounts.
    owner.is_staff = owner.is_superuser = True
    owner.save(update_fields=["is_staff", "is_superuser"])
    workspace = Workspace.objects.get(owner=owner)
    _, token = make_connection(workspace, FIRST_AGENT)
    return _render(
        sign_in=f"{FIRST_OWNER}   password: {password}   (shown only now)",
        agent="claude mcp add --transport http renor "
        f'{settings.RENOR_PUBLIC_URL}/mcp --header "Authorization: Bearer {token}"',
    )


def _render(*, sign_in: str, agent: str) -> str:
    return (
        "\nRenor is ready. Ctrl-C ends all of it.\n\n"
        f"Address   {settings.RENOR_PUBLIC_URL}\n"
        f"Sign in   {sign_in}\n"
        f"Connect an agent:\n{agent}\n"
    )


def _manage(command: str) -> str:
    return f".venv/bin/python manage.py {command}"


def _readable_password() -> str:
    groups = ("".join(secrets.choice(READABLE) for _ in range(5)) for _ in range(4))
    return "-".join(groups)
