"""The Celery app: where the queue is, and what runs by the clock.

The queue is only a doorbell. What is to be done is read from the engines, so a lost
message costs time, never work: tasks are short, idempotent and keep no result.
"""

import logging
import os
from typing import Any, Final

from celery import Celery
from celery.schedules import crontab
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "renor.settings")

FILESYSTEM: Final = "filesystem://"

# kombu hands a task on that its worker lost only after the visibility time-out, and
# looks for such tasks every (restore interval x throttle) seconds: by default after
# one hour and every 100 s, far too late for tasks that take seconds.
REDIS_OPTIONS: Final[dict[str, object]] = {
    "visibility_timeout": 60,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
}


def _defaults() -> dict[str, object]:
    """What the settings do not say; read once, when the configuration is first used."""
    # Not at the top: the settings package imports this module.
    from django.conf import settings  # noqa: PLC0415

    on_disk = settings.CELERY_BROKER_URL.startswith(FILESYSTEM)
    return {
        "accept_content": ["json"],
        "task_serializer": "json",
        "task_ignore_result": True,
        "task_acks_late": True,
        "task_default_queue": "renor",
        "worker_prefetch_multiplier": 1,
        "worker_redirect_stdouts": False,
        "broker_connection_retry_on_startup": True,
        "broker_transport_options": _disk_options() if on_disk else REDIS_OPTIONS,
        # Remote control is a fan-out; on disk it would leave files behind.
        "worker_enable_remote_control": not on_disk,
        "timezone": "UTC",
        "beat_schedule": BEAT_SCHEDULE,
        "beat_schedule_filename": str(settings.RENOR_RUN / "beat"),
    }


def _disk_options() -> dict[str, object]:
    from django.conf import settings  # noqa: PLC0415  (as above)

    folder = settings.RENOR_DATA / "queue"
    options: dict[str, object] = {"polling_interval": 0.05}  # seconds; default 1
    for option, name in (
        ("data_folder_in", "messages"),  # one folder: who writes also reads
        ("data_folder_out", "messages"),
        ("control_folder", "control"),
    ):
        (folder / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        options[option] = str(folder / name)
    return options


BEAT_SCHEDULE: Final[dict[str, dict[str, object]]] = {
    "verify-store-nightly": {
        "task": "memories.tasks.verify_store",
        # Off the full hour, when every other nightly job of a machine starts.
        "schedule": crontab(hour="3", minute="17"),
    },
}

app = Celery("renor")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.add_defaults(_defaults)
app.autodiscover_tasks(["memories", "accounts"])


@setup_logging.connect
def keep_logging(loglevel: int, **kwargs: Any) -> None:
    """Keep the settings' log lines; the level asked for is that of the queue's own."""
    for name in ("celery", "kombu"):
        logging.getLogger(name).setLevel(loglevel)
