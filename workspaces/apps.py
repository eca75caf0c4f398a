"""The app of tenancy."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class WorkspacesConfig(AppConfig):
    name = "workspaces"
    verbose_name = _("Workspaces")
    default_auto_field = "django.db.models.BigAutoField"
