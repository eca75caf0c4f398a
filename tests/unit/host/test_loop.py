import os
import signal

from memories.host.loop import Loop


def test_moments_come_in_order_and_cancelled_ones_not_at_all():
    loop = Loop()
    seen: list[str] = []
    loop.call_later(0.02, loop.stop)
    loop.call_later(0.01, lambda: seen.append("second"))
    loop.call_later(0.0, lambda: seen.append("first"))
    loop.call_later(0.005, lambda: seen.append("cancelled")).cancel()

    loop.run()

    assert seen == ["first", "second"]


def test_signal_ends_a_wait_without_end():
    loop = Loop()
    before = signal.getsignal(signal.SIGUSR1)
    seen: list[int] = []

    def note(number: int) -> None:
        seen.append(number)
        loop.stop()

    try:
        loop.on_signals([signal.SIGUSR1], note)
        os.kill(os.getpid(), signal.SIGUSR1)
        loop.run()
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGUSR1, before)

    assert seen == [signal.SIGUSR1]


def test_descriptor_forgotten_by_another_is_not_called():
    loop = Loop()
    pipes = [os.pipe(), os.pipe()]
    seen: list[int] = []

    def see(own: int, other: int) -> None:
        seen.append(own)
        loop.forget(other)
        loop.stop()

    (first, first_write), (second, second_write) = pipes
    loop.watch(first, lambda: see(first, second))
    loop.watch(second, lambda: see(second, first))
    os.write(first_write, b"x")
    os.write(second_write, b"x")
    loop.run()
    for pipe in pipes:
        for descriptor in pipe:
            os.close(descriptor)

    assert len(seen) == 1
