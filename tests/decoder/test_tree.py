"""Drafts that branch: their shape, and what verification follows of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from markov import PASSES, ROWS, START, TARGET, V, binomial_fit, decode, exact_joint, fit, nothing
from torch import Tensor

from specbench.decoder import noise, verify, verify_tree
from specbench.decoder.drafters.base import Draft
from specbench.decoder.drafters.growth import begin
from specbench.decoder.tree import Tree
from specbench.decoder.tree_shape import DynamicTree, StaticTree, check_tree, parse_tree
from specbench.decoder.verify import Verified, rejection


@st.composite
def forests(draw: st.DrawFn) -> list[list[int]]:
    """Parents of every row's nodes, all rows alike in number."""
    nodes = draw(st.integers(1, 7))
    row = st.tuples(*(st.integers(0, node) for node in range(nodes))).map(list)
    return draw(st.lists(row, min_size=1, max_size=3))


def way(parents: list[int], column: int) -> list[int]:
    """Columns from below the root down to this one."""
    return [] if column == 0 else [*way(parents, parents[column - 1]), column]


@given(forests=forests())
def test_depths_ancestors_and_paths_are_those_of_a_walk_to_the_root(forests: list[list[int]]) -> None:
    deepest = max(len(way(parents, column)) for parents in forests for column in range(1 + len(parents)))
    tree = Tree.of(torch.tensor(forests), deepest)
    for row, parents in enumerate(forests):
        for column in range(1 + len(parents)):
            there = way(parents, column)
            assert tree.depths[row, column] == len(there)
            assert tree.ancestors[row, column].nonzero().flatten().tolist() == [0, *there]
            last = torch.zeros(len(forests), dtype=torch.int64)
            last[row] = column
            assert tree.path(last)[row, : len(there)].tolist() == there
            assert tree.path(last)[row, len(there) :].tolist() == list(range(len(there) + 1, deepest + 1))


@given(forests=forests(), data=st.data())
def test_greedy_follows_the_longest_branch_of_the_targets_own_tokens(
    forests: list[list[int]], data: st.DataObject
) -> None:
    rows, nodes = len(forests), len(forests[0])

    def ids(low: int, width: int) -> list[list[int]]:
        row = st.lists(st.integers(low, 1), min_size=width, max_size=width)
        return data.draw(st.lists(row, min_size=rows, max_size=rows))

    target, draft = ids(0, nodes + 1), ids(-1, nodes)
    tree = Tree.of(torch.tensor(forests), nodes)
    verified = verify_tree.greedy(torch.tensor(target), torch.tensor(draft), tree)
    assert verified.path is not None
    for row, parents in enumerate(forests):
        ways = (way(parents, column) for column in range(nodes + 1))
        right = [w for w in ways if all(draft[row][c - 1] == target[row][parents[c - 1]] for c in w)]
        accepted = int(verified.accepted[row])
        followed = verified.path[row, :accepted].tolist()
        assert accepted == max(map(len, right))
        assert followed in right
        assert verified.next_token[row] == target[row][followed[-1] if followed else 0]


# --- sampling, of the Markov chains -----------------------------------------------------------------------------------

Judge = Callable[[Tensor, Tensor, Tree, Tensor, Tensor], Verified]


def grown(last: Tensor, shape: StaticTree | DynamicTree, depth: int) -> Draft:
    """A tree of what the target, asked with its places turned about, thinks likeliest: right now and then."""
    growth, said = begin(shape, len(last), torch.device("cpu")), last[:, None]
    for _ in range(depth):
        best = TARGET.roll(1, 1)[said].log().topk(3)
        said = growth.grow(best.indices, best.values).tokens
    return growth.draft([depth] * len(last))


def step(judge: Judge, draft: Draft, last: Tensor, seeds: Tensor, first: Tensor) -> tuple[Verified, Tensor]:
    assert draft.tree is not None
    p = TARGET[torch.cat([last[:, None], draft.tokens.clamp_min(0)], 1)]
    verified = judge(p, draft.tokens, draft.tree, seeds, first)
    assert verified.path is not None
    kept = draft.tokens.gather(1, verified.path - 1)
    padded = torch.cat([kept, verified.next_token[:, None]], 1)
    return verified, padded.scatter(1, verified.accepted[:, None], verified.next_token[:, None])


