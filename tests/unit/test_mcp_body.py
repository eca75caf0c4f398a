"""The body of a POST at /mcp: what is one message, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from memories.mcp.body import MAX_BODY_BYTES, Disconnected, parse_message, read_body
from memories.mcp.refusal import Refusal

PARSE_ERROR, INVALID_REQUEST = -32700, -32600


class Incoming:
    """A body in parts, counting how many were asked for."""

    def __init__(self, *parts: bytes, is_cut: bool = False) -> None:
        self.asked = 0
        self._parts = parts
        self._is_cut = is_cut

    async def __call__(self) -> MutableMapping[str, Any]:
        if self.asked == len(self._parts):
            return {"type": "http.disconnect"}
        part = self._parts[self.asked]
        self.asked += 1
        is_last = self.asked == len(self._parts) and not self._is_cut
        return {"type": "http.request", "body": part, "more_body": not is_last}


def call(arguments: str, name: str = "remember") -> bytes:
    return (
        '{"jsonrpc":"2.0","id":1,"method":"tools/call",'
        f'"params":{{"name":"{name}","arguments":{arguments}}}}}'
    ).encode()


def test_body_in_parts_is_put_together() -> None:
    assert asyncio.run(read_body(Incoming(b"ab", b"", b"c"), "")) == b"abc"


def test_body_of_the_limit_is_read() -> None:
    body = asyncio.run(read_body(Incoming(b"x" * MAX_BODY_BYTES), str(MAX_BODY_BYTES)))

    assert len(body) == MAX_BODY_BYTES


def test_body_declared_too_large_is_refused_unread() -> None:
    incoming = Incoming(b"x")

    with pytest.raises(Refusal) as caught:
        asyncio.run(read_body(incoming, str(MAX_BODY_BYTES + 1)))

    assert (caught.value.status, incoming.asked) == (413, 0)


def test_body_growing_too_large_is_not_read_whole() -> None:
    incoming = Incoming(*[b"x" * 1024 * 1024] * 64)

    with pytest.raises(Refusal) as caught:
        asyncio.run(read_body(incoming, ""))

    assert (caught.value.status, incoming.asked) == (413, 5)


def test_client_that_leaves_early_is_not_answered() -> None:
    with pytest.raises(Disconnected):
        asyncio.run(read_body(Incoming(b"x", is_cut=True), ""))


def test_message_names_what_the_endpoint_must_know() -> None:
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":'
        b'{"name":"index_memory","_meta":{"progressToken":0}}}'
    )

    message = parse_message(body)

    assert message.body == body
    assert message.method == "tools/call"
    assert message.tool_name == "index_memory"
    assert message.has_progress_token


@pytest.mark.parametrize("params", [b"", b',"params":{}', b',"params":null'])
def test_message_may_have_no_params(params: bytes) -> None:
    body = b'{"jsonrpc":"2.0","method":"notifications/initialized"' + params + b"}"

    message = parse_message(body)

    assert (message.tool_name, message.has_progress_token) == ("", False)


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"", PARSE_ERROR, "the body is not valid JSON"),
        (b"{", PARSE_ERROR, "the body is not valid JSON"),
        (b"[" * 200_000, PARSE_ERROR, "the body is not valid JSON"),
        (b'{"id":' + b"9" * 5_000 + b"}", PARSE_ERROR, "the body is not valid JSON"),
        (b'{"a":"\xff"}', PARSE_ERROR, "the body is not valid UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', PARSE_ERROR, "the body is not valid UTF-8"),
        (
            b"[]",
            INVALID_REQUEST,
            "batches are not supported: send one message per request",
        ),
        (b'"x"', INVALID_REQUEST, "the body must be one JSON-RPC object"),
        (b"{}", INVALID_REQUEST, 'a message needs "jsonrpc": "2.0"'),
        (
            b'{"jsonrpc":"2.0","id":1,"result":{}}',
            INVALID_REQUEST,
            'a message needs a "method"; this server asks its clients nothing',
        ),
        (
            b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
            INVALID_REQUEST,
            'the "id" must be a text or a whole number',
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}',
            INVALID_REQUEST,
            '"params" must be an object',
        ),
        (
            b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}',
            PARSE_ERROR,
            "the message holds a lone surrogate, which is not valid Unicode",
        ),
    ],
)
def test_anything_but_one_message_is_refused(body: bytes, code: int, text: str) -> None:
    with pytest.raises(Refusal) as caught:
        parse_message(body)

    assert caught.value.status == 400
    assert json.loads(caught.value.render()) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": code, "message": text},
    }


def test_argument_with_a_lone_surrogate_is_named_and_the_rest_kept() -> None:
    message = parse_message(call(r'{"statement":"a \uD800 b","source":"x é"}'))

    assert message.malformed == ("statement",)
    arguments = json.loads(message.body)["params"]["arguments"]
    assert arguments == {"statement": "a \ufffd b", "source": "x é"}


def test_argument_whose_name_is_malformed_is_named_readably() -> None:
    assert parse_message(call(r'{"q\udfff":"x"}')).malformed == ("q\ufffd",)


@pytest.mark.parametrize(
    "arguments",
    [
        r'{"statement":"\ud83d\ude00"}',  # a pair is one character
        r'{"statement":"\\ud800"}',  # the six characters, not the escape
        r'{"statement":"\u00e9"}',
    ],
)
def test_proper_escapes_pass_unchanged(arguments: str) -> None:
    body = call(arguments)

    message = parse_message(body)

    assert (message.body, message.malformed) == (body, ())
