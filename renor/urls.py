"""Every address of the product but /mcp, which renor/asgi.py answers before Django."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver

urlpatterns: list[URLPattern | URLResolver] = []
