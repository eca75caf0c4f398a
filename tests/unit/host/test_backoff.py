from memories.host.backoff import Backoff


def crash(backoff: Backoff, now: float, lived_seconds: float = 0.0) -> float:
    backoff.add_failure(now=now, lived_seconds=lived_seconds)
    return backoff.wait_seconds(now)


def test_pause_doubles_from_half_a_second_to_a_minute():
    backoff = Backoff()

    pauses = [crash(backoff, now=100.0) for _ in range(10)]

    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_pause_after_thousands_of_crashes_is_still_a_minute():
    backoff = Backoff(failure_count=100_000)

    assert crash(backoff, now=0.0) == 60


def test_pause_runs_out_with_the_clock():
    backoff = Backoff()
    crash(backoff, now=100.0)

    assert backoff.wait_seconds(100.2) == 100.5 - 100.2
    assert backoff.wait_seconds(100.5) == 0.0


def test_crash_after_a_healthy_minute_is_a_first_crash():
    backoff = Backoff()
    for _ in range(5):
        crash(backoff, now=100.0)

    assert crash(backoff, now=200.0, lived_seconds=60.0) == 0.5


def test_crash_before_a_healthy_minute_is_not():
    backoff = Backoff()
    crash(backoff, now=100.0)

    assert crash(backoff, now=200.0, lived_seconds=59.9) == 1.0


def test_failures_are_remembered_for_a_minute_after_the_pause():
    backoff = Backoff()
    crash(backoff, now=100.0)

    assert not backoff.is_over(160.4)
    assert backoff.is_over(160.5)
