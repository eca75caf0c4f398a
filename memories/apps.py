"""The app of memories: it has no tables, memory lies in folders."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class MemoriesConfig(AppConfig):
    name = "memories"
    verbose_name = _("Memories")
    default_auto_field = "django.db.models.BigAutoField"
