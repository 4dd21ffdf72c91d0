"""Turns the copies and reductions of a program into steps. A step is an action of one rank.

Without packets, a rank stores into the memory of its peers and reads it. With packets, a rank that has a chunk which
another rank needs sends the chunk to a separate slot in the other rank's scratch. Ranks access no other memory of their
peers.
"""
from .graph import Node, Span

STEPS = {
    "copy": "copies {source} to {target}",
    "put": "puts {source} to {target}",
    "port": "lets its proxy put {source} to {target}",
    "reduce": "combines {sources} into {target}",
    "send": "sends {source} as packets to {target}",
    "pack": "packs {source} into {target}",
    "pass": "passes the packets in {source} on to {target}",
    "unpack": "unpacks {source} to {target}",
}


class Step(Node):
    """One step of a rank.

    kind: a key of STEPS. target: the span to which the result is written. also: further spans to which the result is
    written; without packets they belong to peers, with packets they are slots. port: a proxy carries out the step.
    block: the number of the block of threads that carries out the step, which is chosen later.
    """

    def __init__(self, kind, rank, sources, target, port=False):
        super().__init__()
        self.kind, self.rank, self.sources, self.target, self.port = kind, rank, sources, target, port
        self.also = []
        self.block = 0

    def reads(self):
        """Returns the spans that the step reads."""
        return self.sources

    def writes(self):
        """Returns the spans that the step writes."""
        return [self.target, *self.also]

    @property
    def agent(self):
        """The block of threads that carries out the step: (rank, block)."""
        return self.rank, self.block

    def peers(self):
        """Returns the other ranks whose memory the step reads or writes."""
        return {span.rank for span in [*self.sources, *self.writes()]} - {self.rank}

    def __str__(self):
        text = STEPS[self.kind].format(source=self.sources[0], target=self.target,
                                       sources=", ".join(map(str, self.sources)))
        if self.also:
            text += ", and stores the result to " + ", ".join(map(str, self.also))
        return f"rank {self.rank} {text}"


def lower(program, operations, packets):
    """Returns the steps of a program's operations, and the largest number of slots for packets that a rank has."""
    return _lower_packets(program, operations) if packets else (_lower_plain(program, operations), 0)


def _lower_plain(program, operations):
    """Returns the steps of operations without packets. A copy of a span to itself needs no step.

    A reduction reads the memory of peers. No peer is behind a port here: a program with such a reduction needs packets
    (Program.needs_packets), and lower() is then only called with packets. A copy is carried out by the rank that has
    the source, or by its proxy if the target is behind a port.
    """
    steps = []
    for operation in operations:
        if operation.kind == "reduce":
            steps.append(Step("reduce", operation.rank, operation.sources, operation.target))
        elif operation.sources[0] != operation.target:
            port = program.port(operation.rank, operation.target.rank)
            kind = "copy" if operation.target.rank == operation.rank else "port" if port else "put"
            steps.append(Step(kind, operation.rank, operation.sources, operation.target, kind == "port"))
    return steps


class _Sender:
    """Assigns slots, and collects the steps of a program with packets."""

    def __init__(self, program):
        self.program, self.steps = program, []
        # By rank: the number of slots in use. The slots come after the chunks of scratch that the program uses. Two of
        # these chunks have the size of one slot, because packets are twice as large as their data.
        self.used = [(program.counts["s"] + 1) // 2] * program.ranks
        self.packed = {}  # by span: the slot of the same rank that contains the span as packets

    def slot(self, rank, size):
        """Returns a span of new slots of a rank, which no other step uses in this launch."""
        self.used[rank] += size
        return Span(rank, "p", self.used[rank] - size, size)

    def send(self, source, rank):
        """Adds the steps that send a span to a slot of a peer, and returns this slot.

        A proxy can only send packets that are stored in a slot, so the span is first packed into a slot of its own
        rank.
        """
        slot = self.slot(rank, source.size)
        if not self.program.port(source.rank, rank):
            self.steps.append(Step("send", source.rank, [source], slot))
            return slot
        if source not in self.packed:
            self.packed[source] = self.slot(source.rank, source.size)
            self.steps.append(Step("pack", source.rank, [source], self.packed[source]))
        self.steps.append(Step("pass", source.rank, [self.packed[source]], slot, True))
        return slot

    def add_step(self, step):
        """Adds a step that writes a span of its rank. Packed copies of this span are now outdated, and forgotten."""
        self.steps.append(step)
        places = set(step.target.places())
        self.packed = {span: slot for span, slot in self.packed.items() if places.isdisjoint(span.places())}


def _lower_packets(program, operations):
    """Returns the steps of operations with packets, and the largest number of slots that a rank has.

    Each source on another rank is first sent to a slot of the target's rank, which then reads only its own memory. A
    copy of a span to itself needs no step.
    """
    sender = _Sender(program)
    for operation in operations:
        target = operation.target
        sources = [span if span.rank == target.rank else sender.send(span, target.rank) for span in operation.sources]
        if operation.kind == "reduce":
            sender.add_step(Step("reduce", target.rank, sources, target))
        elif sources[0] != target:
            sender.add_step(Step("unpack" if sources[0].buffer == "p" else "copy", target.rank, sources, target))
    return sender.steps, max(sender.used)
