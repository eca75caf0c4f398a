"""Every address of the product but /mcp, which renor/asgi.py answers before Django."""

from __future__ import annotations

from allauth.account.decorators import secure_admin_login
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.utils.translation import gettext_lazy as _

from accounts.views import choose_language

from .health import healthz, readyz

admin.site.site_header = admin.site.site_title = _("Renor's administration")
# One way in: the admin's own form has no limit on attempts.
admin.site.login = secure_admin_login(admin.site.login)  # type: ignore[method-assign]

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("memories.urls")),
    path("accounts/", include("allauth.urls")),
    path("admin/", admin.site.urls),
    path("i18n/setlang/", choose_language, name="set_language"),
    path("healthz", healthz),
    path("readyz", readyz),
]
