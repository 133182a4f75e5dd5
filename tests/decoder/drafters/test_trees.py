"""Heads that draft trees: the trees are of what the head thinks along every branch, and change no token."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from driving import Watched, run, tokens
from heads import eagle_tensors, medusa_tensors, save
from transformers import LlamaForCausalLM

from specbench.decoder.cache import KVCache
from specbench.decoder.drafters.base import Draft
from specbench.decoder.drafters.features import FeatureDrafter
from specbench.decoder.drafters.medusa import MedusaDrafter
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.models.prefill import prefill
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.decoder.tree_shape import DynamicTree, StaticTree, TreeShape

SAID = (32, 97, 98, 101, 116, 120)
TEXTS = ("abcabcabc", "The quick brown fox", "x", "0101010101", "{}", "a b", "q", "ab")
PROMPTS = [list(text.encode()) for text in TEXTS]
GREEDY = SamplingParams(temperature=0.0, max_tokens=20, ignore_eos=True)
SAMPLED = SamplingParams(temperature=0.8, max_tokens=20, ignore_eos=True)
DYNAMIC, STATIC = DynamicTree(3, 10), StaticTree(((0,), (1,), (3,), (0, 0), (0, 2), (3, 1), (0, 2, 0), (0, 2, 1)))


def requests(params: SamplingParams) -> list[Request]:
    fields = {name: getattr(params, name) for name in SamplingParams.__dataclass_fields__}
    return [Request(str(i), p, SamplingParams(**{**fields, "seed": 7 + i})) for i, p in enumerate(PROMPTS)]


@pytest.fixture(scope="module")
def terse(save_llama: Callable[..., Path]) -> Path:
    """A target that says few tokens: a random head is right now and then."""
    directory = save_llama()
    model = LlamaForCausalLM.from_pretrained(directory)
    silent = torch.ones(258, dtype=torch.bool).index_fill_(0, torch.tensor(SAID), False)
    model.lm_head.weight.data[silent] = 0
    model.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def make(
    terse: Path, deep_target: Path, save_head: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Engine]:
    """An engine that drafts with a random head, trees of depth 3 by default; `plain` is its target without a draft."""
    said = tokens(run(load_engine(deep_target, max_model_len=48), requests(GREEDY)))
    likely = [token for token, _ in Counter(chain(*said.values())).most_common(6)]
    shape = json.loads((terse / "config.json").read_text())
    folder = tmp_path_factory.mktemp("heads")
    heads = {
        "eagle": save(folder / "eagle", eagle_tensors(shape), shape, "eagle"),
        "medusa": save(folder / "medusa", medusa_tensors(shape, 3, SAID), shape, "medusa"),
        "eagle3": save_head(likely, norm_output=True),
    }

    def load(method: str, tree: TreeShape | None, plain: bool = False, gamma: int | str = 3, **settings: Any) -> Engine:
        deep = settings.pop("deep", method == "eagle3")
        return load_engine(
            deep_target if deep else terse,
            method="none" if plain else method,
            gamma=0 if plain else gamma,
            drafter=None if plain else heads[method],
            tree=tree,
            **{"max_model_len": 48, **settings},
        )

    return load


@pytest.mark.parametrize(
    ("method", "tree", "batch_size"),
    [
        ("eagle3", DYNAMIC, 1),
        ("eagle3", DYNAMIC, 8),
        ("eagle3", STATIC, 3),
        ("eagle", DYNAMIC, 3),
        ("medusa", DYNAMIC, 8),
        ("medusa", STATIC, 3),
    ],
)
def test_tokens_do_not_change(make: Callable[..., Engine], method: str, tree: TreeShape, batch_size: int) -> None:
    for params, verification in ((GREEDY, "rejection"), (SAMPLED, "coupled")):
        plain = make(method, None, plain=True, verification=verification)
        engine = make(method, tree, max_batch_size=batch_size, verification=verification)
        outputs = run(engine, requests(params))
        assert tokens(outputs) == tokens(run(plain, requests(params)))
        assert 0 < engine.counters.accepted < engine.counters.drafted
        assert all(step.accepted <= step.drafted <= 3 for steps in outputs.values() for step in steps)


def test_a_tree_is_accepted_more_than_its_first_branch(make: Callable[..., Engine]) -> None:
    kept = {}
    for tree in (None, StaticTree(((0,), (0, 0), (0, 0, 0))), DYNAMIC):
        engine = make("eagle", tree, max_batch_size=8)
        run(engine, requests(GREEDY))
        kept[tree] = engine.counters.accepted / engine.counters.steps
    a_chain, one_branch, branching = kept.values()
    assert one_branch == a_chain  # a tree without branches is a chain
    assert branching > a_chain


@pytest.mark.parametrize("method", ["eagle3", "medusa"])
def test_trees_whose_depth_changes_from_step_to_step_change_no_token(make: Callable[..., Engine], method: str) -> None:
    plain = tokens(run(make(method, None, plain=True), requests(GREEDY)))
    engine = make(method, DYNAMIC, gamma="schedule:1=3+2=1+3=0+4=2", max_batch_size=4)
    assert tokens(run(engine, requests(GREEDY))) == plain
    assert engine.counters.accepted > 0


@torch.inference_mode()
def after(engine: Engine, drafter: FeatureDrafter, text: Sequence[int], branch: Sequence[int]) -> torch.Tensor:
    """[V] what the head thinks, as logarithms, after a branch that is drafted as a chain, with caches of its own."""
    head, target = drafter.head, engine.target
    fresh = KVCache(target.config, 1, 64, target.dtype, target.device)
    features = prefill(target, fresh, 0, text[:-1], logits=0, taps=head.config.taps).hidden
    assert features is not None
    own, hidden = KVCache(head.config.layer, 1, 64, head.dtype, head.device), head.fuse(features)
    following, position = list(text[1:]), 0
    for token in (None, *branch):
        following = following if token is None else [token]
        at = torch.arange(position, position + len(following))[None]
        position += len(following)
        view = own.enter(slice(0, 1), at, at, position)
        logits, hidden = head.forward(torch.tensor([following]), hidden, view)
    said = torch.full((target.config.vocab_size,), -torch.inf)
    ids = torch.arange(len(said)) if head.token_ids is None else head.token_ids
    return said.index_copy_(0, ids, logits[0, 0].log_softmax(-1))


@pytest.mark.parametrize("tree", [DYNAMIC, STATIC])
@pytest.mark.parametrize("method", ["eagle3", "eagle"])
def test_every_branch_is_what_the_head_says_of_it_as_a_chain(
    make: Callable[..., Engine], method: str, tree: TreeShape
) -> None:
    engine = make(method, tree, max_batch_size=2, deep=True)  # whose logits have no equals
    drafter, watched = engine.drafter, Watched(engine)
    assert isinstance(drafter, FeatureDrafter)
    run(engine, requests(GREEDY)[:2])
    for texts, draft in watched.drafts[2:7:4]:
        for row, text in enumerate(texts):
            if text is not None:
                thoughts = partial(after, engine, drafter, text)
                assert {*branches_of(draft, row)} == {*best_first(thoughts, tree)}


def branches_of(draft: Draft, row: int) -> list[tuple[int, ...]]:
    """Of each node the tokens from the root to it."""
    assert draft.tree is not None
    branches: list[tuple[int, ...]] = [()]
    for token, parent in zip(draft.tokens[row].tolist(), draft.tree.parents[row].tolist(), strict=True):
        branches.append((*branches[parent], token))
    return branches[1:]


def best_first(after: Callable[[tuple[int, ...]], torch.Tensor], tree: TreeShape) -> list[tuple[int, ...]]:
    """The tree by its definition: everything asked for one branch at a time."""
    if isinstance(tree, StaticTree):
        tokens: dict[tuple[int, ...], tuple[int, ...]] = {(): ()}
        for path in tree.paths:
            before = tokens[path[:-1]]
            tokens[path] = (*before, int(after(before).topk(1 + path[-1]).indices[-1]))
        return [tokens[path] for path in tree.paths]
    frontier, pool = {(): 0.0}, dict[tuple[int, ...], float]()
    for _ in range(3):
        children = {}
        for branch, score in frontier.items():
            best = after(branch).topk(tree.top_k)
            for token, gain in zip(best.indices.tolist(), best.values.tolist(), strict=True):
                children[(*branch, token)] = score + gain
        pool |= children
        frontier = dict(sorted(children.items(), key=lambda child: -child[1])[: tree.top_k])
    return sorted(pool, key=lambda branch: -pool[branch])[: tree.nodes]


def test_medusas_tree_is_of_each_heads_own_best(make: Callable[..., Engine]) -> None:
    engine = make("medusa", STATIC, max_batch_size=1)
    engine.add(requests(GREEDY)[0])
    engine.step()
    drafter, batch = engine.drafter, engine._live_batch()
    assert isinstance(drafter, MedusaDrafter)
    with torch.inference_mode():
        said = drafter.candidates(batch, 3, 4)[0][0].tolist()
        draft = drafter.propose(batch, [3])
    assert branches_of(draft, 0) == [tuple(said[k][rank] for k, rank in enumerate(path)) for path in STATIC.paths]


def test_what_drafts_no_trees_says_so(terse: Path, make: Callable[..., Engine]) -> None:
    with pytest.raises(ValueError, match="ngram drafts chains, no trees: these are for eagle3"):
        load_engine(terse, method="ngram", gamma=3, tree=DYNAMIC)
    with pytest.raises(ValueError, match="leave adaptive:confidence or the tree out"):
        make("eagle3", DYNAMIC, gamma="adaptive:confidence+max=3")
