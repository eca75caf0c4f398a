"""Static files under names that carry their hash, so that browsers may keep them."""

from __future__ import annotations

from whitenoise.storage import CompressedManifestStaticFilesStorage


class StaticFiles(CompressedManifestStaticFilesStorage):
    """As whitenoise has it, but usable before `collectstatic` has ever run."""

    def stored_name(self, name: str) -> str:
        if not self.hashed_files:  # no manifest: whitenoise finds the sources instead
            return name
        return str(super().stored_name(name))
