"""Is the process alive, and can it serve? Booleans only: who asks may be anyone."""

from __future__ import annotations

import redis
from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe
from psycopg_pool import PoolTimeout

from memories import gateway
from workspaces.access import is_token_counter_reachable
from workspaces.models import Workspace


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Answer that the process runs; it asks nobody else."""
    return JsonResponse({"alive": True})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 when a call would be served, else 503 and what is missing."""
    found = {
        "database": _is_database_ready(),
        "engine_host": gateway.is_host_reachable(),
        "token_counter": gateway.is_token_counter_loaded(),
        "access_counter": is_token_counter_reachable(),
    }
    if address := settings.REDIS_URL or _private_redis():
        found["redis"] = _is_redis_ready(address)
    ready = all(found.values())
    return JsonResponse({"ready": ready, **found}, status=200 if ready else 503)


def _is_database_ready() -> bool:
    try:
        Workspace.objects.exists()  # reachable, and its tables are made
    except (DatabaseError, PoolTimeout):
        return False
    return True


def _private_redis() -> str:
    """Return the address of the Redis that `serve` started; "" without one."""
    scheme, _, path = settings.CELERY_BROKER_URL.partition("://")
    return f"unix://{path}" if scheme == "redis+socket" else ""


def _is_redis_ready(address: str) -> bool:
    client = redis.Redis.from_url(address, socket_timeout=1, socket_connect_timeout=1)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
