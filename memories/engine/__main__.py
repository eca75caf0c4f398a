"""Run one engine alone, for debugging: `python -m memories.engine DIR SOCKET`."""

from __future__ import annotations

import argparse
import socket
import sys
from pathlib import Path

from . import server


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m memories.engine")
    parser.add_argument("directory", type=Path, help="a workspace's folder")
    parser.add_argument("socket", type=Path, help="where to listen")
    parser.add_argument("--idle-seconds", type=float, default=86_400.0)
    options = parser.parse_args()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(options.socket))
    listener.listen(16)
    return server.run(options.directory, listener, idle_seconds=options.idle_seconds)


if __name__ == "__main__":
    sys.exit(main())
