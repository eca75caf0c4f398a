import uuid
from pathlib import Path

import pytest

from memories.host import places

WORKSPACE = "0b0e7a4e-8f0e-4a77-9d63-0f8a2f1f6d11"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "..",
        "../../etc",
        "workspace",
        WORKSPACE.upper(),
        WORKSPACE.replace("-", ""),
        f"{{{WORKSPACE}}}",
        f"urn:uuid:{WORKSPACE}",
        f"{WORKSPACE}/..",
        f"{WORKSPACE}\n",
    ],
)
def test_workspace_id_in_another_form_is_refused(text: str, tmp_path: Path):
    with pytest.raises(ValueError, match="UUID"):
        places.workspace_folder(tmp_path, text)

    refusal = places.why_not_on_disk(tmp_path, text)
    assert refusal is not None
    assert refusal.reason == "unknown"


def test_workspace_without_a_folder_is_unknown(tmp_path: Path):
    refusal = places.why_not_on_disk(tmp_path, str(uuid.uuid4()))

    assert refusal is not None
    assert refusal.reason == "unknown"


def test_workspace_without_its_marker_may_be_an_unmounted_disk(tmp_path: Path):
    places.workspace_folder(tmp_path, WORKSPACE).mkdir(parents=True)

    refusal = places.why_not_on_disk(tmp_path, WORKSPACE)

    assert refusal is not None
    assert refusal.reason == "marker"


def test_workspace_that_is_a_file_cannot_be_read(tmp_path: Path):
    folder = places.workspace_folder(tmp_path, WORKSPACE)
    folder.parent.mkdir()
    folder.write_text("", encoding="utf-8")

    refusal = places.why_not_on_disk(tmp_path, WORKSPACE)

    assert refusal is not None
    assert refusal.reason == "unreadable"
    assert "ENOTDIR" in refusal.message


def test_private_folder_is_closed_to_others_even_if_it_was_open(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o755)

    places.make_private_folder(folder)

    assert folder.stat().st_mode & 0o777 == 0o700
