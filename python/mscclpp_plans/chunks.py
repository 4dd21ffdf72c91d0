"""Plans that are written as copies and reductions of chunks, from which all else is derived.

Each operation is done by one rank: a copy by the rank that has the source, a reduction by the one that has the result.
The result is as if all operations were done one after another, in the order of the program. The compiler finds which
of them have to wait for which, and gives them to blocks of threads that work at the same time.
"""
from .graph import Node, Span
from .passes import PASSES, Compiled
from .prove import prove

COLLECTIVES = ("allreduce", "allgather", "reducescatter", "alltoall")


class Chunk:
    """One chunk or several neighbouring ones, at a place. Made by Program.chunk."""

    def __init__(self, program, span):
        self.program, self.span = program, span

    def copy(self, rank, buffer, index):
        """Adds a copy to another place, and returns the chunks there."""
        target = self.program.chunk(rank, buffer, index, self.span.size)
        self.program.add("copy", self.span.rank, [self], target)
        return target

    def reduce(self, *others):
        """Adds a reduction that combines others, of the same size, into these chunks. Returns these."""
        if others:
            self.program.add("reduce", self.span.rank, [self, *others], self)
        return self


class Operation(Node):
    """One copy or reduction."""

    def __init__(self, kind, rank, sources, target):
        super().__init__()
        self.kind, self.rank, self.sources, self.target = kind, rank, sources, target

    def reads(self):
        """Returns the spans that the operation reads."""
        return self.sources

    def writes(self):
        """Returns the spans that the operation writes."""
        return [self.target]

    def alike(self, sources=None, target=None):
        """Returns the same operation, with other spans if they are given."""
        return Operation(self.kind, self.rank, list(sources or self.sources), target or self.target)

    def __str__(self):
        if self.kind == "copy":
            return f"rank {self.rank} copies {self.sources[0]} to {self.target}"
        return f"rank {self.rank} combines " + ", ".join(map(str, self.sources))


