"""A memory in a folder of Markdown: the engine's public face. Knows no Django."""

from .engine import Engine
from .types import Caller
from .workspace import create_workspace

__all__ = ["Caller", "Engine", "create_workspace"]
