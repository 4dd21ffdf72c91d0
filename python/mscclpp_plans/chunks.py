"""Plans by what happens to chunks: copies and reductions in some order, from which the rest is derived.

Each operation is done by one rank: a copy by the rank that has the source, a reduction by the one that has the result.
Which operations wait for which follows from the chunks that they touch, as if all were done one after another. Where
two of them are of different ranks, a signal goes between, unless what is known already makes it needless. A rank does
its operations in the order of the program, so that no circle of waits can come about.

With packets, whoever has a chunk that another rank needs sends it to a place of its own in that rank's scratch, and
only a rank itself touches its other chunks. A packet's flag says that it is there, so signals are left for ranks that
would otherwise not hear that what they sent was read.
"""
from .channels import Rank, assemble, local


class Chunk:
    """A chunk at a place."""

    def __init__(self, program, rank, buffer, index):
        self.program, self.rank, self.buffer, self.index = program, rank, buffer, index

    def copy(self, rank, buffer, index):
        """A copy of it at another place, which is returned."""
        target = self.program.chunk(rank, buffer, index)
        self.program.add("copy", self.rank, [self], target)
        return target

    def reduce(self, *others):
        """Combines others into this one, which stays where it is."""
        self.program.add("reduce", self.rank, [self, *others], self)
        return self


class Operation:
    """One copy or reduction."""

    def __init__(self, number, kind, rank, sources, target):
        self.number, self.kind, self.rank, self.sources, self.target = number, kind, rank, sources, target
        self.waits, self.signals = [], []  # ranks
        self.known = {}

    def __str__(self):
        """As a sentence."""
        def place(chunk):
            return f"{chunk.buffer}[{chunk.index}] of rank {chunk.rank}"

        if self.target is None:
            return f"rank {self.rank} " + ("begins" if self.number == 0 else "ends")
        if self.kind == "copy":
            return f"rank {self.rank} copies {place(self.sources[0])} to {place(self.target)}"
        return f"rank {self.rank} combines " + ", ".join(place(c) for c in self.sources)


