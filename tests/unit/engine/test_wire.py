from __future__ import annotations

import msgspec
import pytest

from memories.engine import errors, wire
from memories.engine import types as t
from tests.unit.engine.homes import make_caller


def test_request_comes_back():
    request = wire.Request(
        operation="get_context", caller=make_caller(), arguments={"query": "é"}
    )

    assert wire.decode_request(wire.encode(request)) == request


def test_reply_keeps_the_answer_encoded():
    reply = wire.Reply(ok=msgspec.Raw(wire.encode(t.Written(receipt=None))))

    body = wire.encode(reply)

    assert body == b'{"ok":{"receipt":null}}'
    assert bytes(wire.decode_reply(body).ok) == b'{"receipt":null}'
    assert wire.encode(wire.Reply(bye=True)) == b'{"bye":true}'


def test_frame_begins_with_its_length():
    assert wire.frame(b"abc") == b"\x00\x00\x00\x03abc"
    with pytest.raises(ValueError, match="over"):
        wire.frame(b"x" * (wire.MAX_FRAME_BYTES + 1))


@pytest.mark.parametrize(
    "kind",
    [
        *(errors.NotFound, errors.Invalid, errors.TooLarge, errors.Conflict),
        *(errors.ReadOnly, errors.QuotaExceeded, errors.Busy, errors.Corrupt),
    ],
)
def test_error_comes_back_as_its_class(kind: type[errors.EngineError]):
    error = kind("what to do", allowedScopes=["project:fjord"])

    said = wire.encode(wire.Reply(error=wire.error_to_wire(error)))
    answer = wire.decode_reply(said).error
    assert answer is not None
    back = wire.error_from_wire(answer)

    assert type(back) is kind
    assert (back.message, back.details) == (error.message, error.details)
    assert (back.code, back.retryable) == (kind.code, kind.retryable)
