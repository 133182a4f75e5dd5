"""specbench's own prompt sets hold what their README promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.tasks.scoring import task_by_rules
from specbench.workloads import Workload, load_workload
from specbench.workloads.stats import conversation, tokens, words, workload_stats

FOLDER = Path(__file__).parents[2] / "workloads"
AT_LEAST = {"chat": 80, "code": 40, "structured": 40, "summarization": 30, "creative": 30, "chat_pt": 40}


@pytest.fixture(params=AT_LEAST)
def workload(request: pytest.FixtureRequest) -> Workload:
    return load_workload(FOLDER / f"{request.param}.jsonl")


def test_each_set_is_whole_and_large_enough(workload):
    assert len(workload.prompts) >= AT_LEAST[workload.name]


def test_every_prompt_is_of_its_own_and_has_a_category(workload):
    stats = workload_stats(workload, words, "words")
    assert stats.duplicates == 0
    assert "(none)" not in stats.categories


def test_ids_are_unique_over_all_sets():
    ids = [prompt.id for name in AT_LEAST for prompt in load_workload(FOLDER / f"{name}.jsonl").prompts]
    assert len(set(ids)) == len(ids)


def test_every_text_to_be_summarized_has_200_to_600_words():
    # The instruction that comes with it is at most a paragraph.
    for prompt in load_workload(FOLDER / "summarization.jsonl").prompts:
        paragraphs = [len(paragraph.split()) for paragraph in conversation(prompt).split("\n\n")]
        assert sum(paragraphs) >= 200, prompt.id
        assert sum(paragraphs) - max(paragraphs[0], paragraphs[-1]) <= 600, prompt.id


def test_chat_has_conversations_of_several_turns():
    assert workload_stats(load_workload(FOLDER / "chat.jsonl"), words, "words").multi_turn >= 10


def test_the_readme_describes_every_set_as_it_is(demo_target):
    readme = (FOLDER / "README.md").read_text("utf-8")
    encode = tokens(demo_target)
    for file in FOLDER.glob("*.jsonl"):
        stats = workload_stats(load_workload(file), encode, "tokens")
        length = stats.summary
        sizes = f"{length['median']:.0f} ({length['min']}–{length['max']})"
        assert f"| `{file.name}` | {stats.prompts} | {stats.multi_turn} | {sizes} |" in readme


def test_every_prompt_of_a_shipped_task_can_be_scored_and_its_answer_is_right():
    workload = load_workload(FOLDER / "tasks" / "short-answers.jsonl")
    task = task_by_rules(workload, None, run_code=False)
    right = [(prompt.id, prompt.reference.answers[0]) for prompt in workload.prompts]
    assert set(task.scores(right).values()) == {1.0}
    assert workload_stats(workload, words, "words").duplicates == 0
    assert f"{len(workload.prompts)} short questions" in (FOLDER / "README.md").read_text("utf-8")
