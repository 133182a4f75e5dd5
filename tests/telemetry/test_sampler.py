from __future__ import annotations

import threading
import time
from typing import Any

import psutil
import pytest
from fake_nvml import Driver

from specbench.telemetry.sample import Sample
from specbench.telemetry.sampler import sample_server, sampling


class Countdown:
    """A source that tells when it has been read `reads` times, and then does what `last` says."""

    def __init__(self, reads: int, last: Exception | None = None) -> None:
        self.left = reads
        self.last = last
        self.done = threading.Event()

    def read(self, now: float) -> list[Sample]:
        self.left -= 1
        if self.left <= 0:
            self.done.set()
            if self.last is not None:
                raise self.last
        return [Sample(now, "fake", memory_bytes=self.left)]


def test_samples_are_in_order_and_on_the_clock_of_the_traces():
    source = Countdown(5)
    before = time.perf_counter()
    with sampling([source], interval=0.001) as samples:
        assert source.done.wait(timeout=30)
    times = [sample.time for sample in samples]
    assert times == sorted(times)
    assert before <= times[0]
    assert times[-1] <= time.perf_counter()


def test_nothing_is_read_after_the_context():
    source = Countdown(1)
    with sampling([source], interval=0.001) as samples:
        source.done.wait(timeout=30)
    count = len(samples)
    time.sleep(0.01)
    assert len(samples) == count


def test_readings_keep_their_distance():
    source = Countdown(4)
    with sampling([source], interval=0.02) as samples:
        assert source.done.wait(timeout=30)
    assert samples[3].time - samples[0].time > 0.05


def test_a_source_that_breaks_ends_the_sampling_not_the_measurement(caplog: pytest.LogCaptureFixture):
    source = Countdown(3, last=RuntimeError("broken"))
    with sampling([source], interval=0.001) as samples:
        assert source.done.wait(timeout=30)
    assert len(samples) == 2
    assert "telemetry stopped" in caplog.text


def test_a_measurement_that_fails_stops_the_thread():
    with pytest.raises(ValueError, match="no tokens"), sampling([Countdown(1)]):
        raise ValueError("no tokens")
    assert "telemetry" not in {thread.name for thread in threading.enumerate()}


def test_a_server_on_a_gpu_is_sampled_there_and_on_the_host(server: Any, driver: Driver):
    parent, child = server
    driver.add(processes=f"{child.pid}:4096", power=300_000)
    with sample_server(parent.pid, interval=0.005) as samples:
        while {sample.source for sample in samples} != {"gpu0", "host"}:
            time.sleep(0.005)
    gpu = next(sample for sample in samples if sample.source == "gpu0")
    assert (gpu.memory_bytes, gpu.power_watts) == (4096, 300)


def test_a_server_is_sampled_until_it_dies(server: Any):
    parent, child = server
    with sample_server(parent.pid, interval=0.005) as samples:
        while len([s for s in samples if s.source == "host"]) < 3:
            time.sleep(0.005)
        child.kill()
        parent.kill()
        parent.wait()
        psutil.wait_procs([child], timeout=10)
        time.sleep(0.05)
    assert samples[0].memory_bytes is not None
    assert samples[0].memory_bytes > 0
