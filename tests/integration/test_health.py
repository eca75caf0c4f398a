"""What monitors ask: is it alive, and would a call be served?"""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection

from memories import gateway

PROBES = ("/healthz", "/readyz")


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "[::1]:8000"])
def test_alive_without_asking_anybody(client, host):
    answer = client.get("/healthz", headers={"host": host})

    assert answer.status_code == 200
    assert answer.json() == {"alive": True}
    assert not answer.cookies


@pytest.mark.django_db
@pytest.mark.usefixtures("engine_host")
def test_ready_when_all_is_there(client):
    gateway.load_token_counter()

    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {
        "ready": True,
        "database": True,
        "engine_host": True,
        "token_counter": True,
        "access_counter": True,
    }
    assert not answer.cookies


@pytest.mark.django_db
def test_not_ready_names_what_is_missing(client, settings, tmp_path):
    settings.REDIS_URL = f"unix://{tmp_path}/none.sock"

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["ready"] is False
    assert answer.json()["redis"] is False
    assert answer.json()["access_counter"] is False
    assert answer.json()["database"] is True
    assert str(tmp_path) not in answer.content.decode()


@pytest.mark.django_db
def test_ready_asks_redis_when_it_is_used(client, settings, redis_server):
    settings.REDIS_URL = redis_server

    answer = client.get("/readyz")

    assert answer.json()["redis"] is True
    assert answer.json()["access_counter"] is True


@pytest.mark.django_db
def test_ready_asks_the_redis_that_serve_started(client, settings, tmp_path):
    settings.CELERY_BROKER_URL = f"redis+socket://{tmp_path}/redis.sock"

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["redis"] is False
    assert answer.json()["access_counter"] is True


@pytest.mark.django_db
def test_not_ready_without_the_database(client):
    def refuse(execute, sql, params, many, context):
        raise OperationalError("could not connect to db.internal")

    with connection.execute_wrapper(refuse):
        answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["database"] is False
    assert "internal" not in answer.content.decode()


@pytest.mark.parametrize("path", PROBES)
def test_probe_is_only_read(client, path):
    assert client.post(path).status_code == 405


@pytest.mark.parametrize("path", PROBES)
@pytest.mark.django_db
def test_probe_is_not_sent_to_https(client, settings, path):
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$"]

    assert client.get(path).status_code in {200, 503}