def decode_with_trees(judge: Judge, shape: StaticTree | DynamicTree, depth: int, length: int, seeds: Tensor) -> Tensor:
    tokens = torch.zeros(len(seeds), (length + 1) * (depth + 1), dtype=torch.int64)
    done, last = torch.zeros_like(seeds), torch.full_like(seeds, START)
    while done.min() < length:
        verified, emitted = step(judge, grown(last, shape, depth), last, seeds, 100 + done)
        tokens.scatter_(1, done[:, None] + torch.arange(depth + 1), emitted)
        done, last = done + verified.accepted + 1, verified.next_token
    return tokens[:, :length]


def sampled(p: Tensor, draft: Tensor, tree: Tree, seeds: Tensor, first: Tensor) -> Verified:
    return verify_tree.sampled(p, draft, tree, seeds, first, noise.RESIDUAL)


SHAPES = [(DynamicTree(2, 5), 3), (StaticTree.of_widths((3, 2)), 2), (StaticTree(((0,), (2,), (2, 1))), 2)]


@pytest.mark.parametrize(("shape", "depth"), SHAPES)
def test_trees_leave_the_targets_distribution_unchanged(shape: StaticTree | DynamicTree, depth: int) -> None:
    seeds = torch.arange(ROWS // 3)
    tokens = decode_with_trees(sampled, shape, depth, 3, seeds)
    assert fit((tokens * V ** torch.arange(2, -1, -1)).sum(1), exact_joint(3)) > PASSES
    # More than that: they are the tokens that the seed gives without a draft.
    assert torch.equal(tokens[:500], decode(rejection, nothing, 0, 3, seeds[:500]))


def test_a_node_is_followed_as_by_sequential_rejection_of_siblings() -> None:
    draft = grown(torch.full((ROWS,), START), StaticTree.of_widths((3,)), 1)
    verified, emitted = step(sampled, draft, torch.full((ROWS,), START), torch.arange(ROWS), torch.zeros(ROWS).long())
    left, reached = TARGET[START].double(), 1.0
    for sibling in draft.tokens[0].tolist():
        # Kept with the probability that it has among what is left; else it is struck out, and the rest normalised.
        probability = (left / left.sum())[sibling].item()
        followed = int(((verified.accepted == 1) & (emitted[:, 0] == sibling)).sum())
        assert binomial_fit(followed, ROWS, reached * probability) > PASSES
        reached *= 1 - probability
        left[sibling] = 0
    rejected = verified.next_token[verified.accepted == 0]
    assert fit(rejected, left / left.sum()) > PASSES


def test_typical_acceptance_keeps_what_is_likely_enough_and_is_not_exact() -> None:
    seeds = torch.arange(ROWS // 3)
    tokens = decode_with_trees(verify_tree.typical, *SHAPES[0], 3, seeds)
    assert fit((tokens * V ** torch.arange(2, -1, -1)).sum(1), exact_joint(3)) < 1e-12
    p = torch.tensor([0.05, 0.11, 0.84])
    least = min(0.09, 0.3 * torch.exp((p * p.log()).sum()).item())
    draft = torch.tensor([[0], [1], [2], [-1]])
    kept = verify.typical(p.expand(4, 2, 3), draft, torch.arange(4), torch.arange(2).expand(4, -1)).accepted
    assert kept.tolist() == [*(int(x > least) for x in p.tolist()), 0]


def test_of_equally_long_typical_branches_the_likeliest_is_followed() -> None:
    p = torch.tensor([0.3, 0.5, 0.2]).expand(1, 3, 3)
    tree = Tree.of(torch.tensor([[0, 0]]), 1)
    for tokens in ([0, 1], [1, 0]):
        verified = verify_tree.typical(p, torch.tensor([tokens]), tree, torch.tensor([0]), torch.tensor([0]))
        assert verified.path is not None
        assert tokens[int(verified.path[0, 0]) - 1] == 1


@given(seed=st.integers(0, 2**32), forests=forests())
def test_of_certain_targets_every_way_of_verifying_is_greedy(seed: int, forests: list[list[int]]) -> None:
    generator, nodes = torch.Generator().manual_seed(seed), len(forests[0])
    target = torch.randint(0, 3, (len(forests), nodes + 1), generator=generator)
    draft = torch.randint(-1, 3, (len(forests), nodes), generator=generator)
    tree, seeds = Tree.of(torch.tensor(forests), nodes), torch.arange(len(forests))
    expected = verify_tree.greedy(target, draft, tree)
    for judge in (sampled, verify_tree.typical):
        verified = judge(torch.nn.functional.one_hot(target, 3).float(), draft, tree, seeds, seeds)
        assert torch.equal(verified.accepted, expected.accepted)
        assert torch.equal(verified.next_token, expected.next_token)


# --- growing ----------------------------------------------------------------------------------------------------------


@given(top_k=st.integers(1, 3), nodes=st.integers(1, 12), depth=st.integers(1, 3), seed=st.integers(0, 2**32))
def test_a_dynamic_tree_has_the_likeliest_of_all_nodes_that_were_looked_at(
    top_k: int, nodes: int, depth: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    table = torch.randn(V, V, generator=generator).softmax(-1)
    growth, said = begin(DynamicTree(top_k, nodes), 1, torch.device("cpu")), torch.tensor([[START]])
    for _ in range(depth):
        best = table[said].log().topk(top_k)
        said = growth.grow(best.indices, best.values).tokens
    draft = growth.draft([depth])

    likely = {v: table[v].topk(top_k).indices.tolist() for v in range(V)}
    frontier, pool = [((), 1.0)], {}
    for _ in range(depth):
        children = {
            (*path, v): score * table[path[-1] if path else START, v].item()
            for path, score in frontier
            for v in likely[path[-1] if path else START]
        }
        pool |= children
        frontier = sorted(children.items(), key=lambda child: -child[1])[:top_k]
    expected = sorted(pool.values(), reverse=True)[:nodes]

    assert draft.tree is not None
    parents, tokens = draft.tree.parents[0].tolist(), draft.tokens[0].tolist()
    paths = [tuple(tokens[c - 1] for c in way(parents, column)) for column in range(1, 1 + len(tokens))]
    assert len(set(paths)) == len(paths) == len(expected)
    chosen = sorted((pool[path] for path in paths), reverse=True)
    torch.testing.assert_close(torch.tensor(chosen), torch.tensor(expected))
    assert draft.lengths().tolist() == [max(map(len, paths))]


def test_a_static_tree_puts_each_choice_where_its_path_says() -> None:
    shape = StaticTree(((0,), (2,), (0, 1), (2, 0), (2, 0, 1)))
    draft = grown(torch.tensor([START]), shape, 3)
    assert draft.tree is not None
    choices = {last: TARGET.roll(1, 1)[last].topk(3).indices.tolist() for last in range(V)}
    for column, path in enumerate(shape.paths, start=1):
        last = START
        for rank in path:
            last = choices[last][rank]
        assert draft.tokens[0, column - 1] == last
        assert draft.tree.depths[0, column] == len(path)


@pytest.mark.parametrize("shape", [DynamicTree(2, 6), StaticTree.of_widths((2, 2, 1))])
def test_no_row_gets_a_node_beyond_its_limit(shape: StaticTree | DynamicTree) -> None:
    growth, said = begin(shape, 3, torch.device("cpu")), torch.full((3, 1), START)
    for _ in range(3):
        best = TARGET[said].log().topk(2)
        said = growth.grow(best.indices, best.values).tokens
    draft = growth.draft([3, 0, 1])
    assert draft.lengths().tolist() == [3, 0, 1]


# --- as written -------------------------------------------------------------------------------------------------------


def test_shapes_are_read_as_they_are_written() -> None:
    assert parse_tree("chain") is None
    assert parse_tree("8x60") == DynamicTree(8, 60)
    assert parse_tree("static:2x1") == StaticTree(((0,), (1,), (0, 0), (1, 0)))
    assert parse_tree("static:3") == StaticTree(((0,), (1,), (2,)))


@pytest.mark.parametrize("text", ["", "8", "8x", "0x4", "8x60x2", "static:", "static:0x2", "static:99x99", "8X60"])
def test_what_is_no_shape_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected chain, 8x60 .* or static:4x2x1"):
        parse_tree(text)


@pytest.mark.parametrize("paths", [(), ((0, 0),), ((0,), (0,)), ((0, 0), (0,)), ((-1,),)])
def test_paths_that_make_no_tree_are_refused(paths: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match=r"path"):
        StaticTree(paths)


@pytest.mark.parametrize(
    ("tree", "verification", "synthetic", "said"),
    [
        (StaticTree.of_widths((2, 2)), "rejection", False, "2 deep, and gamma is the depth: 2, not 3"),
        (DynamicTree(2, 4), "block", False, "block verification is of chains"),
        (DynamicTree(2, 4), "coupled", True, "made up for chains alone"),
    ],
)
def test_what_does_not_go_with_trees_is_refused(
    tree: StaticTree | DynamicTree, verification: str, synthetic: bool, said: str
) -> None:
    check_tree(None, 3, verification, synthetic)
    check_tree(StaticTree.of_widths((2, 2, 1)), 3, "typical", False)
    with pytest.raises(ValueError, match=said):
        check_tree(tree, 3, verification, synthetic)
