"""The clocks, held against hand-made timelines. No GPU: torch.cuda is a fake with a host's and a device's time."""

import math
from collections.abc import Callable, Iterator

import pytest
import torch

from lib.timing.clock import CudaClock, WallClock, clock_for

DEVICE = torch.device("cuda")
LAUNCH_S, WORK_S, PENDING_S = 0.001, 0.003, 0.010
ACTION_S = LAUNCH_S + WORK_S  # on an idle device: the launch, then the work


class FakeCuda:
    """A host that launches and goes on, and a device that works off what was launched in order.

    An event is stamped when the device gets to it, and can be read only when the host has seen that happen.
    """

    def __init__(self) -> None:
        self.host_s = self.device_s = 0.0
        self.log: list[str] = []
        self.elapsed_ms: float | None = None  # instead of the timeline's, where a test wants a broken one

    def launch(self, work_s: float = WORK_S, launch_s: float = LAUNCH_S) -> None:
        self.log.append("launch")
        self.host_s += launch_s
        self.device_s = max(self.host_s, self.device_s) + work_s

    def synchronize(self, device: torch.device) -> None:
        assert device == DEVICE
        self.log.append("synchronize")
        self.host_s = max(self.host_s, self.device_s)

    def Event(self, *, enable_timing: bool) -> "FakeEvent":  # noqa: N802 (torch's name)
        assert enable_timing
        return FakeEvent(self)


class FakeEvent:
    def __init__(self, cuda: FakeCuda) -> None:
        self.cuda, self.stamp_s = cuda, math.nan

    def record(self) -> None:
        self.cuda.log.append("record")
        self.stamp_s = max(self.cuda.host_s, self.cuda.device_s)

    def elapsed_time(self, end: "FakeEvent") -> float:
        if max(self.stamp_s, end.stamp_s) > self.cuda.host_s:
            raise RuntimeError("device not ready")
        self.cuda.log.append("read")
        return 1000 * (end.stamp_s - self.stamp_s) if self.cuda.elapsed_ms is None else self.cuda.elapsed_ms


class Unsynchronised(FakeCuda):
    """The wrong variants: the first or the second synchronisation left out."""

    def __init__(self, leave_out: int) -> None:
        super().__init__()
        self.left, self.leave_out = 0, leave_out

    def synchronize(self, device: torch.device) -> None:
        self.left += 1
        if self.left != self.leave_out:
            super().synchronize(device)


def timed(cuda: FakeCuda) -> float:
    """Seconds by the clock for one launch, with earlier work still pending on the device."""
    cuda.device_s = PENDING_S
    return CudaClock(DEVICE, cuda).seconds(cuda.launch)


def test_events_against_a_timeline_in_seconds() -> None:
    assert timed(FakeCuda()) == pytest.approx(ACTION_S, abs=1e-12)  # sums of a few decimal fractions near 0.01


def test_everything_before_is_finished_and_the_action_lies_between_the_events() -> None:
    cuda = FakeCuda()
    timed(cuda)
    assert cuda.log == ["synchronize", "record", "launch", "record", "synchronize", "read"]


def test_rejects_a_clock_that_does_not_wait_for_what_was_pending() -> None:
    """The launch hides behind the earlier work: a figure that is too small, and depends on the neighbour."""
    assert timed(Unsynchronised(leave_out=1)) == pytest.approx(WORK_S, abs=1e-12)


def test_rejects_a_clock_that_does_not_wait_for_the_action() -> None:
    with pytest.raises(RuntimeError, match="not ready"):
        timed(Unsynchronised(leave_out=2))


def test_rejects_a_wall_clock_on_a_device() -> None:
    """Which sees the launch only: the work goes on after the action has returned."""
    cuda = FakeCuda()
    assert WallClock(lambda: cuda.host_s).seconds(cuda.launch) == pytest.approx(LAUNCH_S, abs=1e-12)


@pytest.mark.parametrize("elapsed_ms", [0.0, -2.5, math.nan])
def test_events_that_make_no_sense_are_no_duration(elapsed_ms: float) -> None:
    cuda = FakeCuda()
    cuda.elapsed_ms = elapsed_ms
    assert math.isnan(timed(cuda))


def test_an_action_that_fails_is_not_timed() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        CudaClock(DEVICE, FakeCuda()).seconds(fail)


def scripted(*times: float) -> Callable[[], float]:
    readings: Iterator[float] = iter(times)
    return lambda: next(readings)


def test_wall_clock_reads_once_before_and_once_after() -> None:
    order: list[str] = []
    readings = scripted(5.0, 5.25)

    def now() -> float:
        order.append("read")
        return readings()

    assert WallClock(now).seconds(lambda: order.append("action")) == 0.25
    assert order == ["read", "action", "read"]


@pytest.mark.parametrize(("before", "after"), [(5.0, 4.0), (5.0, 5.0)], ids=["set back", "stood still"])
def test_a_wall_clock_that_does_not_run_forwards_gives_no_duration(before: float, after: float) -> None:
    assert math.isnan(WallClock(scripted(before, after)).seconds(lambda: None))


def test_a_wall_clock_that_jumps_forwards_gives_a_long_sample() -> None:
    """A suspended machine looks like slow work; the reference workload and the median deal with that, not the clock."""
    assert WallClock(scripted(5.0, 3605.0)).seconds(lambda: None) == 3600.0


def test_the_clock_goes_with_the_device() -> None:
    assert isinstance(clock_for(torch.device("cpu")), WallClock)
    assert isinstance(clock_for(DEVICE), CudaClock)


@pytest.mark.gpu
def test_events_on_a_real_device_see_work_that_the_host_does_not_wait_for() -> None:
    """Long products, launched and not waited for: the events must see more than the launch took."""
    left = torch.ones(8192, 8192, device=DEVICE)
    torch.mm(left, left)
    host = WallClock()
    launched: list[float] = []
    seconds = CudaClock(DEVICE).seconds(lambda: launched.append(host.seconds(lambda: torch.mm(left, left))))
    assert seconds > launched[0]
