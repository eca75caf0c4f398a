"""The store and its derived index, kept in step: the order of every step is here."""

from __future__ import annotations

import contextlib
import os

from . import files, page
from .errors import EngineError
from .hands import Hands
from .index import FAULTS


class Store(Hands):
    """One workspace's store with its index. The caller holds the workspace's lock."""

    # --- the page of facts

    def write_page(self) -> None:
        """Make Facts.md anew if facts have changed since; a person's own is left.

        A disk that refuses is no harm: the page is made again later.
        """
        path = self.notes.locate(page.PAGE_NAME.encode())
        with contextlib.suppress(OSError, EngineError, *FAULTS):
            newest = self.index.newest_written()[0]
            if newest == self.index.get_meta("page"):
                return
            if not os.path.lexists(path) or page.is_page(files.read(path)[0]):
                values = self.index.facts.newest_values(None, -1)
                self.disk.replace(path, page.render(values))
            else:
                message = "is your own, or was edited: it is a note and not updated"
                self.reports.add("page-kept", message, page.PAGE_NAME)
            with self.index.transaction():
                self.index.set_meta("page", newest)
