"""The project as an app: it brings its checks."""

from django.apps import AppConfig


class RenorConfig(AppConfig):
    name = "renor"

    def ready(self) -> None:
        # Registering is importing, and checks need the app registry.
        from . import checks  # noqa: F401, PLC0415
