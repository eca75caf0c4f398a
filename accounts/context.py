"""What pages know about people without being asked."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def signup(request: HttpRequest) -> dict[str, bool]:
    return {"signup_open": settings.ACCOUNT_SIGNUP_ENABLED}
