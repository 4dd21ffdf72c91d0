"""Finds which operations or steps have to wait for which, by the chunks that they read and write."""
from typing import NamedTuple


class Span(NamedTuple):
    """Neighbouring chunks of one buffer of one rank. Buffers: "i", "o", "s", and "p" for packets in the scratch."""

    rank: int
    buffer: str
    index: int
    size: int = 1

    def places(self):
        """Returns each chunk by itself: (rank, buffer, index)."""
        return [(self.rank, self.buffer, index) for index in range(self.index, self.index + self.size)]

    def __str__(self):
        last = "" if self.size == 1 else f"..{self.index + self.size - 1}"
        return f"{self.buffer}[{self.index}{last}] of rank {self.rank}"


class Node:
    """Something that reads spans and writes spans, at a place in the order of all nodes."""

    def __init__(self):
        self.number = 0
        # For each node that has to come first, the reason: this one reads what that one has written ("RAW", read after
        # write), or writes what that one has read ("WAR") or written ("WAW").
        self.before = {}
        self.level = self.height = 0  # nodes on the longest way through the graph: before this node, and behind it

    def reads(self):
        """Returns the spans that it reads."""
        raise NotImplementedError

    def writes(self):
        """Returns the spans that it writes."""
        raise NotImplementedError


def link(nodes):
    """Numbers nodes from 1 in their order, and finds for each those that have to come first.

    A node has to come after another if both touch the same chunk of a rank, and at least one of them writes it. Only
    the nearest such nodes are in `before`: the last writer, and those that have read since. The others follow from
    these. If there are several reasons, RAW wins, then WAW. A node that reads a place and writes it counts as its
    writer only. Also sets levels and heights.
    """
    written, read = {}, {}  # by place: the last node that wrote it, and the nodes that have read it since
    for number, node in enumerate(nodes, 1):
        node.number, node.before = number, {}
        inputs = [place for span in node.reads() for place in span.places()]
        outputs = [place for span in node.writes() for place in span.places()]
        for place in outputs:
            for other in read.get(place, []):
                node.before.setdefault(other, "WAR")
            if place in written:
                node.before[written[place]] = "WAW"
        for place in inputs:
            if place in written:
                node.before[written[place]] = "RAW"
        for place in inputs:
            read.setdefault(place, []).append(node)
        for place in outputs:
            written[place], read[place] = node, []
    measure(nodes)


def measure(nodes):
    """Sets the levels and heights of nodes that link() has linked. Each node has to stand behind those before it."""
    for node in nodes:
        node.level = 1 + max((other.level for other in node.before), default=-1)
        node.height = 0
    for node in reversed(nodes):
        for other in node.before:
            other.height = max(other.height, node.height + 1)


def order(nodes):
    """Returns the nodes by level; within a level those come first that have the longest way behind them."""
    return sorted(nodes, key=lambda node: (node.level, -node.height, node.number))
