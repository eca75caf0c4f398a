"""The README's promise: one command, and an agent saves and recalls a memory."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess

import pytest

from tests.serving import ROOT, find_free_port, serving


def test_first_start_ends_with_all_that_is_needed_to_come_in(short_folder):
    with serving(short_folder) as renor:
        address, sign_in, title, line = renor.output.splitlines()[-4:]

        assert address == f"Address   {renor.url}"
        assert sign_in.startswith("Sign in   owner@localhost   password: ")
        assert title == "Connect an agent:"
        assert line == (
            f"claude mcp add --transport http renor {renor.url}/mcp "
            f'--header "Authorization: Bearer {renor.token}"'
        )


def test_first_memory_is_saved_and_recalled(short_folder):
    with serving(short_folder) as renor:
        receipt = renor.call(
            renor.token,
            "remember",
            statement="Fjord stores its data in SQLite.",
            subject="Fjord",
            predicate="database",
            object="SQLite",
        )
        context = renor.call(
            renor.token, "get_context", query="what database does Fjord use?"
        )

        assert receipt["action"] == "store"
        assert context["relevance"]["relevant"] is True
        (fact,) = context["facts"]
        assert (fact["subject"], fact["object"]) == ("Fjord", "SQLite")
        assert fact["writer"] == "claude-code"


def test_secrets_of_the_first_start_are_kept_nowhere(short_folder):
    with serving(short_folder) as renor:
        renor.call(renor.token, "remember", statement="A word about Fjord.")
        token, password = renor.token.encode(), renor.password.encode()
        kept = [path for path in renor.data.rglob("*") if path.is_file()]

        assert kept
        assert [path for path in kept if token in path.read_bytes()] == []
        assert [path for path in kept if password in path.read_bytes()] == []
        assert [path for path in kept if path.stat().st_mode & 0o077] == []
        assert stat.S_IMODE(renor.data.stat().st_mode) == 0o700


def test_second_start_keeps_memories_and_shows_no_secret(short_folder):
    port = find_free_port()
    with serving(short_folder, port) as renor:
        token = renor.token
        renor.call(token, "remember", statement="Fjord is written in Python.")

    with serving(short_folder, port) as renor:
        said = renor.output
        context = renor.call(token, "get_context", query="what is Fjord written in?")

        assert [memory["text"] for memory in context["memories"]] == [
            "Fjord is written in Python."
        ]
        assert "shown only now" not in said
        assert "Bearer" not in said
        assert "changepassword owner@localhost" in said
        assert said.endswith("manage.py connect_agent owner@localhost NAME\n")


@pytest.mark.skipif(not shutil.which("curl"), reason="the README's lines use curl")
def test_lines_of_the_readme_save_and_find_the_first_memory(short_folder):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (lines,) = re.findall(r"```\n(call\(\).*?)```", readme, re.DOTALL)

    with serving(short_folder) as renor:
        lines = lines.replace("http://127.0.0.1:8000", renor.url)
        done = subprocess.run(
            ("/bin/sh", "-ec", lines.replace("renor_...", renor.token)),
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )

    saved, found = done.stdout.split('{"jsonrpc"')[1:]
    assert '"action":"store"' in saved
    assert "Fjord uses SQLite as its database." in found
    assert '"relevant":true' in found
