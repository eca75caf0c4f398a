"""Configurations that start but should not be lived with, each with the way out.

Errors stop every command; warnings are shown by `manage.py check`.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register


@register(Tags.security)
def check_configuration(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    return [*_address(), *_signup(), *_data_folder()]


def _address() -> Iterator[CheckMessage]:
    if settings.IS_LOOPBACK:
        return
    if not settings.IS_HTTPS:
        yield Warning(
            "Passwords, tokens and memories travel unencrypted: the address others "
            "use is http and not of this machine alone.",
            hint="Put a proxy with TLS in front and set RENOR_PUBLIC_URL to its "
            "https address, or keep RENOR_HOST at 127.0.0.1.",
            id="renor.W001",
        )
    if settings.DEBUG:
        yield Error(
            "RENOR_DEBUG shows code, settings and memories on error pages to everyone "
            "who reaches this server.",
            hint="Unset RENOR_DEBUG, or serve 127.0.0.1 alone.",
            id="renor.E001",
        )
    if not settings.RENOR_SMTP_URL:
        yield Warning(
            "Password resets are printed on the console instead of being sent.",
            hint="Set RENOR_SMTP_URL, such as smtp://user:password@mail.example.org.",
            id="renor.W002",
        )


def _signup() -> Iterator[CheckMessage]:
    unproven = settings.ACCOUNT_EMAIL_VERIFICATION == "none"
    if settings.RENOR_SIGNUP == "open" and unproven and not settings.IS_LOOPBACK:
        yield Error(
            "Anyone may sign up here under anyone's e-mail: addresses cannot be "
            "verified without mail.",
            hint="Set RENOR_SMTP_URL, or RENOR_SIGNUP=closed.",
            id="renor.E002",
        )


def _data_folder() -> Iterator[CheckMessage]:
    mode = stat.S_IMODE(settings.RENOR_DATA.stat().st_mode)
    if mode & 0o077:
        yield Warning(
            f"Other users of this machine may look into {settings.RENOR_DATA} "
            f"(mode {mode:o}).",
            hint=f"chmod 700 {settings.RENOR_DATA}",
            id="renor.W003",
        )
