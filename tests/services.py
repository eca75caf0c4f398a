"""The services that some tests need: where they are, and how a private one is started.

Each lives in a temporary folder and listens on a unix socket there: the version the
machine has, no port, nothing of the machine's own configuration.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

PATIENCE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Service:
    package: str  # Debian's
    find: Callable[[], str | None]


def find_redis() -> str | None:
    return shutil.which("redis-server")


def find_postgresql() -> str | None:
    """Return the folder of the newest server's programs: Debian keeps them off PATH."""
    if on_path := shutil.which("initdb"):
        return str(Path(on_path).resolve().parent)
    installed = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(installed, key=lambda path: int(path.parts[-3]), default=None)
    return str(newest.parent) if newest else None


def find_chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


# By the name of the fixture that a test asks for.
SERVICES = {
    "redis_server": Service("redis-server", find_redis),
    "postgresql": Service("postgresql", find_postgresql),
    "chromium": Service("chromium", find_chromium),
}


def wait_until(
    is_true: Callable[[], bool], what: str, seconds: float = PATIENCE_SECONDS
) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            message = f"not within {seconds} s: {what}"
            raise TimeoutError(message)
        time.sleep(0.02)


@contextlib.contextmanager
def run_redis(binary: str, folder: Path) -> Iterator[str]:
    """Yields the URL of a server that keeps nothing."""
    path = folder / "redis.sock"
    command = (binary, "--unixsocket", str(path), "--port", "0", "--save", "")
    with _running(command, folder) as process:
        wait_until(lambda: path.exists() or process.poll() is not None, "Redis")
        yield f"unix://{path}"


@contextlib.contextmanager
def run_postgresql(programs: str, folder: Path) -> Iterator[str]:
    """Yields the URL of a server without durability, which tests do not need."""
    as_user: tuple[str, ...] = ()
    if os.getuid() == 0:  # it refuses to run as root
        owner = pwd.getpwnam("postgres")
        as_user = ("setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    data = folder / "data"
    subprocess.run(
        (
            *as_user,
            f"{programs}/initdb",
            f"--pgdata={data}",
            "--username=renor",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
        ),
        check=True,
        capture_output=True,
        cwd=folder,
    )
    command = (*as_user, f"{programs}/postgres", "-D", str(data), "-k", str(folder))
    options = ("listen_addresses=", "fsync=off", "synchronous_commit=off")
    for option in options:
        command += ("-c", option)
    with _running(command, folder):
        wait_until(lambda: _accepts(programs, folder), "PostgreSQL")
        host = str(folder).replace("/", "%2F")
        yield f"postgresql://renor@{host}/postgres"


def _accepts(programs: str, folder: Path) -> bool:
    ready = (f"{programs}/pg_isready", "--quiet", "--host", str(folder))
    return subprocess.run(ready, check=False).returncode == 0


@contextlib.contextmanager
def _running(command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