class Program:
    """A plan under construction.

    chunks: of a rank's block (of all-to-all and so on a rank has a block for each one). instances: so many blocks of
    threads a rank, each with its own part of every chunk. port: a function of two ranks that says whether a port
    channel joins them; memory channels do otherwise. packets: data go between ranks as packets, which take less time
    for small messages, and twice the bytes.
    """

    def __init__(self, name, collective, ranks, chunks=1, inplace=False, instances=1, port=None, packets=False,
                 **keys):
        many = {"allreduce": (1, 1), "allgather": (1, ranks), "reducescatter": (ranks, 1), "alltoall": (ranks, ranks)}
        if collective not in many:
            raise ValueError(f"collective is {collective!r}; allowed are {', '.join(many)}")
        if ranks < 1 or chunks < 1 or instances < 1:
            raise ValueError("ranks, chunks and instances are at least 1")
        self.name, self.collective, self.ranks, self.inplace = name, collective, ranks, inplace
        self.instances, self.port, self.keys = instances, port or (lambda a, b: False), keys
        self.chunks, self.packets = chunks, packets
        self.counts = {"i": chunks * many[collective][0], "o": chunks * many[collective][1], "s": 0}
        self.operations = []

    def chunk(self, rank, buffer, index):
        """The chunk at a place: buffer is "i", "o" or "s"; the scratch is as large as it has to be."""
        if not 0 <= rank < self.ranks:
            raise ValueError(f"rank {rank} of {self.ranks}")
        if buffer == "s":
            self.counts["s"] = max(self.counts["s"], index + 1)
        if buffer not in self.counts or not 0 <= index < self.counts[buffer]:
            raise ValueError(f"chunk {index} of {buffer!r} of {self.counts.get(buffer, 0)}")
        return Chunk(self, rank, buffer, index)

    def add(self, kind, rank, sources, target):
        """For Chunk."""
        for source in sources:
            if source.rank != rank and self.port(source.rank, rank) and not self.packets:
                raise ValueError("a port channel cannot be read from: copy to the scratch of the rank that combines")
        self.operations.append(Operation(len(self.operations) + 1, kind, rank, sources, target))

    def place(self, chunk):
        """Where it lies: in place, input and output share memory."""
        if self.inplace and chunk.buffer != "s":
            if self.collective == "allgather" and chunk.buffer == "i":
                return chunk.rank, "o", chunk.rank * self.chunks + chunk.index
            if self.collective == "reducescatter" and chunk.buffer == "o":
                return chunk.rank, "i", chunk.rank * self.chunks + chunk.index
            if self.collective in ("allreduce", "alltoall"):
                return chunk.rank, "i", chunk.index
        return chunk.rank, chunk.buffer, chunk.index

    def _derive(self):
        """Which ranks have to be waited for before each operation, and signalled after it."""
        enter = [Operation(0, "enter", r, [], None) for r in range(self.ranks)]
        leave = [Operation(len(self.operations) + 1, "leave", r, [], None) for r in range(self.ranks)]
        written, read = {}, {}  # by place: the last operation that wrote it, and those that have read it since
        for operation in self.operations:
            operation.waits, operation.signals = [], []
        for operation in enter:
            operation.known = {operation.rank: 0}
        known = [{r: 0} for r in range(self.ranks)]
        self.needless = 0

        def need(operation, before):
            mine = known[operation.rank]
            if before.rank == operation.rank or mine.get(before.rank, -1) >= before.number:
                self.needless += before.rank != operation.rank
                return
            if operation.rank not in before.signals:
                before.signals.append(operation.rank)
            operation.waits.append(before.rank)
            for rank, number in before.known.items():
                mine[rank] = max(mine.get(rank, -1), number)

        def touch(operation, sources, targets):
            before = []
            for place in [*sources, *targets]:
                before.append(written.get(place, enter[place[0]]))
            for place in targets:
                before += read.get(place, [])
            # The latest first: who has heard of it, has heard of what its rank did before.
            for other in sorted(before, key=lambda o: -o.number):
                need(operation, other)

        for operation in self.operations:
            sources, target = [self.place(c) for c in operation.sources], self.place(operation.target)
            touch(operation, sources, [target])
            known[operation.rank][operation.rank] = operation.number
            operation.known = dict(known[operation.rank])
            for place in sources:
                read.setdefault(place, []).append(operation)
            written[target], read[target] = operation, []
        # A rank's buffers are its application's again once it has left.
        for operation in leave:
            places = [p for p in set(written) | set(read) if p[0] == operation.rank]
            touch(operation, [], sorted(places))
        return enter, leave

    def compile(self):
        """The plan, as json.dump takes it."""
        return self._compile_packets() if self.packets else self._compile_signals()

    def _route(self):
        """What each rank sends and combines, in order; whom each has to tell at the end; chunks of scratch."""
        # Packets take two chunks each, and come behind the chunks of scratch that the program uses.
        used = [(self.counts["s"] + 1) // 2] * self.ranks
        lists = [[] for _ in range(self.ranks)]
        heard = [{r} for r in range(self.ranks)]
        sent = set()

        def slot_of(rank):
            used[rank] += 1
            return used[rank] - 1

        def transfer(source, rank):
            slot = slot_of(rank)
            own = slot_of(source.rank) if self.port(source.rank, rank) else None
            lists[source.rank].append(("send", source, rank, slot, own))
            heard[rank] |= heard[source.rank]
            sent.add((source.rank, rank))
            return slot

        for operation in self.operations:
            rank = operation.target.rank
            slots = [None if c.rank == rank else transfer(c, rank) for c in operation.sources]
            lists[rank].append(("combine", operation, slots))
        # Two launches later the same place is written again. Who has heard of the reader's next launch knows that it
        # has read.
        tell = [sorted(a for a, b in sent if b == r and r not in heard[a]) for r in range(self.ranks)]
        return lists, tell, sent, max(self.counts["s"], *used)

    def explain(self):
        """What the passes of compile() make of the program, as text."""
        lines = [f"{self.name}: {self.collective} on {self.ranks} ranks", "", "operations, in their order"]
        lines += [f"{o.number:5}  {o}" for o in self.operations]
        if self.packets:
            lines += ["", "what each rank sends as packets, and combines"]
            lists, tell, _, scratch = self._route()
            for r, steps in enumerate(lists):
                for kind, *what in steps:
                    if kind == "combine":
                        lines.append(f"{what[0].number:5}  {what[0]}")
                        continue
                    source, peer, slot, own = what
                    port = "" if own is None else f" through a port, by its own s[{own}]"
                    lines.append(f"       rank {r} sends {source.buffer}[{source.index}] to s[{slot}] of rank {peer}"
                                 + port)
                if tell[r]:
                    lines.append(f"       rank {r} tells at its end that it has read: ranks {tell[r]}")
            lines.append(f"scratch: {scratch} chunks, in two halves")
        else:
            enter, leave = self._derive()
            lines += ["", "signals between them"]
            for o in [*enter, *self.operations, *leave]:
                if o.waits or o.signals:
                    waits = f", first waits for ranks {sorted(o.waits)}" if o.waits else ""
                    signals = f", then signals ranks {sorted(o.signals)}" if o.signals else ""
                    lines.append(f"{o.number:5}  {o}{waits}{signals}")
            lines.append(f"{sum(len(o.waits) for o in [*self.operations, *leave])} signals; {self.needless} more would "
                         "say what is known already")
        lines += ["", "blocks, and how many operations they have after merging"]
        for gpu in self.compile()["gpus"]:
            for block in gpu["threadblocks"]:
                names = [op["name"] for op in block["ops"]]
                lines.append(f"rank {gpu['id']} block {block['id']}: "
                             + ", ".join(f"{names.count(n)} {n}" for n in dict.fromkeys(names)))
        return "\n".join(lines) + "\n"

    def _compile_packets(self):
        lists, tell, sent, scratch = self._route()
        counts = [n * self.instances for n in (self.counts["i"], self.counts["o"], scratch)]
        ranks = [Rank(r, *counts) for r in range(self.ranks)]
        for instance in range(self.instances):
            writers = [_PacketWriter(self, rank, instance) for rank in ranks]
            for r in range(self.ranks):
                for p in range(self.ranks):
                    if (r, p) in sent or (p, r) in sent:
                        writers[r].connect(p)
            for r in range(self.ranks):
                for kind, *what in lists[r]:
                    getattr(writers[r], kind)(*what)
                writers[r].leave(tell[r], [p for p in range(self.ranks) if r in tell[p]])
                writers[r].end()
        return assemble(self.name, self.collective, ranks, "LL", self.inplace, use_double_scratch_buffer=True,
                        **self.keys)

    def _compile_signals(self):
        enter, leave = self._derive()
        counts = [self.counts[b] * self.instances for b in "ios"]
        ranks = [Rank(r, *counts) for r in range(self.ranks)]
        lists = [[enter[r]] + [o for o in self.operations if o.rank == r] + [leave[r]] for r in range(self.ranks)]
        peers = [set() for _ in ranks]
        for r in range(self.ranks):
            for operation in lists[r]:
                chunks = operation.sources + ([operation.target] if operation.target is not None else [])
                for p in [*operation.signals, *operation.waits, *(c.rank for c in chunks)]:
                    peers[r].add(p)
                    peers[p].add(r)
        for instance in range(self.instances):
            writers = [_Writer(self, rank, instance) for rank in ranks]
            for r in range(self.ranks):
                for p in sorted(peers[r]):
                    writers[r].connect(p)
            for r in range(self.ranks):
                for operation in lists[r]:
                    writers[r].write(operation)
                writers[r].end()
        return assemble(self.name, self.collective, ranks, inplace=self.inplace, **self.keys)


class _Writer:
    """One block: writes the operations of a rank, with as few meetings of its threads as they need."""

    def __init__(self, program, rank, instance):
        self.program, self.rank, self.instance = program, rank, instance
        self.block, self.channels = rank.block(), {}
        self.reads, self.writes = set(), set()  # places since the threads have met
        self.puts = None  # those that can take another one

    def connect(self, peer):
        """A channel to a peer, which makes one, too."""
        if peer != self.rank.number:
            kind = "port" if self.program.port(self.rank.number, peer) else "memory"
            self.channels[peer] = (kind, self.rank.channel(kind, peer))

    def _meet(self):
        self.puts = None
        if self.block.ops and self.block.ops[-1]["name"] != "nop":
            self.block.nop()
        self.reads, self.writes = set(), set()

    def _sync(self, name, peers):
        for kind in ("memory", "port"):
            numbers = [self.channels[p][1] for p in peers if self.channels[p][0] == kind]
            if numbers:
                self.block.sync(name, kind, numbers)

    def _item(self, chunk):
        index = chunk.index * self.program.instances + self.instance
        if chunk.rank == self.rank.number:
            return local(chunk.buffer, index)
        return self.block.remote(self.channels[chunk.rank][0], chunk.rank, chunk.buffer, index)

    def write(self, operation):
        """One operation with its waits before and its signals after it."""
        if operation.waits:
            self._meet()
            self._sync("wait", sorted(operation.waits))
            self.block.nop()
        if operation.target is not None:
            self._data(operation)
        if operation.signals:
            self._meet()
            self._sync("signal", sorted(operation.signals))
            self.puts = None

    def _data(self, operation):
        sources = [self.program.place(c) for c in operation.sources]
        target = self.program.place(operation.target)
        if target in self.reads or target in self.writes or self.writes & set(sources):
            self._meet()
        self.reads.update(sources)
        self.writes.add(target)
        if operation.kind == "reduce":
            self.puts = None
            self._reduce(operation)
        elif operation.target.rank == self.rank.number:
            self.puts = None
            if sources[0] != target:
                self.block.move("copy", [self._item(operation.sources[0])], [self._item(operation.target)])
        else:
            self._put(operation)

    def _reduce(self, operation):
        own = [c for c in operation.sources if c.rank == self.rank.number]
        others = [c for c in operation.sources if c.rank != self.rank.number]
        target = [self._item(operation.target)]
        if len(own) > 1:
            self.block.move("re", [self._item(c) for c in own], target, reduce_op="sum")
            if others:
                self._meet()
                self.reads.update(self.program.place(c) for c in others)
                self.writes.add(self.program.place(operation.target))
        if others:
            self.block.move("rre", target + [self._item(c) for c in others], target, "memory", reduce_op="sum")

    def _put(self, operation):
        kind, channel = self.channels[operation.target.rank]
        source, target = self._item(operation.sources[0]), self._item(operation.target)
        if kind == "port":
            # It is read some time; the flush says that this is over.
            self._meet()
            self.block.move("put", [source], [target], "port", [channel])
            self.block.sync("flush", "port", [channel])
            self._meet()
            return
        if self.puts is None:
            self.block.move("put", [], [], "memory")
            self.puts = self.block.ops[-1]
        self.puts["src_buff"].append(source)
        self.puts["dst_buff"].append(target)

    def end(self):
        """A block without operations is none."""
        if not self.block.ops:
            self.block.nop()


class _PacketWriter(_Writer):
    """One block of a program with packets."""

    def __init__(self, program, rank, instance):
        super().__init__(program, rank, instance)
        self.touched = {}  # by place since the threads have met: how it was read and written
        self.ports = set()

    def _meet(self):
        super()._meet()
        self.touched = {}

    def _touch(self, how, sources, target):
        """Threads meet where one touches what another has written, or the other way round.

        Operations with packets agree on which thread has which part of a chunk, and so do those without.
        """
        sources = [self.program.place(c) for c in sources]
        targets = [self.program.place(target)] if target is not None else []
        clash = [p for p in sources if ("written", how) not in self.touched.get(p, {("written", how)})
                 and any(w == "written" for w, _ in self.touched[p])]
        clash += [p for p in targets if any(h != how for _, h in self.touched.get(p, ()))]
        if clash:
            self._meet()
        for place in sources:
            self.touched.setdefault(place, set()).add(("read", how))
        for place in targets:
            self.touched.setdefault(place, set()).add(("written", how))

    def _slot(self, slot):
        return slot * self.program.instances + self.instance

    def send(self, source, rank, slot, own):
        """Sends a chunk to a place in another rank's scratch, over a port from a place `own` in this rank's."""
        kind, channel = self.channels[rank]
        self._touch("packets", [source], None)
        target = self.block.remote(kind, rank, "s", self._slot(slot))
        if kind == "port":
            self.puts = None
            self.block.move("cpkt", [self._item(source)], [local("s", self._slot(own))])
            self.block.nop()
            self.block.move("ppkt", [local("s", self._slot(own))], [target], "port", [channel])
            self.ports.add(channel)
            return
        if self.puts is None:
            self.block.move("ppkt", [], [], "memory")
            self.puts = self.block.ops[-1]
        self.puts["src_buff"].append(self._item(source))
        self.puts["dst_buff"].append(target)

    def combine(self, operation, slots):
        """A copy or a reduction of what this rank has and what has come."""
        own = [c for c, slot in zip(operation.sources, slots) if slot is None]
        packets = [local("s", self._slot(slot)) for slot in slots if slot is not None]
        target = [self._item(operation.target)]
        self.puts = None
        if operation.kind == "copy":
            if packets:
                self._touch("packets", [], operation.target)
                self.block.move("upkt", packets, target)
            elif self.program.place(own[0]) != self.program.place(operation.target):
                self._touch("plain", own, operation.target)
                self.block.move("copy", [self._item(own[0])], target)
            return
        if len(own) > 1:
            self._touch("plain", own, operation.target)
            self.block.move("re", [self._item(c) for c in own], target, reduce_op="sum")
        if packets:
            self._touch("packets", [operation.target], operation.target)
            self.block.move("repkt", target + packets, target, reduce_op="sum")

    def leave(self, tell, hear):
        """Tells ranks that what they have sent was read, and waits to be told."""
        if self.ports:
            self._meet()
            self.block.sync("flush", "port", sorted(self.ports))
        if tell:
            self._meet()
            self._sync("signal", tell)
        if hear:
            self._sync("wait", hear)
