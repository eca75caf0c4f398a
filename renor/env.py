"""Typed readers of environment variables.

A wrong value is remembered, not raised at once, so that one start names every
variable to mend and what each accepts. Values of secrets are never repeated.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})


def load_file(path: Path, environ: MutableMapping[str, str]) -> None:
    """Add NAME=value lines of `path` to `environ`; what is already there wins."""
    if not path.is_file():
        return
    for line in path.read_text(encoding="utf-8").splitlines():
        name, separator, value = line.strip().removeprefix("export ").partition("=")
        if separator and name and not name.startswith("#"):
            environ.setdefault(name.strip(), _unquoted(value.strip()))


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


class Environment:
    """Reads variables; `finish` raises once for all that were wrong."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._problems: list[str] = []

    def finish(self) -> None:
        if self._problems:
            listed = "\n".join(f"  - {problem}" for problem in self._problems)
            message = f"Settings that need mending:\n{listed}"
            raise ImproperlyConfigured(message)

    def refuse(self, name: str, accepts: str) -> None:
        self._problems.append(f"{name} accepts {accepts}")

    def text(self, name: str, default: str = "") -> str:
        value = self._values.get(name, "").strip()
        if not value:
            return default
        if not value.isprintable():
            self.refuse(name, "text without control characters")
            return default
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.text(name).lower()
        if not value:
            return default
        if value not in TRUE | FALSE:
            self.refuse(name, f"on or off, not {value!r}")
        return value in TRUE

    def number(self, name: str, default: int, *, at_least: int, at_most: int) -> int:
        value = self.text(name)
        if not value:
            return default
        if value.isascii() and value.isdigit() and at_least <= int(value) <= at_most:
            return int(value)
        self.refuse(name, f"a whole number from {at_least} to {at_most}, not {value!r}")
        return default

    def choice(self, name: str, default: str, choices: Iterable[str], why: str) -> str:
        """Return one of `choices`; `why` explains the list when it is missed."""
        value = self.text(name, default).lower()
        allowed = tuple(choices)
        if value not in allowed:
            listed = ", ".join(allowed)
            self.refuse(name, f"one of: {listed}; not {value!r}. {why}".strip())
            return default
        return value

    def url(self, name: str, default: str, schemes: tuple[str, ...]) -> str:
        """Return an address without a final slash. It may hold a password: no echo."""
        value = self.text(name, default).rstrip("/")
        if not value:
            return value
        parts = _split(value)
        if parts is None or parts.scheme not in schemes:
            listed = " or ".join(f"{scheme}://" for scheme in schemes)
            self.refuse(name, f"a complete address that begins with {listed}")
            return default
        return value

    def origin(self, name: str, default: str) -> str:
        """Return scheme://host[:port], with nothing after it."""
        value = self.url(name, default, ("http", "https"))
        if not _is_origin(value):
            self.refuse(
                name,
                "an address without path, query or sign-in, such as "
                f"https://memory.example.org; not {value!r}",
            )
            return default
        return value.lower()

    def origins(self, name: str) -> list[str]:
        found = [item.strip().rstrip("/") for item in self.text(name).split(",")]
        wanted = [item for item in found if item]
        if not all(_is_origin(item) for item in wanted):
            self.refuse(
                name,
                "addresses without a path, separated by commas, such as "
                "https://agent.example.org,http://localhost:6274",
            )
        return wanted

    def path(self, name: str, default: Path) -> Path:
        value = self.text(name)
        if not value:
            return default
        path = Path(value).expanduser()
        if not path.is_absolute():
            self.refuse(name, f"an absolute path, not {value!r}")
            return default
        return path


def _split(value: str) -> SplitResult | None:
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        return None
    return parts if parts.netloc or parts.path else None


def _is_origin(value: str) -> bool:
    parts = _split(value)
    return (
        parts is not None
        and parts.scheme in {"http", "https"}
        and parts.hostname is not None
        and value == f"{parts.scheme}://{parts.netloc}"
        and "@" not in parts.netloc
    )


def make_private_folder(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
        message = f"RENOR_DATA: cannot make the folder {path} ({reason})"
        raise ImproperlyConfigured(message) from error


def secret_key(environment: Environment, kept: Path) -> str:
    """Return the operator's key, else the one in `kept`, made on the first run."""
    given = environment.text("RENOR_SECRET_KEY")
    file = environment.path("RENOR_SECRET_KEY_FILE", kept)
    if given and file != kept:
        environment.refuse(
            "RENOR_SECRET_KEY", "nothing when RENOR_SECRET_KEY_FILE is given"
        )
    if file != kept:
        given = _read_key(file)
        if not given:
            environment.refuse("RENOR_SECRET_KEY_FILE", "a file that can be read")
            return secrets.token_urlsafe(64)
    if given and len(given) < 50:
        environment.refuse("RENOR_SECRET_KEY", "50 characters or more, random ones")
    return given or _read_or_make_key(kept)


def _read_key(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _read_or_make_key(path: Path) -> str:
    """Read the key, or make it.

    Several processes start at once: each writes a file of its own and tries to
    link it to the final name, which only the first can do; a key once linked is whole.
    """
    if not path.exists():
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(secrets.token_urlsafe(64) + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        try:
            path.hardlink_to(draft)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    key = _read_key(path)
    if len(key) < 50:
        message = (
            f"{path} holds no usable key; restore it, or remove it to sign all out"
        )
        raise ImproperlyConfigured(message)
    return key
