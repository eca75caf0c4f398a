"""The documents say what there is, and what they point to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from memories.mcp import tools

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
# A link's target; images and code spans apart.
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
README_LINES = 60


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def list_first_cells(page: Path, heading: str) -> set[str]:
    """Return the first word of every row of the table under `heading`."""
    section = read(page).split(f"## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `?(?:make )?([A-Za-z_-]+)", section, re.MULTILINE))


def list_anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", read(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading).lower() for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def test_every_tool_has_a_heading():
    headings = set(re.findall(r"^### (\w+)$", read(DOCS / "mcp.md"), re.MULTILINE))

    assert set(tools.TOOLS) - headings == set()


def test_every_setting_has_a_row():
    sources = read(ROOT / "renor/settings.py") + read(ROOT / "renor/env.py")
    read_names = set(re.findall(r"environment\.\w+\(\s*\"([A-Z_]+)\"", sources))

    documented = list_first_cells(DOCS / "operations.md", "Settings") - {"variable"}

    assert len(read_names) > 10
    assert documented == read_names


def test_every_setting_stands_in_the_example_file():
    example = set(
        re.findall(r"^#?([A-Z_]+)=", read(ROOT / ".env.example"), re.MULTILINE)
    )

    documented = list_first_cells(DOCS / "operations.md", "Settings") - {"variable"}

    assert example == documented


def test_every_make_verb_has_a_row():
    verbs = set(re.findall(r"^([a-z-]+):.*## ", read(ROOT / "Makefile"), re.MULTILINE))

    documented = list_first_cells(DOCS / "operations.md", "Make verbs") - {"verb"}

    assert "run" in verbs
    assert documented == verbs


def test_every_command_has_a_row():
    files = ROOT.glob("*/management/commands/[!_]*.py")
    commands = {file.stem for file in files}

    documented = list_first_cells(DOCS / "operations.md", "Commands") - {"command"}

    assert "serve" in commands
    assert documented == commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page):
    for target in LINK.findall(read(page)):
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = target.partition("#")
        linked = (page.parent / name).resolve() if name else page
        assert linked.exists(), target
        if anchor:
            assert anchor in list_anchors(linked), target


def test_decision_records_number_without_gaps():
    records = sorted(DOCS.glob("decisions/*.md"))

    numbers = [int(record.name.split("-")[0]) for record in records]

    assert numbers == list(range(1, len(records) + 1))
    for record in records:
        assert read(record).startswith(f"# {int(record.name[:4]):04d}"), record.name


def test_readme_fits_a_screen_or_two():
    assert len(read(ROOT / "README.md").splitlines()) <= README_LINES
