"""Suffix decoding: draft what mostly followed the sequence's longest repeated endings. Needs no torch.

The rule is that of the paper (Oliaro et al., 2024, "SuffixDecoding", section 3) as arctic-inference publishes it
(`csrc/suffix_decoding/suffix_tree.cc`, `arctic_inference/suffix_decoding/cache.py`, version 0.3.0), which vLLM calls;
drafts are chains. The tree here is another: a suffix is entered only as far as it stood before, so that a token costs
as much as its text repeats itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specbench.decoder.suffix_tree import Node, SuffixTree, Text, single


@dataclass(frozen=True, slots=True)
class SuffixRule:
    """How long a draft may be, with vLLM's defaults.

    depth:          tokens that a match and its continuation may have together
    factor, offset: a match of L tokens allows factor * L + offset drafted tokens
    min_prob:       a draft ends before the token whose estimated probability, given the match, is below this
    """

    depth: int = 24
    factor: float = 1.0
    offset: float = 0.0
    min_prob: float = 0.1

    def allowed(self, match: int) -> int:
        return max(0, int(match * self.factor + self.offset + 1e-6))


class SuffixMemory:
    """The responses of the last `max_requests` requests, for later ones to draft from; the oldest goes first.

    It is what makes repeated traffic fast, and what spoils a benchmark that sends the same prompts twice.
    """

    def __init__(self, rule: SuffixRule, max_requests: int) -> None:
        if max_requests < 1:
            raise ValueError(f"a memory needs at least one request; got {max_requests}.")
        self.tree, self._max_requests = SuffixTree(rule.depth), max_requests
        self._texts: dict[Text, None] = {}

    def begin(self) -> Text:
        """A place for one more request's response; the oldest is forgotten where there is none."""
        if len(self._texts) == self._max_requests:
            oldest = next(iter(self._texts))
            del self._texts[oldest]
            self.tree.remove(oldest)
        text = Text()
        self._texts[text] = None
        return text

    def extend(self, text: Text, tokens: Iterable[int]) -> None:
        """Append to a response. One that has been forgotten already stays so."""
        if text in self._texts:
            self.tree.extend(text, tokens)


class SuffixIndex:
    """One request: its prompt and response, and the memory of earlier ones if it has one."""

    def __init__(self, prompt: Iterable[int], rule: SuffixRule, memory: SuffixMemory | None = None) -> None:
        self._rule, self._memory = rule, memory
        self._tree, self._text = SuffixTree(rule.depth), Text()
        self._tree.extend(self._text, prompt)
        self._response = memory.begin() if memory else None

    def extend(self, tokens: Sequence[int]) -> None:
        """Append what a step emitted."""
        self._tree.extend(self._text, tokens)
        if self._memory and self._response is not None:
            self._memory.extend(self._response, tokens)

    def propose(self, k: int) -> list[int]:
        """At most k tokens to draft. A smaller k can give another draft, not only a shorter one."""
        return self.proposals(k)[-1] if k else []

    def proposals(self, most: int) -> list[list[int]]:
        """The drafts of `propose(1)` to `propose(most)`, for the price of the last."""
        tokens = self._text.tokens
        longest = min(self._rule.depth, len(tokens)) - 1
        local = [
            self._continuation(self._tree, node, match, most)
            for match, node in enumerate(self._text.path[1 : longest + 1], start=1)
        ]
        if self._memory is None:
            return [_best(local, k)[1] for k in range(1, most + 1)]
        tree = self._memory.tree
        found = (tree.find(tokens[-match:]) for match in range(1, longest + 1))
        remembered = []
        for match, node in enumerate(found, start=1):
            if node is None:
                break
            remembered.append(self._continuation(tree, node, match, most))
        # `max` keeps the first of equals: the request's own text.
        return [max(_best(local, k), _best(remembered, k), key=lambda draft: draft[0])[1] for k in range(1, most + 1)]

    def _continuation(self, tree: SuffixTree, node: Node, match: int, most: int) -> _Continuation:
        tokens, probs = tree.follow(node, match, min(most, self._rule.allowed(match)), single(self._rule.min_prob))
        scores, total = [0.0], 0.0
        for prob in probs:
            total = single(total + prob)
            scores.append(total)
        return tokens, scores


_Continuation = tuple[list[int], list[float]]
"""Drafted tokens after one match, and the score of each number of them from 0: the sum of their probabilities."""


def _best(continuations: Sequence[_Continuation], k: int) -> tuple[float, list[int]]:
    """The draft of at most k tokens with the highest score; of equals that of the longest match."""
    score, draft = 0.0, list[int]()
    for tokens, scores in continuations:
        if (reached := scores[min(k, len(tokens))]) >= score:
            score, draft = reached, tokens
    return score, draft[:k]
