"""The one service interface of Django to the engines: who may, until when, how long.

Doors translate to and from these functions and import nothing behind them. It never
logs an argument or an answer. Source: docs/architecture.md, "Processes".
"""

from __future__ import annotations

import functools
import math
import threading
import time
import uuid
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.metadata import distribution
from importlib.util import module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from django.conf import settings

from memories import engine
from memories.engine import errors as errors
from memories.engine import recall, types, wire
from memories.engine.types import Operation
from memories.host.client import CannotReach, Client, LinkBroke
from memories.host.places import workspace_folder

if TYPE_CHECKING:
    from workspaces.access import Grant

operations = types
"""The engine's operations and answers, for doors, which import nothing behind."""

__all__ = [
    "Operation",
    "Unavailable",
    "call",
    "create_workspace",
    "encode",
    "errors",
    "is_host_reachable",
    "is_token_counter_loaded",
    "load_token_counter",
    "operations",
]

R = TypeVar("R")
Argument = wire.Argument

BREAK_PATIENCE_SECONDS = 2.0
"""How long a call whose engine died waits for the next one: a first crash costs 0.5 s."""

QUESTION_SECONDS = 2.0
"""After a call's deadline, for asking whether its write was done."""

_token_counter_lock = threading.Lock()


class Unavailable(Exception):
    """The workspace cannot answer now; the same call may succeed later.

    `outcome_known` False: a write may or may not have been done; a retry is harmless.
    True: nothing was written.
    """

    code = "unavailable"
    retryable = True

    def __init__(
        self, message: str, *, retry_after_seconds: float, outcome_known: bool = True
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after_seconds = max(1, math.ceil(retry_after_seconds))
        self.outcome_known = outcome_known


def call(
    grant: Grant,
    operation: Operation[R],
    *,
    request_id: str = "",
    client_name: str = "",
    deadline_seconds: float = 10.0,
    **arguments: Argument,
) -> R:
    """Run one operation of the workspace's engine and return its answer.

    A receipt's memory is on the disk on return.
    Raises: errors.EngineError: nothing was written. Unavailable: see its
    `outcome_known`.
    """
    if operation.act not in grant.acts:
        message = f"This connection may not {operation.act}. Ask the owner for access."
        raise errors.ReadOnly(message)
    deadline = time.monotonic() + deadline_seconds
    caller = operations.Caller(
        connection_id=grant.connection_id,
        name=grant.name,
        acts=grant.acts,
        scopes=grant.scopes,
        limit_bytes=grant.limit_bytes,
        request_id=request_id or uuid.uuid4().hex,
        deadline_ms=int((time.time() + deadline_seconds) * 1000),
        client_name=client_name,
    )
    asking = _Call(grant.workspace_id, caller, deadline)
    answer = asking.run(operation, arguments)
    if isinstance(answer, operations.Context):
        return _cut(answer, answer.tokens.max)  # type: ignore[return-value]  # R is Context here
    if isinstance(answer, recall.BOUNDED):
        return recall.bound(answer, _token_counter())
    return answer


def encode(answer: msgspec.Struct) -> bytes:
    """Return an answer as compact JSON, the form that is sent and counted."""
    return wire.encode(answer)


def create_workspace(workspace_id: str) -> None:
    """Make a workspace's folder, durable on return; one that exists stays as it is.

    Raises: ValueError on another form of id, errors.Corrupt if the folder is taken.
    """
    folder = workspace_folder(settings.RENOR_DATA, workspace_id)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    engine.create_workspace(folder, workspace_id)


def is_host_reachable() -> bool:
    return _client().ping_host()


def load_token_counter() -> None:
    """Load what counts tokens (a tenth of a second, once per process)."""
    _token_counter()


def is_token_counter_loaded() -> bool:
    return _load_counter_once.cache_info().currsize > 0


class _Call:
    """One operation on its way: what may be sent again, and what must be asked."""

    def __init__(
        self, workspace_id: str, caller: operations.Caller, deadline: float
    ) -> None:
        self._workspace = workspace_id
        self._caller = caller
        self._deadline = deadline

    def run(self, operation: Operation[R], arguments: dict[str, Argument]) -> R:
        try:
            return self._ask(operation, arguments, self._deadline)
        except CannotReach as error:
            raise _unavailable(error) from error
        except LinkBroke as error:
            if error.timed_out:
                _client().report_silent(self._workspace)
            if operation.act != "read":
                return self._settle_write(operation, arguments)
            if error.timed_out:
                raise Unavailable(str(error), retry_after_seconds=1) from error
        return self._ask_again(operation, arguments)

    def _ask_again(self, operation: Operation[R], arguments: dict[str, Argument]) -> R:
        """Repeat a call that cannot have changed anything; for the second time, once."""
        try:
            return self._ask_patiently(operation, arguments, self._deadline)
        except CannotReach as error:
            raise _unavailable(error) from error
        except LinkBroke as error:
            raise Unavailable(
                str(error),
                retry_after_seconds=1,
                outcome_known=operation.act == "read",
            ) from error

    def _settle_write(
        self, operation: Operation[R], arguments: dict[str, Argument]
    ) -> R:
        """Learn from the store whether a write without an answer was done.

        An engine begins no write after the deadline, so what it says then is final.
        """
        if operation.answer is not operations.Receipt:
            return self._settle_repeatable(operation, arguments)
        until = max(self._deadline, time.monotonic()) + QUESTION_SECONDS
        try:
            written = self._ask_patiently(
                operations.FIND_WRITTEN,
                {"request_id": self._caller.request_id},
                until,
            )
        except (CannotReach, LinkBroke, errors.EngineError) as error:
            raise Unavailable(
                "It is unknown whether this was written; a retry is harmless.",
                retry_after_seconds=1,
                outcome_known=False,
            ) from error
        if isinstance(written.receipt, operation.answer):
            return written.receipt
        if time.monotonic() < self._deadline:
            return self._ask_again(operation, arguments)
        message = "The workspace did not answer in time. Nothing was written."
        raise Unavailable(message, retry_after_seconds=1)

    def _settle_repeatable(
        self, operation: Operation[R], arguments: dict[str, Argument]
    ) -> R:
        """Do again what answers the same when done twice, if there is time."""
        if time.monotonic() < self._deadline:
            return self._ask_again(operation, arguments)
        raise Unavailable(
            "It is unknown whether this was done; a retry is harmless.",
            retry_after_seconds=1,
            outcome_known=False,
        )

    def _ask_patiently(
        self, operation: Operation[R], arguments: dict[str, Argument], until: float
    ) -> R:
        """Ask, and ask once more after the pause that a crash imposes, if it is short."""
        try:
            return self._ask(operation, arguments, until)
        except CannotReach as error:
            pause = error.refusal.retry_after_seconds
            if pause > min(BREAK_PATIENCE_SECONDS, until - time.monotonic()):
                raise
            time.sleep(pause)
        return self._ask(operation, arguments, until)

    def _ask(
        self, operation: Operation[R], arguments: dict[str, Argument], until: float
    ) -> R:
        request = wire.Request(
            operation=operation.name, caller=self._caller, arguments=arguments
        )
        body = wire.encode(request)
        if len(body) > wire.MAX_FRAME_BYTES:
            raise errors.TooLarge("The request is larger than a workspace accepts.")
        reply = _client().ask(self._workspace, wire.frame(body), until)
        if reply.error is not None:
            raise _from_wire(reply.error)
        if not reply.ok:
            raise LinkBroke("the engine gave an empty answer", timed_out=False)
        return msgspec.json.decode(reply.ok, type=operation.answer)


def _from_wire(answer: wire.ErrorAnswer) -> Exception:
    error = wire.error_from_wire(answer)
    if isinstance(error, errors.Busy):
        return Unavailable(error.message, retry_after_seconds=1)
    return error


def _unavailable(error: CannotReach) -> Unavailable:
    refusal = error.refusal
    return Unavailable(
        f"The workspace cannot answer now: {refusal.message}. Nothing was written.",
        retry_after_seconds=refusal.retry_after_seconds,
    )


def _cut(context: operations.Context, max_tokens: int) -> operations.Context:
    return recall.fit(context, _token_counter(), max_tokens)


@functools.cache
def _client() -> Client:
    return Client(settings.RENOR_RUN)


def _token_counter() -> Callable[[str], int]:
    with _token_counter_lock:  # or two first calls would both load it
        return _load_counter_once()


@functools.cache
def _load_counter_once() -> Callable[[str], int]:
    """Load bpe-openai's Rust core alone.

    Importing the package itself parses every encoding's table into Python objects
    that only its other functions need: 0.6 s and 144 MiB instead of 0.07 s and
    70 MiB (measured; the version is pinned exactly).
    """
    folder = Path(str(distribution("bpe-openai").locate_file("bpe_openai")))
    (core,) = folder.glob("_bindings*.so")
    loader = ExtensionFileLoader("bpe_openai._bindings", str(core))
    module = module_from_spec(ModuleSpec(loader.name, loader, origin=str(core)))
    loader.exec_module(module)
    count: Callable[[str], int] = module.tokenizer_for_encoding("o200k_base").count
    return count