class Program:
    """A plan under construction.

    chunks: how many chunks a rank's block has; with all-to-all, for example, a rank has a block for each rank. port: a
    function of two ranks that tells whether a network joins them; if not, they reach one another's memory. portable:
    the plan has to fit into MSCCL++'s own executor. keys: further keys of the plan's file.

    The compiler chooses what is None, for messages of `size` bytes (default: the largest that the plan is for, or
    1 MiB). packets: data go between ranks as packets, which take less time for small messages, and twice the bytes.
    blocks: how many blocks of threads share a rank's steps. instances: how many times there are such blocks, each time
    with its part of every chunk. pipeline: bytes of a chunk in one turn of a loop, 0 for no loop. A rank has at most
    `most_blocks` blocks, unless both `blocks` and `instances` are given.
    """

    def __init__(self, name, collective, ranks, chunks=1, inplace=False, *, instances=None, blocks=None, packets=None,
                 pipeline=None, port=None, portable=False, size=None, most_blocks=16, **keys):
        if collective not in COLLECTIVES:
            raise ValueError(f"collective is {collective!r}; allowed are {', '.join(COLLECTIVES)}")
        for what, value in (("ranks", ranks), ("chunks", chunks), ("instances", instances), ("blocks", blocks),
                            ("size", size), ("most_blocks", most_blocks)):
            if value is not None and value < 1:
                raise ValueError(f"{what} is {value}; allowed are numbers from 1")
        for what, value in (("blocks", blocks), ("instances", instances)):
            if value and value > most_blocks and not (blocks and instances):
                raise ValueError(f"{what} is {value}; allowed are 1 to {most_blocks} (most_blocks), or more if blocks "
                                 "and instances are both given")
        if pipeline and (packets or pipeline < 0 or pipeline % 16):
            raise ValueError(f"pipeline is {pipeline}; allowed are multiples of 16 without packets")
        self.name, self.collective, self.ranks, self.chunks, self.inplace = name, collective, ranks, chunks, inplace
        # None, or a tuple of the one number that is allowed, as blocks.choices() takes them.
        self.instances, self.blocks = instances and (instances,), blocks and (blocks,)
        # A pipeline excludes packets. None: the compiler chooses.
        self.packets = False if pipeline else packets if packets is None else bool(packets)
        self.pipeline, self.most_blocks = pipeline, most_blocks
        self.port, self.portable, self.keys = port or (lambda one, other: False), portable, keys
        # A limit of 1 TiB or more means that there is none, and says nothing about usual messages.
        largest = keys.get("max_message_size", 1 << 64)
        self.size = size or (largest if largest < 1 << 40 else 1 << 20)
        self.needs_packets = False  # a reduction reads chunks of a rank behind a port, which only packets can bring
        inputs = ranks if collective in ("reducescatter", "alltoall") else 1
        outputs = ranks if collective in ("allgather", "alltoall") else 1
        # Chunks of each buffer. That of the scratch grows with its use.
        self.counts = {"i": chunks * inputs, "o": chunks * outputs, "s": 0}
        self.operations = []

    def chunk(self, rank, buffer, index, size=1):
        """Returns chunks at a place. buffer: "i", "o" or "s"; the scratch becomes as large as it has to be.

        Raises ValueError if there is no such place.
        """
        if not 0 <= rank < self.ranks:
            raise ValueError(f"rank is {rank}; allowed are 0 to {self.ranks - 1}")
        if buffer not in self.counts:
            raise ValueError(f"buffer is {buffer!r}; allowed are 'i', 'o' and 's'")
        if buffer == "s":
            self.counts["s"] = max(self.counts["s"], index + size)
        if size < 1 or not 0 <= index <= self.counts[buffer] - size:
            raise ValueError(f"{size} chunks from {index} on; buffer {buffer!r} has {self.counts[buffer]}")
        return Chunk(self, Span(rank, buffer, index, size))

    def add(self, kind, rank, sources, target):
        """Adds an operation, for Chunk.

        Raises ValueError if spans differ in size, or if one that is read overlaps the one that is written: which chunk
        comes first would change the result. Also raises it if a reduction reads chunks of a rank behind a port, and the
        program excludes packets, which alone can bring them.
        """
        if any(source.span.size != target.span.size for source in sources):
            raise ValueError(f"{kind}: {[source.span.size for source in sources]} chunks go to {target.span.size}")
        written = self.place(target.span)
        for read in (self.place(source.span) for source in sources):
            if read != written and not set(read.places()).isdisjoint(written.places()):
                raise ValueError(f"{kind}: {read} and {written} overlap; allowed are the same chunks, or others")
        if kind == "reduce" and any(source.span.rank != rank and self.port(source.span.rank, rank)
                                    for source in sources):
            if self.packets is False:
                raise ValueError("a reduction cannot read through a port; copy to the scratch of its rank first")
            self.needs_packets = True
        self.operations.append(Operation(kind, rank, [self.place(source.span) for source in sources], written))

    def place(self, span):
        """Returns where chunks lie. In place, input and output share memory, and one name has to stand for both.

        Otherwise the compiler would not see that two operations touch the same chunk. The larger buffer gives the name,
        or the input if both are equal.
        """
        if self.inplace and span.buffer != "s":
            first_of_block = span.rank * self.chunks
            if self.collective == "allgather" and span.buffer == "i":
                return span._replace(buffer="o", index=first_of_block + span.index)
            if self.collective == "reducescatter" and span.buffer == "o":
                return span._replace(buffer="i", index=first_of_block + span.index)
            if self.collective in ("allreduce", "alltoall"):
                return span._replace(buffer="i")
        return span

    def plan(self):
        """Returns the plan, as json.dump takes it, without a proof."""
        return Compiled(self).plan

    def compile(self, tool=None):
        """Returns the plan, proven by `mscclpp_plan check`. Raises Refused if it has a fault.

        tool: that program, if it is not in PATH. Raises FileNotFoundError if there is none.
        """
        plan = self.plan()
        prove(plan, tool)
        return plan

    def explain(self, names=PASSES):
        """Returns what the passes of the compiler make of the program, as text."""
        return Compiled(self).explain(names)
