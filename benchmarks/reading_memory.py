"""Memory and time that large files take to read: traces into traffic, workloads into another format.

    python benchmarks/reading_memory.py [--megabytes 1000] [--json FILE]

Files of that size are made of few repeated rows, and read in a process of their own, whose peak of resident memory is
the figure. The same with an empty start tells what the imports alone take.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

CHILD = """
import json, resource, sys, time
from pathlib import Path
from specbench.workloads.convert import convert
from specbench.workloads.traces import read_traffic
began, path = time.perf_counter(), Path(sys.argv[1])
rows = 0
if path.name.startswith("trace"):
    rows = len(read_traffic(path))
elif path.name.startswith("workload"):
    rows = convert(path, path.with_name("out.jsonl"), "specbench").written
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"rows": rows, "seconds": time.perf_counter() - began, "peak_mb": peak / 1024}))
"""


def burstgpt() -> Iterator[str]:
    yield "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    for i in count():
        yield f"{i / 4},ChatGPT,{100 + i % 900},{10 + i % 90},{110 + i % 990},Conversation log\n"


def mooncake() -> Iterator[str]:
    for i in count():
        blocks = list(range(i % 1000, i % 1000 + 60))
        entry = {"timestamp": i * 250, "input_length": 30_000, "output_length": 100, "hash_ids": blocks}
        yield json.dumps(entry) + "\n"


def sharegpt() -> Iterator[str]:
    yield "["
    for i in count():
        turns = [{"from": ("human", "gpt")[k % 2], "value": f"Turn {k} of {i}. " * 20} for k in range(6)]
        yield (", " if i else "") + json.dumps({"id": f"c{i}", "conversations": turns})


FILES = {
    "trace.csv": (burstgpt, ""),
    "trace.jsonl": (mooncake, ""),
    "workload.json": (sharegpt, "]"),
}


def write(path: Path, megabytes: float) -> None:
    make, end = FILES[path.name]
    left = megabytes * 1e6
    with path.open("w") as file:
        for row in make():
            file.write(row)
            if (left := left - len(row)) <= 0:
                break
        file.write(end)


def read(path: Path) -> dict[str, float]:
    done = subprocess.run([sys.executable, "-c", CHILD, path], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=1000)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {"imports alone": read(Path(folder) / "nothing")}
        for name in FILES:
            path = Path(folder) / name
            write(path, asked.megabytes)
            found[f"{name}, {asked.megabytes:g} MB"] = read(path)
            path.unlink()
    for name, figures in found.items():
        print(f"{name:24} {figures['rows']:>12,} rows {figures['seconds']:8.1f} s {figures['peak_mb']:8.0f} MB at most")
    if asked.json:
        machine = f"{platform.machine()}, Python {platform.python_version()}"
        asked.json.write_text(json.dumps({"machine": machine, "files": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
