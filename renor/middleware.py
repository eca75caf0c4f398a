"""Around every page: headers, static files, language, and an engine that is away."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import translation
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile

from memories import gateway

logger = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponseBase]

# Nothing inline, nothing from elsewhere; data: is for the style sheet's own icons.
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
PERMISSIONS: Final = ", ".join(
    f"{feature}=()"
    for feature in (
        "accelerometer",
        "camera",
        "display-capture",
        "geolocation",
        "gyroscope",
        "magnetometer",
        "microphone",
        "midi",
        "payment",
        "usb",
    )
)


class SecurityHeaders:
    """Outermost, so that no answer of Django leaves without them."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault("Permissions-Policy", PERMISSIONS)
        if not request.path.startswith(settings.STATIC_URL):
            # Pages hold what is private: neither caches nor the back button keep it.
            response.headers.setdefault("Cache-Control", "no-store")
        return response


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]  # no types
    """Whitenoise, answering in one piece.

    Its own answer streams from a file, which Django under ASGI reads whole anyway and
    warns of each time. The largest of these files has about 300 kB.
    """

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file is not None:
            with found.file:
                content = found.file.read()
        whole = HttpResponse(content, status=int(found.status))
        del whole.headers["Content-Type"]  # a 304 has none; the others bring theirs
        for name, value in found.headers:
            whole.headers[name] = value
        return whole


class OwnLanguage:
    """A signed-in person's chosen language wins over the browser's."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        # Without a session nobody is signed in, and nothing need be looked up.
        if settings.SESSION_COOKIE_NAME in request.COOKIES:
            language = getattr(request.user, "language", "")
            if language:
                translation.activate(language)
                request.LANGUAGE_CODE = language
        return self.get_response(request)


class MemoryUnavailable:
    """A page that needed an engine which is away: 503, and when to come back."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_exception(
        self, request: HttpRequest, exception: Exception
    ) -> HttpResponse | None:
        if not isinstance(exception, gateway.Unavailable):
            return None
        logger.warning("A workspace is away: %s", exception.message)
        response = render(request, "503.html", status=503)
        response.headers["Retry-After"] = str(exception.retry_after_seconds)
        return response
