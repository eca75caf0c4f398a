"""A memory in a folder of Markdown: the engine's public face. Knows no Django."""

from .engine import Engine
from .store import create_workspace
from .types import Caller

__all__ = ["Caller", "Engine", "create_workspace"]
