from __future__ import annotations

import os
from typing import Any

import psutil
import pytest

from specbench.telemetry.host import HostSource
from specbench.telemetry.process_tree import ProcessTree


def test_the_tree_holds_the_server_and_what_it_started(server: Any):
    parent, child = server
    assert ProcessTree(parent.pid).pids() == {parent.pid, child.pid}


def test_memory_is_that_of_the_whole_tree(server: Any):
    parent, child = server
    (sample,) = HostSource(ProcessTree(parent.pid)).read(1.5)
    assert (sample.time, sample.source) == (1.5, "host")
    both = psutil.Process(parent.pid).memory_info().rss + child.memory_info().rss
    assert sample.memory_bytes == pytest.approx(both, rel=0.02)  # a page more or less between the two readings


def test_a_busy_process_shows_and_what_a_host_does_not_know_is_none():
    source = HostSource(ProcessTree(os.getpid()))
    end = psutil.Process().cpu_times().user + 0.2
    while psutil.Process().cpu_times().user < end:
        pass
    (sample,) = source.read(0.0)
    assert sample.utilization_percent is not None
    assert sample.utilization_percent > 0
    assert (sample.power_watts, sample.sm_clock_mhz) == (None, None)


def test_a_process_that_vanishes_is_left_out_and_its_children_are_kept(server: Any):
    parent, child = server
    source = HostSource(ProcessTree(parent.pid))
    parent.kill()
    parent.wait()
    (sample,) = source.read(0.0)
    assert sample.memory_bytes == pytest.approx(child.memory_info().rss, rel=0.02)


def test_a_server_that_is_gone_before_the_start_gives_no_samples(server: Any):
    parent, child = server
    child.kill()
    parent.kill()
    parent.wait()
    assert HostSource(ProcessTree(parent.pid)).read(0.0) == []
