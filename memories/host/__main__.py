"""`python -m memories.host --data DIR`: one engine host over one data folder."""

from __future__ import annotations

import argparse
import fcntl
import gc
import logging
import os
import sys
from pathlib import Path

from memories.engine import warmup
from memories.engine.errors import EngineError

from .places import (
    HOST_LOCK,
    WORKSPACES,
    engines_folder,
    make_private_folder,
    run_folder,
)
from .spawn import EngineOptions
from .supervisor import HostOptions, Supervisor

EXIT_TAKEN = 4


def main(arguments: list[str] | None = None) -> int:
    options = _parse(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr
    )
    os.umask(0o077)
    run = run_folder(options.data)
    make_private_folder(run)
    make_private_folder(engines_folder(run))
    lock = _take_lock(run)
    if lock is None:
        message = f"Another engine host serves {options.data}; this one ends."
        print(message, file=sys.stderr)  # noqa: T201 - said to whoever started it
        return EXIT_TAKEN
    try:
        warmup.rehearse(options.data / WORKSPACES)
    except (OSError, EngineError) as fault:
        # Engines start without it all the same, some milliseconds later.
        logging.getLogger("renor.host").warning(
            "no rehearsal: %s", type(fault).__name__
        )
    # What is here now is shared by every engine: the collector need not look at it,
    # and so does not write to its pages.
    gc.collect()
    gc.freeze()
    Supervisor(options).run()
    os.close(lock)
    return 0


def _parse(arguments: list[str] | None) -> HostOptions:
    parser = argparse.ArgumentParser(
        prog="python -m memories.host", description=__doc__
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR")
    parser.add_argument("--idle-seconds", type=float, default=300.0, metavar="N")
    parser.add_argument("--max-awake", type=int, default=64, metavar="N")
    parser.add_argument("--allow-network-disk", action="store_true")
    given = parser.parse_args(arguments)
    if given.max_awake < 1 or given.idle_seconds <= 0:
        parser.error("--max-awake and --idle-seconds must be above 0")
    return HostOptions(
        data=given.data.resolve(),
        max_awake=given.max_awake,
        engine=EngineOptions(
            idle_seconds=given.idle_seconds,
            allow_network_disk=given.allow_network_disk,
        ),
    )


def _take_lock(run: Path) -> int | None:
    """Return the lock's descriptor, open as long as the process, or None if taken."""
    descriptor = os.open(run / HOST_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


if __name__ == "__main__":
    sys.exit(main())
