"""What a person sets about themselves."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from django.views.decorators.http import require_POST
from django.views.i18n import set_language

from .models import User


@require_POST
def choose_language(request: HttpRequest) -> HttpResponseBase:
    """Keep the choice in the browser, and with the account of who is signed in."""
    language = request.POST.get("language", "")
    if request.user.is_authenticated and language in dict(settings.LANGUAGES):
        User.objects.filter(pk=request.user.pk).update(language=language)
    return set_language(request)
