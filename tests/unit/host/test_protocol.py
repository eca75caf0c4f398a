import socket

import pytest

from memories.engine import wire
from memories.host import protocol


def test_frames_are_whole_however_the_bytes_arrive():
    bodies = [b"{}", b"", b"x" * 1000]
    stream = b"".join(wire.frame(body) for body in bodies)

    for size in (1, 3, 7, len(stream)):
        buffer = protocol.FrameBuffer()
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert [frame for piece in pieces for frame in buffer.feed(piece)] == bodies


def test_frame_over_the_limit_is_refused_before_it_is_read():
    buffer = protocol.FrameBuffer(limit=10)

    with pytest.raises(ValueError, match="frame of 11 bytes is over 10"):
        buffer.feed((11).to_bytes(4, "big"))


def test_frame_cut_off_is_an_end_not_a_frame():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(wire.frame(b"{}")[:-1])
        theirs.shutdown(socket.SHUT_WR)

        with pytest.raises(EOFError):
            protocol.receive_frame(ours)


def test_answer_longer_than_any_frame_is_refused():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"\xff\xff\xff\xff")

        with pytest.raises(ValueError, match="over 16777216"):
            protocol.receive_frame(ours)


def test_question_survives_the_wire():
    question = protocol.Question(verb="ensure", workspace="w")

    assert protocol.decode_question(wire.encode(question)) == question


def test_refusal_survives_the_wire():
    refusal = protocol.not_now("full", "none can sleep", 1.5)
    answer = protocol.HostAnswer(not_now=refusal)

    assert protocol.decode_answer(wire.encode(answer)) == answer
