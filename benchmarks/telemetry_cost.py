"""What sampling costs: processor time of the telemetry thread against a stand-in for NVIDIA's library.

python benchmarks/telemetry_cost.py [--gpus 1,8] [--seconds 20]

The stand-in (tests/telemetry/fake_nvml.c) answers at once, so this is our own share; what the driver adds shows on a
machine with GPUs: --driver reads those that are there, as if this process were the server.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests" / "telemetry"))

from specbench.telemetry import process_tree, sampler
from specbench.telemetry.sample import Sample


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", default="1,8", help="how many the stand-in has")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--driver", action="store_true", help="the machine's own driver")
    options = parser.parse_args()
    if options.driver:
        process_tree.ProcessTree.runs_cuda = lambda self: True  # type: ignore[method-assign]
        print(_line("this machine's GPUs", options.seconds))
        return
    for count in map(int, options.gpus.split(",")):
        with stand_in(count):
            print(_line(f"{count} GPU{'s' * (count > 1)}", options.seconds))


@contextmanager
def stand_in(count: int) -> Iterator[None]:
    """nvidia-ml-py over a library that shows this process on `count` busy GPUs, performance counters included."""
    import ctypes

    import pynvml
    from fake_nvml import Driver, build

    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        driver = Driver(Path(folder), library)
        counters = {f"gpm__{metric}": 0 for metric in (2, 5, 10, 20, 21)}
        for _ in range(count):
            driver.add(processes=f"{os.getpid()}:1073741824", gpm=1, gpm__time=0, **counters)
        os.environ["FAKE_NVML"] = str(driver.scenario)
        pynvml.nvmlLib = ctypes.CDLL(str(library))
        pynvml._nvmlGetFunctionPointer_cache.clear()
        yield


def _line(what: str, seconds: float) -> str:
    share, samples = _cost(seconds)
    times = sorted({s.time for s in samples if s.source != "host"})
    rate = (len(times) - 1) / (times[-1] - times[0])
    return f"{what}: {rate:.1f} readings per second, {100 * share:.2f} % of a core"


def _cost(seconds: float) -> tuple[float, Sequence[Sample]]:
    """Processor time of the sampling thread per second."""
    with sampler.sample_server(os.getpid()) as samples:
        thread = next(t for t in threading.enumerate() if t.name == "telemetry")
        assert thread.ident is not None
        clock = time.pthread_getcpuclockid(thread.ident)
        time.sleep(1)  # the first reading finds the devices
        before = time.clock_gettime(clock)
        time.sleep(seconds)
        used = time.clock_gettime(clock) - before
    return used / seconds, samples


if __name__ == "__main__":
    main()
