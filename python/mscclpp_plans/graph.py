"""Determines which operations or steps have to wait for others, from the chunks that they read and write."""
from typing import NamedTuple


class Span(NamedTuple):
    """Adjacent chunks of one buffer of one rank. Buffers: "i", "o", "s", and "p" for packets in the scratch."""

    rank: int
    buffer: str
    index: int
    size: int = 1

    def places(self):
        """Returns the place of each chunk of the span: (rank, buffer, index)."""
        return [(self.rank, self.buffer, index) for index in range(self.index, self.index + self.size)]

    def __str__(self):
        last = "" if self.size == 1 else f"..{self.index + self.size - 1}"
        return f"{self.buffer}[{self.index}{last}] of rank {self.rank}"


class Node:
    """An object that reads spans and writes spans, and has a position in the order of all nodes."""

    def __init__(self):
        self.number = 0
        # For each node that has to come first, the reason: this node reads a place that the other node has written
        # ("RAW", read after write), or writes a place that the other node has read ("WAR") or written ("WAW").
        self.before = {}
        # The number of nodes on the longest path through the graph that ends at this node, and that begins at it. The
        # node itself is not counted.
        self.level = self.height = 0

    def reads(self):
        """Returns the spans that the node reads."""
        raise NotImplementedError

    def writes(self):
        """Returns the spans that the node writes."""
        raise NotImplementedError


def link(nodes):
    """Numbers nodes from 1 in their order, and determines for each node which nodes have to come first.

    A node has to come after another one if both touch the same chunk of a rank, and at least one of them writes the
    chunk. `before` contains only the nearest such nodes: the last writer, and the nodes that have read the chunk since
    then. The order of all other nodes follows from these. If there are several reasons, RAW is stored, or else WAW. A
    node that reads and writes a place is treated only as a writer of the place. Also sets the levels and heights of the
    nodes.
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
    set_levels(nodes)


def set_levels(nodes):
    """Sets the levels and heights of nodes that link() has linked.

    In the list, each node has to come after all nodes that it waits for.
    """
    for node in nodes:
        node.level = 1 + max((other.level for other in node.before), default=-1)
        node.height = 0
    for node in reversed(nodes):
        for other in node.before:
            other.height = max(other.height, node.height + 1)


def sort_by_level(nodes):
    """Returns the nodes sorted by level. Within a level, nodes with a greater height come first."""
    return sorted(nodes, key=lambda node: (node.level, -node.height, node.number))
