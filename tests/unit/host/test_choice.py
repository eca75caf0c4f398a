from typing import Literal

from memories.host.engines import choose_oldest
from memories.host.protocol import AwakeEngine


def engine(
    name: str,
    last_used: float,
    state: Literal["starting", "awake", "ending"] = "awake",
) -> AwakeEngine:
    return AwakeEngine(
        workspace=name, pid=1, state=state, since=0.0, last_used=last_used
    )


def test_least_recently_used_engine_sleeps_first():
    engines = [engine("a", 3.0), engine("b", 1.0), engine("c", 2.0)]

    assert choose_oldest(engines) == "b"


def test_engine_that_starts_or_ends_is_never_chosen():
    engines = [engine("a", 1.0, "starting"), engine("b", 2.0, "ending")]

    assert choose_oldest(engines) is None
    assert choose_oldest([*engines, engine("c", 3.0)]) == "c"


def test_nothing_sleeps_when_nothing_is_awake():
    assert choose_oldest([]) is None
