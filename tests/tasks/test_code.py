"""Code that a model wrote runs within limits, and only passing its tests counts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from known_run import request

from specbench.tasks import scoring
from specbench.tasks.check import Outputs, check_task
from specbench.tasks.code import SECONDS, program, runs_to_its_end, without_network
from specbench.tasks.scoring import task_by_rules
from specbench.tasks.text import lines_of
from specbench.workloads import load_workload
from specbench.workloads.prompt import Prompt, Workload
from specbench.workloads.reference import Reference

PROMPT = 'def double(x):\n    """Twice x."""\n'
TESTS = "def check(candidate):\n    assert candidate(3) == 6\n\ncheck(double)\n"


@pytest.mark.parametrize(
    ("output", "passes"),
    [
        ("    return 2 * x\n", True),
        ("    return 3 * x\n", False),
        ("    return 2 * x\n\ndef other(:\n  broken", True),  # what comes after the function is cut off
        ("Sure!\n```python\ndef double(x):\n    return x + x\n```\nThat is it.", True),
        ("```\n    return 2 * x\n```", True),
        ("no code at all", False),
        ("    import sys; sys.exit(0)\n", False),
        ("    import os; os._exit(0)\n", False),
        ("    return 2 * x  # \ud800\n", False),
    ],
)
def test_a_function_passes_where_its_tests_do(output: str, passes: bool) -> None:
    assert runs_to_its_end(program(PROMPT, output, TESTS)) is passes


def test_a_proof_that_is_no_text_is_none() -> None:
    assert not runs_to_its_end("import os, sys; open(sys.argv[1], 'wb').write(b'\\xff'); os._exit(0)")


def test_the_proof_is_not_found_in_the_callers() -> None:
    """A program that writes whatever 33 characters it finds there as its proof, and stops short of its end."""
    search = """
import gc, os, sys
found, seen, frame = [sys.stdin.read().encode(), sys.stdin.buffer.peek()], set(), sys._getframe()
todo = [frame, gc.get_objects()]
while frame := frame.f_back:
    todo += [frame, frame.f_globals, frame.f_locals]
while todo and len(seen) < 200_000:
    one = todo.pop()
    if id(one) in seen:
        continue
    seen.add(id(one))
    if isinstance(one, (str, bytes)) and len(one) in (32, 33):
        found.append(one.encode(errors="replace") if isinstance(one, str) else one)
    todo += gc.get_referents(one)
hexadecimal = [one for one in found if len(one) in (32, 33) and set(one.strip()) <= set(b"0123456789abcdef")]
if hexadecimal:
    open(sys.argv[1], "wb").write(hexadecimal[0].strip() + b"\\n")
os._exit(0)
"""
    assert not runs_to_its_end(search)
    assert runs_to_its_end(search.replace("os._exit(0)", "assert len(seen) > 1_000 and not hexadecimal"))


def test_a_chat_gives_the_whole_function() -> None:
    assert runs_to_its_end(program(None, "```python\ndef double(x):\n    return 2 * x\n```", TESTS))


def test_what_does_not_end_is_ended() -> None:
    assert runs_to_its_end("while True: pass", seconds=1) is None


def test_what_the_clock_stopped_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "runs_to_its_end", lambda source: runs_to_its_end(source, seconds=1))
    prompts = tuple(Prompt(id, prompt=PROMPT, reference=Reference((TESTS,), "code")) for id in ("a", "b"))
    task = task_by_rules(Workload("task", Path("task.jsonl"), prompts, "0"), None, run_code=True)
    waits, right = "    import time; time.sleep(60)\n", "    return 2 * x\n"
    before, after = ([request(i, prompt_id=id, text=text) for i, id in enumerate("ab")] for text in (right, waits))
    check = check_task(task, {"arm": Outputs(before, after)})
    assert (check.stopped, check.arms["arm"].paired.second.score) == (2, 0)
    assert "2 programs were stopped by the clock" in "\n".join(lines_of(check))


def test_processor_time_decides_and_not_how_busy_the_machine_is() -> None:
    """Four programs at once on two busy cores take several times their own time."""
    assert runs_to_its_end(f"import resource; assert {SECONDS} >= 5 * resource.getrlimit(resource.RLIMIT_CPU)[0] > 0")


def test_memory_is_limited() -> None:
    assert not runs_to_its_end("x = bytearray(4 << 30)")
    assert runs_to_its_end("x = bytearray(1 << 20)")


def test_nothing_of_the_environment_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert runs_to_its_end("import os; assert 'OPENAI_API_KEY' not in os.environ; assert 'PATH' in os.environ")
    assert os.environ["OPENAI_API_KEY"] == "secret"


def test_there_is_no_network_where_it_can_be_cut() -> None:
    if not without_network():
        pytest.skip("user namespaces are not allowed here")
    assert runs_to_its_end(
        "import socket\n"
        "try:\n    socket.create_connection(('127.0.0.1', 9), timeout=1)\n"
        "except OSError as error:\n    assert error.errno == 101, error\n"  # network is unreachable, not refused
        "else:\n    raise SystemExit(1)\n"
    )


def test_a_benchmarks_own_solution_passes_and_an_empty_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "HumanEval.jsonl"
    solution = "    return 2 * x\n"
    entry = {"task_id": "Own/0", "prompt": PROMPT, "entry_point": "double", "canonical_solution": solution}
    path.write_text(json.dumps({**entry, "test": "def check(candidate):\n    assert candidate(3) == 6\n"}))
    task = task_by_rules(load_workload(path), None, run_code=True)
    assert task.scores([("Own/0", solution), ("Own/0", "    pass\n")]) == {
        ("Own/0", solution): 1.0,
        ("Own/0", "    pass\n"): 0.0,
    }
    assert task.how.startswith("code, run with")
