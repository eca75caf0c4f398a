"""Settings that are wrong are named, with what they accept; right ones are typed."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from renor.env import Environment, load_file, secret_key

ROOT = Path(__file__).resolve().parents[2]


def _refusal(environment: Environment) -> str:
    with pytest.raises(ImproperlyConfigured) as caught:
        environment.finish()
    return str(caught.value)


def test_every_wrong_variable_is_named_with_what_it_accepts():
    environment = Environment(
        {"PORT": "80x", "DEBUG": "maybe", "URL": "ftp://x", "MODE": "c", "DIR": "data"}
    )

    environment.number("PORT", 1, at_least=1, at_most=65535)
    environment.flag("DEBUG")
    environment.url("URL", "", ("http", "https"))
    environment.choice("MODE", "a", ("a", "b"), "More come later.")
    environment.path("DIR", Path("/"))

    assert _refusal(environment) == (
        "Settings that need mending:\n"
        "  - PORT accepts a whole number from 1 to 65535, not '80x'\n"
        "  - DEBUG accepts on or off, not 'maybe'\n"
        "  - URL accepts a complete address that begins with http:// or https://\n"
        "  - MODE accepts one of: a, b; not 'c'. More come later.\n"
        "  - DIR accepts an absolute path, not 'data'"
    )


def test_absent_and_empty_variables_are_their_defaults():
    environment = Environment({"EMPTY": " "})

    assert environment.text("EMPTY", "default") == "default"
    assert environment.number("EMPTY", 7, at_least=0, at_most=9) == 7
    assert environment.flag("ABSENT", True) is True
    assert environment.path("ABSENT", Path("/data")) == Path("/data")
    assert environment.origins("ABSENT") == []
    environment.finish()


@pytest.mark.parametrize(
    ("written", "meant"),
    [("on", True), ("TRUE", True), ("1", True), ("off", False), ("No", False)],
)
def test_flag_reads_the_usual_words(written, meant):
    assert Environment({"FLAG": written}).flag("FLAG", not meant) is meant


@pytest.mark.parametrize("written", ["0", "11", "-1", "1.5", "٣", "1_0"])
def test_number_out_of_bounds_is_refused(written):
    environment = Environment({"COUNT": written})

    environment.number("COUNT", 5, at_least=1, at_most=10)

    assert "COUNT accepts a whole number from 1 to 10" in _refusal(environment)


@pytest.mark.parametrize(
    "written",
    [
        "https://a.example/path",
        "https://user@a.example",
        "a.example",
        "http://a.example:port",
        "https://a.example?x",
    ],
)
def test_origin_with_more_than_an_origin_is_refused(written):
    environment = Environment({"RENOR_PUBLIC_URL": written})

    environment.origin("RENOR_PUBLIC_URL", "http://127.0.0.1:8000")

    assert "RENOR_PUBLIC_URL accepts" in _refusal(environment)


def test_origin_loses_its_final_slash():
    environment = Environment({"URL": "https://Memory.example.org/"})

    assert environment.origin("URL", "") == "https://memory.example.org"
    environment.finish()


def test_password_in_an_address_is_not_repeated():
    environment = Environment({"DATABASE_URL": "mysql://renor:hunter2secret@db/x"})

    environment.url("DATABASE_URL", "", ("postgres",))

    assert "hunter2secret" not in _refusal(environment)


def test_file_adds_what_the_environment_does_not_say(tmp_path):
    file = tmp_path / ".env"
    file.write_text(
        "# a comment\n\nexport A=1\nB='two words'\nC=three # 3\n", encoding="utf-8"
    )
    environ = {"A": "already"}

    load_file(file, environ)

    assert environ == {"A": "already", "B": "two words", "C": "three # 3"}


def test_secret_key_is_made_once_by_processes_that_start_together(tmp_path):
    kept = tmp_path / "secret_key"

    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(lambda _: secret_key(Environment({}), kept), range(8)))

    assert len(keys) == 1
    assert len(keys.pop()) >= 50
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [kept]


def test_secret_key_that_is_damaged_stops_the_start(tmp_path):
    kept = tmp_path / "secret_key"
    kept.write_text("", encoding="ascii")

    with pytest.raises(ImproperlyConfigured, match="holds no usable key"):
        secret_key(Environment({}), kept)


def test_secret_key_of_the_operator_wins(tmp_path):
    given = "k" * 50
    file = tmp_path / "given"
    file.write_text(given + "\n", encoding="ascii")

    environment = Environment({"RENOR_SECRET_KEY_FILE": str(file)})

    assert secret_key(environment, tmp_path / "secret_key") == given
    assert not (tmp_path / "secret_key").exists()


def _run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_start_with_wrong_settings_names_all_of_them(tmp_path):
    ended = _run(
        ["check"],
        RENOR_DATA=str(tmp_path),
        RENOR_PORT="0",
        RENOR_EMBEDDINGS="vertex",
        RENOR_SUPPORT_EMAIL="nobody",
    )

    assert ended.returncode == 1
    assert "RENOR_PORT accepts a whole number from 1 to 65535" in ended.stderr
    assert "RENOR_EMBEDDINGS accepts one of: none" in ended.stderr
    assert "comes in a later version" in ended.stderr
    assert "RENOR_SUPPORT_EMAIL accepts an e-mail address" in ended.stderr


def test_an_https_configuration_passes_the_deployment_check(tmp_path):
    data = tmp_path / "data"

    ended = _run(
        ["check", "--deploy", "--fail-level", "WARNING"],
        RENOR_DATA=str(data),
        RENOR_PUBLIC_URL="https://memory.example.org",
        RENOR_SMTP_URL="smtp://user:password@mail.example.org",
        DATABASE_URL="postgres://renor:password@localhost/renor",
    )

    assert ended.returncode == 0, ended.stderr
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "run").stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"RENOR_HOST": "192.0.2.1"}, "renor.W001"),
        (
            {"RENOR_PUBLIC_URL": "https://m.example.org", "RENOR_DEBUG": "on"},
            "renor.E001",
        ),
        ({"RENOR_PUBLIC_URL": "https://m.example.org"}, "renor.W002"),
        (
            {"RENOR_PUBLIC_URL": "https://m.example.org", "RENOR_SIGNUP": "open"},
            "renor.E002",
        ),
    ],
)
def test_a_dangerous_configuration_is_named_with_the_way_out(
    tmp_path, variables, found
):
    ended = _run(["check"], RENOR_DATA=str(tmp_path / "data"), **variables)

    assert found in ended.stderr
    assert "HINT" in ended.stderr


def test_a_data_folder_open_to_others_is_reported(tmp_path):
    tmp_path.chmod(0o755)

    ended = _run(["check"], RENOR_DATA=str(tmp_path))

    assert "renor.W003" in ended.stderr


def test_every_variable_is_in_the_example_file():
    source = (ROOT / "renor" / "settings.py").read_text(encoding="utf-8")
    source += (ROOT / "renor" / "env.py").read_text(encoding="utf-8")
    read = set(re.findall(r'environment\.\w+\(\s*"([A-Z][A-Z0-9_]+)"', source)) - {
        "PORT"
    }
    example = (ROOT / ".env.example").read_text(encoding="utf-8")

    documented = set(re.findall(r"^#([A-Z][A-Z0-9_]+)=", example, re.MULTILINE))

    assert read == documented
