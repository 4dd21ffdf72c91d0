"""Plans that are written as copies and reductions of chunks. The compiler derives everything else from them.

Each operation is carried out by one rank: a copy by the rank that has the source, a reduction by the rank that has the
result. The result is the same as if all operations were carried out one after another, in the order of the program. The
compiler determines which operations have to wait for others, and assigns them to blocks of threads that work at the
same time.
"""
from .graph import Node, Span
from .passes import PASSES, Compiled
from .prove import prove

COLLECTIVES = ("allreduce", "allgather", "reducescatter", "alltoall")


class Chunk:
    """One chunk or several adjacent chunks, at a place. Made by Program.chunk."""

    def __init__(self, program, span):
        self.program, self.span = program, span

    def copy(self, rank, buffer, index):
        """Adds a copy to another place, and returns the chunks there."""
        target = self.program.chunk(rank, buffer, index, self.span.size)
        self.program.add("copy", self.span.rank, [self], target)
        return target

    def reduce(self, *others):
        """Adds a reduction that combines other chunks, of the same size, into these chunks. Returns these chunks."""
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
        """Returns a copy of the operation, with other sources and another target if they are given."""
        return Operation(self.kind, self.rank, list(sources or self.sources), target or self.target)

    def __str__(self):
        if self.kind == "copy":
            return f"rank {self.rank} copies {self.sources[0]} to {self.target}"
        return f"rank {self.rank} combines " + ", ".join(map(str, self.sources))


class Program:
    """A plan under construction.

    chunks: how many chunks a rank's block has; in an all-to-all, for example, a rank has a block for each rank. port: a
    function of two ranks that returns True if a network connects them; otherwise they reach each other's memory.
    portable: the plan must not exceed the limits of MSCCL++'s own executor. keys: further keys of the plan's file.

    The compiler chooses values for the following arguments if they are None, for messages of `size` bytes (default: the
    largest size of the plan, or 1 MiB). packets: ranks send data as packets, which are faster for small messages, but
    twice as large as their data. blocks: how many blocks of threads share a rank's steps. instances: how many copies of
    these blocks there are, each with its part of every chunk. pipeline: bytes of a chunk in one turn of a loop, 0 for
    no loop. A rank has at most `most_blocks` blocks, unless both `blocks` and `instances` are given.

    Raises ValueError for an argument that is not allowed.
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
        # For blocks.choices(): None, or a tuple with the only number that is allowed.
        self.instances, self.blocks = instances and (instances,), blocks and (blocks,)
        # A pipeline excludes packets. None: the compiler chooses.
        self.packets = False if pipeline else packets if packets is None else bool(packets)
        self.pipeline, self.most_blocks = pipeline, most_blocks
        self.port, self.portable, self.keys = port or (lambda one, other: False), portable, keys
        # A limit of 1 TiB or more means that there is no limit, so the size of usual messages is not known.
        largest = keys.get("max_message_size", 1 << 64)
        self.size = size or (largest if largest < 1 << 40 else 1 << 20)
        self.needs_packets = False  # a reduction reads chunks of a rank behind a port, which only packets can bring
        inputs = ranks if collective in ("reducescatter", "alltoall") else 1
        outputs = ranks if collective in ("allgather", "alltoall") else 1
        # The number of chunks of each buffer. The scratch grows when the program uses more of it.
        self.counts = {"i": chunks * inputs, "o": chunks * outputs, "s": 0}
        self.operations = []

    def chunk(self, rank, buffer, index, size=1):
        """Returns chunks at a place. buffer: "i", "o" or "s"; the scratch grows if necessary.

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

        Raises ValueError if spans differ in size, or if a span that is read partly overlaps the span that is written,
        because the result would then depend on the order of the chunks. Also raises ValueError if a reduction reads
        chunks of a rank behind a port, and the program excludes packets: such chunks can only be sent as packets.
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
        """Returns the span with the unique name of its memory.

        In place, input and output share memory, so a chunk could have two names, and the compiler would not see that
        two operations touch the same chunk. The name is that of the larger buffer, or of the input if both buffers are
        equally large.
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
        """Returns the plan as a dictionary for json.dump, without a proof. Raises ValueError as Compiled does."""
        return Compiled(self).plan

    def compile(self, tool=None):
        """Returns the plan, proven with `mscclpp_plan check`. Raises Refused if the plan has a fault.

        tool: the path of mscclpp_plan, if it is not in PATH. Raises FileNotFoundError if the program is not found, and
        ValueError as Compiled does.
        """
        plan = self.plan()
        prove(plan, tool)
        return plan

    def explain(self, names=PASSES):
        """Returns the results of the compiler's passes for this program, as text."""
        return Compiled(self).explain(names)
