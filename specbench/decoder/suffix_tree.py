"""A tree of all suffixes of some texts, as deep as a limit, with how often each stood there. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Text:
    """One text in a tree, which may grow.

    path: the nodes of its last 0, 1, 2, … tokens, as far as these stand elsewhere too
    """

    __slots__ = ("path", "tokens")

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.path: list[Node] = []


class Node:
    """The end of a string of tokens that stands in the texts.

    count:       how often
    children:    by the token that follows, None while the string stands only once: then what follows is in its text
    order:       the children, those with the highest count first; None or empty where there is one or none, and in the
                 root
    text, start: where the string was seen first
    """

    __slots__ = ("children", "count", "order", "start", "text", "token")

    def __init__(self, token: int, text: Text, start: int) -> None:
        self.token, self.text, self.start = token, text, start
        self.count = 1
        self.children: dict[int, Node] | None = None
        self.order: list[Node] | None = None


class SuffixTree:
    """depth: length of the longest strings that are kept

    Which of several children with the same count comes first is arctic-inference's choice (`suffix_tree.cc`,
    `_increment_count`, `_decrement_count`): it depends on the order in which the counts were reached.
    """

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self._root = Node(-1, Text(), 0)
        self._root.children = {}

    def extend(self, text: Text, tokens: Iterable[int]) -> None:
        """Append tokens to a text."""
        if not text.path:
            text.path = [self._root]
        for token in tokens:
            self._append(text, token)

    def _append(self, text: Text, token: int) -> None:
        end = len(text.tokens)
        text.tokens.append(token)
        path = [self._root]
        for length, node in enumerate(text.path):
            if length == self.depth:
                break
            assert node.children is not None
            child = node.children.get(token)
            if child is None:
                self._add(node, Node(token, text, end - length))
            else:
                self._raise(node, child)
                if child.children is None:
                    self._open(child, length + 1)
                path.append(child)
        text.path = path

    def _open(self, node: Node, length: int) -> None:
        """Give a node, whose string now stands twice, the child that its first place calls for."""
        node.children = {}
        following = node.start + length
        if following == len(node.text.tokens):
            # The first place is the present end of another text, which goes on from here.
            node.text.path.append(node)
        elif length < self.depth:
            self._add(node, Node(node.text.tokens[following], node.text, node.start))

    def _add(self, node: Node, child: Node) -> None:
        assert node.children is not None
        if node.children and node is not self._root:
            if not node.order:
                node.order = list(node.children.values())
            node.order.append(child)
        node.children[child.token] = child

    @staticmethod
    def _raise(node: Node, child: Node) -> None:
        order = node.order
        if order:
            at = order.index(child)
            if at and order[at - 1].count <= child.count + 1:
                count, first = order[at - 1].count, at - 1
                while first and order[first - 1].count == count:
                    first -= 1
                order.insert(first, order.pop(at))
        child.count += 1

    @staticmethod
    def _lower(node: Node, child: Node) -> None:
        order = node.order
        if order:
            last = at = order.index(child)
            while last + 1 < len(order) and order[last + 1].count == child.count:
                last += 1
            order.insert(last, order.pop(at))
        child.count -= 1

    def remove(self, text: Text) -> None:
        """Forget a text."""
        tokens = text.tokens
        for start in range(len(tokens)):
            node = self._root
            for token in tokens[start : start + self.depth]:
                assert node.children is not None
                child = node.children[token]
                if child.count == 1:
                    del node.children[token]
                    if node.order:
                        node.order.remove(child)
                    break
                self._lower(node, child)
                node = child

    def find(self, tokens: Sequence[int]) -> Node | None:
        """The node of a string, or the one that it is on the way to where it stands once; None where it does not."""
        node = self._root
        for length, token in enumerate(tokens):
            if node.children is None:
                start = node.start
                return node if node.text.tokens[start + length : start + len(tokens)] == tokens[length:] else None
            found = node.children.get(token)
            if found is None:
                return None
            node = found
        return node

    def follow(self, node: Node, length: int, most: int, min_prob: float) -> tuple[list[int], list[float]]:
        """What mostly followed a string, and the estimated probability of each token together with those before it.

        node: the string's, from `find` · length: the string's · most: tokens wanted · min_prob: where to end
        """
        tokens: list[int] = []
        probs: list[float] = []
        prob = 1.0
        while len(tokens) < most:
            if node.children is None:
                start = node.start + length + len(tokens)
                rest = node.text.tokens[start : min(start + most - len(tokens), node.start + self.depth)]
                return tokens + rest, probs + [prob] * len(rest)
            if not node.children:
                break
            child = node.order[0] if node.order else next(iter(node.children.values()))
            prob = single(prob * single(child.count / node.count))
            if prob < min_prob:
                break
            tokens.append(child.token)
            probs.append(prob)
            node = child
        return tokens, probs


_SPLIT = 2.0**29 + 1


def single(x: float) -> float:
    """x rounded to single precision (Veltkamp's splitting), in which arctic-inference compares."""
    scaled = x * _SPLIT
    return scaled - (scaled - x)
