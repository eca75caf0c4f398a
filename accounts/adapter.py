"""Where allauth asks the product: what a sign-up makes."""

from __future__ import annotations

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from django.db import transaction
from django.http import HttpRequest

from .models import User
from .opening import open_workspace


class Adapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth has no types
    def save_user(
        self, request: HttpRequest, user: User, form: Any, commit: bool = True
    ) -> User:
        with transaction.atomic():
            super().save_user(request, user, form, commit)
            if commit:
                open_workspace(user)
        return user
