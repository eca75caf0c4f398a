"""Static files under names that carry their hash, so that browsers may keep them."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]  # whitenoise has no types
    """As whitenoise has it, but usable before `collectstatic` has ever run.

    What the manifest does not know keeps its plain name: a page without its newest
    style is better than no page.
    """

    def stored_name(self, name: str) -> str:
        return str(self.hashed_files.get(self.hash_key(name), name))
