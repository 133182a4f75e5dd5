"""An output is right or wrong as a person would say, by each rule."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

import psutil
import pytest

from specbench.errors import SpecbenchError
from specbench.tasks.command import task_by_command
from specbench.tasks.scoring import is_right, task_by_rules
from specbench.workloads.prompt import Prompt, Workload
from specbench.workloads.reference import Reference, Rule


def workload(*references: Reference | None) -> Workload:
    prompts = tuple(Prompt(f"p{i}", prompt="Hi", reference=reference) for i, reference in enumerate(references))
    return Workload("task", Path("task.jsonl"), prompts, "0")


@pytest.mark.parametrize(
    ("rule", "answer", "output", "right"),
    [
        ("exact", "Paris", ' "paris."\n', True),
        ("exact", "New York", "new  york", True),
        ("exact", "Paris", "It is Paris", False),
        ("contains", "Paris", "It is PARIS, of course", True),
        ("contains", "4", "There are 14", False),
        ("contains", "C++", "I like C++.", True),
        ("contains", "4", "it is 4.5", False),
        ("contains", "5", "it is 4.5", False),
        ("contains", "5", "about .5 of it", False),
        ("contains", "4", "4,000 of them", False),
        ("contains", "4", "3,4,5", True),
        ("contains", "4", "The answer is 4.", True),
        ("contains", "4", "(4)", True),
        ("number", "1197", "3 were eaten, so 1,197 are left.", True),
        ("number", "1197", "1197.0", True),
        ("number", "1197", "#### 1197\nI hope that answers question 2", True),
        ("number", "-4", "so x = -4", True),
        ("number", "4", "the range 3-4", True),
        ("number", "4", "none", False),
        ("regex", r"^\d{4}-\d\d$", "2030-01", True),
        ("regex", "^yes", "well, yes", False),
    ],
)
def test_rules(rule: Rule, answer: str, output: str, right: bool) -> None:
    assert is_right(Prompt("p", prompt="Hi"), Reference((answer,)), rule, output) is right


def test_any_of_several_answers_will_do() -> None:
    task = task_by_rules(workload(Reference(("Brasilia", "Brasília"))), None, run_code=False)
    assert task.scores([("p0", "brasília"), ("p0", "Rio")]) == {("p0", "brasília"): 1.0, ("p0", "Rio"): 0.0}


def test_one_rule_may_take_the_place_of_the_prompts_own() -> None:
    given = workload(Reference(("7",), "number"))
    assert task_by_rules(given, None, run_code=False).scores([("p0", "it is 7")])["p0", "it is 7"] == 1
    assert task_by_rules(given, "exact", run_code=False).scores([("p0", "it is 7")])["p0", "it is 7"] == 0


@pytest.mark.parametrize(
    ("reference", "rule", "said"),
    [
        (None, None, 'prompt "p0" has no right answer'),
        (Reference(("x",)), "number", "holds no number"),
        (Reference(("x",), "code"), None, "pass --run-code"),
        # Every output holds nothing.
        (Reference(("yes", "?!")), "contains", "marks and spaces alone"),
        (Reference((" ... ",)), "exact", "marks and spaces alone"),
    ],
)
def test_what_cannot_be_scored_is_refused_before_anything_runs(
    reference: Reference | None, rule: Rule | None, said: str
) -> None:
    with pytest.raises(SpecbenchError, match=said):
        task_by_rules(workload(reference), rule, run_code=False)


def has_ended(pid: int) -> bool:
    """Within a few seconds; what nobody has waited for yet has ended too."""
    until = time.monotonic() + 5
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


class TestCommand:
    def score(self, code: str, output: str = "some text", reference: Reference | None = None) -> float:
        task = task_by_command(workload(reference), f"{sys.executable} -c '{code}'")
        return task.scores([("p0", output)])["p0", output]

    def test_it_gets_prompt_reference_and_output_as_one_json_line(self) -> None:
        code = (
            'import json, sys; got = json.loads(sys.stdin.readline()); sys.exit(got != {"id": "p0", "prompt": "Hi", '
            '"reference": ["a"], "output": "zwei\\nZeilen"})'
        )
        assert self.score(code, "zwei\nZeilen", Reference(("a",))) == 1
        assert self.score(code, "eine", Reference(("a",))) == 0

    def test_a_number_on_its_last_line_is_the_score(self) -> None:
        assert self.score('print("judging"); print(0.25)') == 0.25

    def test_where_it_prints_nothing_its_exit_code_is_the_score(self) -> None:
        assert self.score("import sys; sys.exit(0)") == 1
        assert self.score("import sys; sys.exit(1)") == 0
        assert self.score('import sys; print("a warning", file=sys.stderr); print(0); sys.exit(1)') == 0

    @pytest.mark.parametrize(
        ("code", "said"),
        [
            ("print(7)", "printed the score 7"),
            ("import no_such_judge", "exit code 1 .*No module named"),  # a crash is no wrong answer
            ('import sys; print("out of credit", file=sys.stderr); sys.exit(2)', "exit code 2 .*out of credit"),
            ("while True: print(1)", "printed more than 64 KiB .*alone on its last line"),
            ('import sys\nwhile True: print("no", file=sys.stderr)', "printed more than 64 KiB"),
            ('print("garbage")', "printed .garbage. for prompt .p0., which is no score.*print nothing and end with 0"),
            ('print("1 2")', "printed .1 2. "),
            ('print("0x1")', "printed .0x1. "),
            ('print("g" * 1000)', "printed .g{80}. "),
            ("import sys; print(sys.stdin.read())", "printed .{.id.: .p0"),
            ('print("garbage"); raise SystemExit(1)', "printed .garbage. "),
            ("import os; os.write(1, bytes([49, 255]))", "xff.* is not UTF-8"),
        ],
    )
    def test_what_it_may_not_say_stops_the_verification(self, code: str, said: str) -> None:
        with pytest.raises(SpecbenchError, match=said):
            self.score(code)

    def test_what_it_left_running_is_ended_and_not_waited_for(self, tmp_path: Path) -> None:
        left = tmp_path / "pid"
        task = task_by_command(workload(None), f"sh -c 'sleep 333 & echo $! > {left}; echo 1'", seconds=20)
        assert task.scores([("p0", "x")]) == {("p0", "x"): 1.0}
        assert has_ended(int(left.read_text()))

    def test_one_that_never_ends_is_ended(self) -> None:
        command = f"{sys.executable} -c 'import time; time.sleep(333)'"
        with pytest.raises(SpecbenchError, match=r"took more than 0\.2 s for prompt"):
            task_by_command(workload(None), command, seconds=0.2).scores([("p0", "x")])

    def test_half_of_a_surrogate_pair_and_a_long_output_come_through(self) -> None:
        output = "\ud800" + "x" * 300_000
        code = "import json, sys; sys.exit(json.loads(sys.stdin.readline())['output'] != '\\ud800' + 'x' * 300_000)"
        task = task_by_command(workload(None), shlex.join([sys.executable, "-c", code]))
        assert task.scores([("p0", output)]) == {("p0", output): 1.0}

    def test_a_command_that_is_not_there_is_named(self) -> None:
        with pytest.raises(SpecbenchError, match="nowhere-to-be-found does not start"):
            task_by_command(workload(None), "nowhere-to-be-found").scores([("p0", "x")])


def test_a_conversation_is_no_task() -> None:
    talk = Prompt(
        "p0", messages=({"role": "user", "content": "2+2?"},), reference=Reference(("4",)), follow_ups=("+1?",)
    )
    with pytest.raises(SpecbenchError, match=r"task\.jsonl has conversations"):
        task_by_rules(Workload("task", Path("task.jsonl"), (talk,), "0"), None, run_code=False)
