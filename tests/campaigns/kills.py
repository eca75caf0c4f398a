"""kill -9 of the real engine at any moment: nothing acknowledged is ever lost.

    python -m tests.campaigns.kills --kills 10000 --seed 1

Engines are forked as the engine host forks them, and killed while several calls are
on their way, or while they open, scan or build their index anew. A call that the kill
left without an answer is made again with its request id, as the gateway does; what it
answers then is acknowledged. After every kill what was touched is read back, from time
to time everything is.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import select
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from memories.engine import server, types, wire
from memories.engine.workspace import create_workspace

OPEN_SECONDS = 20.0
CALLS_AT_ONCE = 4
CHECK_ALL_EVERY = 200
WORKSPACE_ID = "7c1f1f0e-0000-4000-8000-000000000001"
ACTS: frozenset[types.Act] = frozenset({"read", "write", "own"})


class Lost(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Memory:
    """What the campaign knows of one acknowledged memory."""

    id: str
    text: str
    state: str = "live"
    gone: list[str] = field(default_factory=list)
    """Words that no file may hold any more."""


@dataclass(slots=True)
class Call:
    """A call on its way; `done` takes its answer into the model."""

    operation: str
    arguments: dict[str, wire.Argument]
    done: Callable[[dict[str, object]], None]
    touches: str = ""
    request_id: str = ""


@dataclass(slots=True)
class Summary:
    kills: int = 0
    calls: int = 0
    repeated: int = 0
    while_opening: int = 0
    by_operation: dict[str, int] = field(default_factory=dict)


class Engine:
    """One engine process on a socket of its own."""

    def __init__(self, directory: Path) -> None:
        self._path = directory.parent / f"{os.urandom(4).hex()}.sock"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        listener.listen(16)
        ready_read, ready_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                os.close(ready_read)
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                code = server.run(
                    directory, listener, idle_seconds=3_600, ready_fd=ready_write
                )
            finally:
                os._exit(code)
        listener.close()
        os.close(ready_write)
        self._ready = ready_read
        self.links: list[socket.socket] = []

    def wait_ready(self, until: float) -> bool:
        """Whether the engine opened before a moment. Raises: Lost if it refused."""
        found, _, _ = select.select(
            [self._ready], [], [], max(until - time.monotonic(), 0)
        )
        if not found:
            return False
        line = os.read(self._ready, 4_096)
        if not line.startswith(b"+"):
            message = f"an engine did not open after a kill: {line!r}"
            raise Lost(message)
        for _ in range(CALLS_AT_ONCE):
            link = socket.socket(socket.AF_UNIX)
            link.connect(str(self._path))
            self.links.append(link)
        return True

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        for link in self.links:
            link.close()
        os.close(self._ready)
        self._path.unlink(missing_ok=True)


class Campaign:
    def __init__(self, directory: Path, seed: int) -> None:
        self.directory = directory
        self.summary = Summary()
        self._random = random.Random(seed)  # noqa: S311 - nothing secret
        self._numbers = iter(range(1, 10_000_000))
        self._memories: dict[str, Memory] = {}
        self._pending: list[Call] = []
        self._touched: set[str] = set()
        self._erased: list[str] = []
        create_workspace(directory, WORKSPACE_ID)

    def run(self, kills: int, tell: Callable[[str], None] = lambda _: None) -> Summary:
        """Kill so often; raises Lost at the first broken promise."""
        started = time.monotonic()
        for number in range(1, kills + 1):
            self._round()
            if number % CHECK_ALL_EVERY == 0 or number == kills:
                self._with_engine(self._check_all)
                pace = number / (time.monotonic() - started)
                tell(f"{number} kills, {len(self._memories)} memories, {pace:.1f}/s")
        return self.summary

    # --- one round: open, work, die, look

    def _round(self) -> None:
        if self._random.random() < 0.1:
            self._delete_index()
        if self._random.random() < 0.2:
            self._edit_by_hand()
        engine = Engine(self.directory)
        opens_first = self._random.random() < 0.85
        patience = OPEN_SECONDS if opens_first else self._random.uniform(0, 0.02)
        if engine.wait_ready(time.monotonic() + patience):
            self._work(engine, time.monotonic() + self._random.expovariate(1 / 0.02))
        elif opens_first:
            message = "an engine did not open in time"
            raise Lost(message)
        else:
            self.summary.while_opening += 1
        engine.kill()
        self.summary.kills += 1
        self._with_engine(self._settle)

    def _work(self, engine: Engine, until: float) -> None:
        """Keep several calls on their way until the moment of the kill."""
        busy: dict[socket.socket, Call] = {}
        while True:
            for link in engine.links:
                if link not in busy:
                    call = self._next_call()
                    self._pending.append(call)
                    busy[link] = call
                    link.sendall(self._frame(call))
            left = until - time.monotonic()
            ready, _, _ = select.select(list(busy), [], [], max(left, 0))
            if not ready:
                return
            for link in ready:
                call = busy.pop(link)
                self._take(call, _receive(link))

    def _with_engine(self, step: Callable[[socket.socket], None]) -> None:
        """Do something over an engine that is left alone."""
        engine = Engine(self.directory)
        try:
            if not engine.wait_ready(time.monotonic() + OPEN_SECONDS):
                message = "an engine did not open in time"
                raise Lost(message)
            step(engine.links[0])
        finally:
            engine.kill()

    def _settle(self, link: socket.socket) -> None:
        """Repeat what was left without an answer, then look at all that was touched."""
        for call in list(self._pending):
            self.summary.repeated += 1
            link.sendall(self._frame(call))
            self._take(call, _receive(link))
        for memory_id in sorted(self._touched):
            self._check(link, self._memories[memory_id])
        self._touched.clear()

    def _frame(self, call: Call) -> bytes:
        caller = types.Caller(
            connection_id="owner", name="owner", acts=ACTS, request_id=call.request_id
        )
        request = wire.Request(
            operation=call.operation, caller=caller, arguments=call.arguments
        )
        return wire.frame(wire.encode(request))

    def _take(self, call: Call, reply: wire.Reply) -> None:
        self._pending.remove(call)
        self.summary.calls += 1
        counts = self.summary.by_operation
        counts[call.operation] = counts.get(call.operation, 0) + 1
        if reply.error is not None or not reply.ok:
            message = f"{call.operation} {call.arguments} was refused: {reply.error}"
            raise Lost(message)
        call.done(msgspec.json.decode(reply.ok, type=dict[str, object]))

    # --- what is called

    def _next_call(self) -> Call:
        in_use = {call.touches for call in self._pending}
        free = [m for m in self._memories.values() if m.id not in in_use]
        made = next(
            (
                call
                for _ in range(4)
                if (call := self._random.choice(_CALLS)(self, free)) is not None
            ),
            None,
        ) or _remember(self, free)
        made.request_id = f"{self._random.getrandbits(64):016x}"
        return made

    def words(self) -> str:
        return f"word{next(self._numbers)}x{self._random.getrandbits(32):08x}"

    def pick(self, free: list[Memory], state: str, kind: str = "") -> Memory | None:
        chosen = [m for m in free if m.state == state and m.id.startswith(kind)]
        return self._random.choice(chosen[-40:]) if chosen else None

    def learn(self, memory: Memory) -> None:
        if memory.id in self._memories and self._memories[memory.id] != memory:
            message = f"{memory.id} was given out twice"
            raise Lost(message)
        self._memories[memory.id] = memory
        self._touched.add(memory.id)

    def touch(self, memory: Memory) -> None:
        self._touched.add(memory.id)

    def erased(self, words: list[str]) -> None:
        self._erased += words

    # --- other hands

    def _delete_index(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            (self.directory / f"index.sqlite3{suffix}").unlink(missing_ok=True)

    def _edit_by_hand(self) -> None:
        """Save a note as editors do: a new file renamed over the old one."""
        name = f"note{self._random.randrange(8)}.md"
        text = f"# By hand\n\n{self.words()}\n"
        store = self.directory / "store"
        memory_id = f"note:{name}"
        if any(call.touches == memory_id for call in self._pending):
            return
        (store / ".swap").write_text(text, encoding="utf-8")
        (store / ".swap").rename(store / name)
        self._memories[memory_id] = Memory(memory_id, text)
        self._touched.add(memory_id)

    # --- what must hold

    def _check(self, link: socket.socket, memory: Memory) -> None:
        found = self._ask(link, "read_memory", id=memory.id)
        if memory.state == "erased":
            if found.error is None or found.error.code != "not_found":
                message = f"{memory.id} was erased and is read"
                raise Lost(message)
            return
        if found.error is not None:
            message = f"{memory.id} ({memory.state}) is lost: {found.error.message}"
            raise Lost(message)
        said = msgspec.json.decode(found.ok, type=types.Memory)
        is_retired = said.retired is True
        if (said.text, is_retired) != (memory.text, memory.state == "retired"):
            message = f"{memory.id} should be {memory}, but is {said}"
            raise Lost(message)

    def _check_all(self, link: socket.socket) -> None:
        for memory in self._memories.values():
            self._check(link, memory)
        verified = self._ask(link, "verify")
        said = msgspec.json.decode(verified.ok, type=types.Verification)
        entries = [
            m
            for m in self._memories.values()
            if m.id.startswith("entry:") and m.state == "live"
        ]
        if said.problems or said.entries != len(entries):
            message = f"{len(entries)} live entries acknowledged, verified: {said}"
            raise Lost(message)
        self._require_nowhere(self._erased)
        self._erased.clear()

    def _require_nowhere(self, words: list[str]) -> None:
        if not words:
            return
        for path in _files_under(self.directory):
            data = path.read_bytes()
            for word in words:
                if word.encode() in data:
                    message = f"erased {word} stands in {path.name}"
                    raise Lost(message)

    def _ask(
        self, link: socket.socket, operation: str, **arguments: wire.Argument
    ) -> wire.Reply:
        call = Call(operation, arguments, lambda _: None)
        link.sendall(self._frame(call))
        return _receive(link)


def _files_under(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path


def _receive(link: socket.socket) -> wire.Reply:
    """Raises: Lost if the engine ended by itself."""
    data = bytearray()
    while True:
        if len(data) >= wire.LENGTH_BYTES:
            size = int.from_bytes(data[: wire.LENGTH_BYTES], "big")
            if len(data) >= wire.LENGTH_BYTES + size:
                return wire.decode_reply(bytes(data[wire.LENGTH_BYTES :]))
        more = link.recv(1 << 16)
        if not more:
            message = "an engine ended by itself"
            raise Lost(message)
        data += more


# --- the calls: each returns None where there is nothing to call it on

Make = Callable[[Campaign, list[Memory]], "Call | None"]


def _remember(campaign: Campaign, _free: list[Memory]) -> Call:
    text = f"Statement {campaign.words()} and {campaign.words()}."

    def done(answer: dict[str, object]) -> None:
        campaign.learn(Memory(str(answer["id"]), text))

    return Call("remember", {"statement": text}, done)


def _remember_note(campaign: Campaign, _free: list[Memory]) -> Call:
    text = f"A note\n\n## 12:00\n<!-- renor {campaign.words()} -->\n"
    shown = text.replace("<!-- ", "[hidden HTML comment: ").replace(" -->", "]")

    def done(answer: dict[str, object]) -> None:
        campaign.learn(Memory(str(answer["id"]), shown))

    return Call("remember_note", {"text": text, "date": "2026-11-01"}, done)


def _save_fact(campaign: Campaign, free: list[Memory]) -> Call:
    subject, value = campaign.words(), campaign.words()

    def done(answer: dict[str, object]) -> None:
        campaign.learn(Memory(str(answer["id"]), f"{subject} is: {value}"))

    return Call(
        "save_memory", {"subject": subject, "predicate": "is", "object": value}, done
    )


def _retire(campaign: Campaign, free: list[Memory]) -> Call | None:
    memory = campaign.pick(free, "live")
    if memory is None:
        return None
    return _change(campaign, memory, "retire_memory", "retired")


def _restore(campaign: Campaign, free: list[Memory]) -> Call | None:
    memory = campaign.pick(free, "retired")
    if memory is None or memory.id.startswith("note:"):
        return None  # another may have been written in its place by hand
    return _change(campaign, memory, "restore_memory", "live")


def _change(campaign: Campaign, memory: Memory, operation: str, state: str) -> Call:
    def done(_answer: dict[str, object]) -> None:
        memory.state = state
        campaign.touch(memory)

    return Call(operation, {"id": memory.id}, done, touches=memory.id)


def _erase(campaign: Campaign, free: list[Memory]) -> Call | None:
    memory = campaign.pick(free, "retired")
    if memory is None or memory.id.startswith("note:"):
        return None

    def done(_answer: dict[str, object]) -> None:
        memory.state = "erased"
        campaign.touch(memory)
        campaign.erased([*memory.gone, *_own_words(memory.text)])

    return Call("erase", {"id": memory.id}, done, touches=memory.id)


def _own_words(text: str) -> list[str]:
    parts = "".join(c if c.isalnum() else " " for c in text).split()
    return [part for part in parts if part.startswith("word") and "x" in part]


def _replace(campaign: Campaign, free: list[Memory]) -> Call | None:
    memory = campaign.pick(free, "live", "entry:")
    if memory is None or "Statement" not in memory.text:
        return None
    text = f"Statement {campaign.words()}, in other words."

    def done(_answer: dict[str, object]) -> None:
        memory.gone += _own_words(memory.text)
        memory.text = text
        campaign.touch(memory)

    expected = hashlib.sha256(memory.text.encode()).hexdigest()
    arguments: dict[str, wire.Argument] = {
        "id": memory.id,
        "text": text,
        "expected_sha256": expected,
    }
    return Call("replace_note", arguments, done, touches=memory.id)


def _redact(campaign: Campaign, free: list[Memory]) -> Call | None:
    memory = campaign.pick(free, "live", "entry:")
    words = _own_words(memory.text) if memory and "Statement" in memory.text else []
    if memory is None or not words:
        return None
    start = memory.text.index(words[0])

    def done(_answer: dict[str, object]) -> None:
        memory.text = memory.text.replace(words[0], "[redacted]")
        campaign.touch(memory)
        campaign.erased(words[:1])

    spans = [[start, start + len(words[0])]]
    return Call("redact", {"id": memory.id, "spans": spans}, done, touches=memory.id)


_CALLS: list[Make] = [
    *[_remember] * 4,
    *[_save_fact] * 3,
    _remember_note,
    *[_retire] * 2,
    _restore,
    _replace,
    _redact,
    _erase,
]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="renor-kills-"))
    campaign = Campaign(folder / "workspace", options.seed)
    try:
        summary = campaign.run(options.kills, print)
    except Lost as lost:
        print(f"seed {options.seed}, kill {campaign.summary.kills}: {lost}")
        print(f"the workspace is kept in {folder}")
        return 1
    print(summary)
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
