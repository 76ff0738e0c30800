import pytest

from ottla.cli.common.throttle import Throttle


class Clock:
    """Time that passes only while somebody pauses, and then a little less than was asked for."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses = 0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses += 1
        self.now += seconds * 0.9 if seconds > 0.001 else seconds


@pytest.mark.parametrize("rate", [1, 100, 5000, 0.5])
def test_records_leave_at_the_rate_that_was_asked_for(rate: float) -> None:
    clock = Clock()
    throttle = Throttle(rate, clock.pause, clock=clock)
    for sent in range(1, 201):
        throttle.after(sent)
    assert clock.now - 100 == pytest.approx(200 / rate, abs=0.002)


def test_without_a_rate_nothing_is_held_back() -> None:
    clock = Clock()
    Throttle(-1, clock.pause, clock=clock).after(10**9)
    assert clock.pauses == 0


def test_a_rate_of_nothing_holds_until_the_sender_is_stopped() -> None:
    clock = Clock()
    Throttle(0, clock.pause, lambda: clock.pauses >= 3, clock).after(1)
    assert clock.pauses == 3
