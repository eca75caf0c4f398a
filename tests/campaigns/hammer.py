"""One of several processes that hammer one workspace through the gateway.

    python -m tests.campaigns.hammer WORKSPACE NAME CALLS

Says on standard output, a JSON object a line, what was acknowledged and what failed.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import django

django.setup()

from memories import gateway  # noqa: E402 - settings first
from memories.gateway import operations  # noqa: E402
from tests.factories import make_grant  # noqa: E402
from workspaces.access import Grant  # noqa: E402

PATIENCE_SECONDS = 20.0


def tell(**said: object) -> None:
    print(json.dumps(said), flush=True)


Step = tuple[operations.Operation[Any], dict[str, Any]]


def steps(name: str, count: int, saved: list[str]) -> Iterator[Step]:
    choose = random.Random(name)  # noqa: S311 - nothing secret
    for number in range(count):
        words = f"{name} says number{number} of{choose.getrandbits(20)}"
        kind = choose.choice(["entry", "entry", "fact", "read", "search", "retire"])
        if kind == "entry":
            yield operations.REMEMBER, {"statement": words}
        elif kind == "fact":
            said = {"subject": name, "predicate": f"p{number % 7}", "object": words}
            yield operations.SAVE_MEMORY, said
        elif kind == "search" or not saved:
            yield operations.GET_CONTEXT, {"query": f"number{number // 2}"}
        elif kind == "read":
            yield operations.READ_MEMORY, {"id": choose.choice(saved)}
        else:
            yield operations.RETIRE_MEMORY, {"id": saved.pop()}


def main(workspace: str, name: str, count: int) -> None:
    grant = make_grant(workspace, connection_id=name, name=name)
    saved: list[str] = []
    for operation, arguments in steps(name, count, saved):
        answer = ask(grant, operation, arguments)
        if isinstance(answer, operations.Receipt):
            saved.append(answer.id)
            text = arguments.get("statement") or arguments["object"]
            tell(saved=answer.id, text=text)
        elif isinstance(answer, operations.Retirement):
            tell(retired=answer.id)


def ask(
    grant: Grant, operation: operations.Operation[Any], arguments: dict[str, Any]
) -> object:
    """Call until it is answered: 503 says "come back", and a retry is harmless."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return gateway.call(grant, operation, **arguments)
        except gateway.Unavailable as later:
            tell(unavailable=later.message)
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
        except gateway.errors.EngineError as error:
            tell(error=f"{operation.name}: {error.code}: {error.message}")
            return None


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
