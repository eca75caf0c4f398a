"""Celery tasks over memories. They carry ids only and log counts only."""

from __future__ import annotations

import logging
import time
import uuid

from celery import shared_task
from celery.app.task import Task

from memories import gateway
from memories.gateway import operations
from workspaces.access import grant_for_system
from workspaces.models import Workspace

SLICE_SECONDS = 20.0
"""A task ends within the queue's visibility time-out (60 s), or it would be handed out
a second time: what is left goes to the next task."""

VERIFY_SECONDS = 30.0
MAX_RETRIES = 5

logger = logging.getLogger(__name__)


@shared_task(bind=True, name="memories.tasks.verify_store", max_retries=MAX_RETRIES)
def verify_store(
    self: Task[..., None], after: str = "", waiting: list[str] | None = None
) -> None:
    """Verify every workspace's store, one after another.

    `after` is the last workspace that another slice has done. `waiting` are the
    ones that could not answer: they alone are tried again.
    """
    until = time.monotonic() + SLICE_SECONDS
    todo = _workspace_ids(after) if waiting is None else waiting
    unavailable: list[str] = []
    retry_after_seconds = 1
    for number, workspace_id in enumerate(todo):
        try:
            count_problems(workspace_id)
        except gateway.Unavailable as failure:
            unavailable.append(workspace_id)
            retry_after_seconds = max(retry_after_seconds, failure.retry_after_seconds)
        except gateway.errors.EngineError as error:
            logger.error(
                "workspace %s cannot be verified: %s", workspace_id, error.code
            )
        if time.monotonic() > until and number + 1 < len(todo):
            rest = todo[number + 1 :]
            _continue(workspace_id, rest if waiting is not None else None)
            break
    if not unavailable:
        return
    if self.request.retries >= MAX_RETRIES:
        logger.error("%d workspaces could not answer", len(unavailable))
        return
    raise self.retry(
        kwargs={"waiting": unavailable}, args=(), countdown=retry_after_seconds
    )


def count_problems(workspace_id: str) -> int:
    """Verify one store; its problems are logged as a number.

    Raises: gateway.Unavailable, gateway.errors.EngineError.
    """
    found = gateway.call(
        grant_for_system(workspace_id),
        operations.VERIFY,
        deadline_seconds=VERIFY_SECONDS,
    )
    log = logger.warning if found.problems else logger.info
    log(
        "workspace %s verified: %d events, %d entries, %d notes, %d problems",
        workspace_id,
        found.events,
        found.entries,
        found.notes,
        len(found.problems),
    )
    return len(found.problems)


def _continue(after: str, waiting: list[str] | None) -> None:
    verify_store.delay(after=after, waiting=waiting)


def _workspace_ids(after: str) -> list[str]:
    rows = Workspace.objects.order_by("id")
    if after:
        rows = rows.filter(id__gt=uuid.UUID(after))
    return [str(key) for key in rows.values_list("id", flat=True)]
