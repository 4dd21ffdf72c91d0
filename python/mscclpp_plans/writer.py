"""Writes the blocks of a plan. The threads of a block synchronise, at a nop, only where it is necessary."""
from .channels import Rank, assemble, local
from .limits import Limits
from .sync import CREDITS


def write(program, steps, slots, choice, sync):
    """Returns the plan as a dictionary for json.dump.

    slots: how many slots for packets a rank has. Raises ValueError if turns do not fit into the scratch.
    """
    instances = choice.instances
    scratch = instances * max(program.counts["s"], slots)
    if choice.turn and program.keys.get("reuse_resources"):
        scratch = _ring_chunks(program, scratch, choice.turn)
    counts = [instances * program.counts["i"], instances * program.counts["o"], scratch]
    ranks = [Rank(rank, *counts) for rank in range(program.ranks)]
    points = [point for agent in sync.agents for point in sync.agent_points[agent]]
    signals = {(point.agent, other) for point in points for other in point.signals}
    credits_ = {(point.agent, other) for point in points for other in point.credits_to}
    puts = {(step.agent, sync.far_agents[step]) for step in steps if step.port}
    for instance in range(instances):
        writers = {agent: _Writer(program, ranks[agent[0]], choice, instance) for agent in sync.agents}
        _connect(program, writers, signals | puts, credits_)
        for agent, writer in writers.items():
            for point in sync.agent_points[agent]:
                writer.write(point, sync)
            writer.end()
    keys = dict(program.keys, use_double_scratch_buffer=True) if choice.packets else program.keys
    return assemble(program.name, program.collective, ranks, "LL" if choice.packets else "Simple", program.inplace,
                    **keys)


def _connect(program, writers, signals, credits_):
    """Makes the channels between blocks of two ranks, and the semaphores between blocks of one rank.

    signals, credits_: pairs of agents. The k-th channels of two ranks to each other are connected, so the channels of
    both sides are made together.
    """
    def channels(writer, other):
        """Makes a channel from each of two writers' ranks to the other. Returns (type, number) of both channels."""
        rank, other_rank = writer.rank, other.rank
        kind = "port" if program.port(rank.number, other_rank.number) else "memory"
        return (kind, rank.channel(kind, other_rank.number)), (kind, other_rank.channel(kind, rank.number))

    for agent, other in sorted({tuple(sorted(pair)) for pair in signals if pair[0][0] != pair[1][0]}):
        writer, other_writer = writers[agent], writers[other]
        writer.channels[other], other_writer.channels[agent] = channels(writer, other_writer)
    for agent, other in sorted(pair for pair in signals if pair[0][0] == pair[1][0]):
        writers[agent].releases[other] = writers[other].acquires[agent] = writers[agent].rank.semaphore(0)
    for agent, other in sorted(credits_):
        giver, taker = writers[agent], writers[other]
        if agent[0] == other[0]:
            giver.credits_to[other] = taker.credits_from[agent] = "semaphore", giver.rank.semaphore(CREDITS)
        else:
            giver.credits_to[other], taker.credits_from[agent] = channels(giver, taker)


def _ring_chunks(program, chunks, turn):
    """Returns how many chunks the scratch has if the turns of a loop use it as a ring.

    A chunk needs room for a whole number of turns, and for at least CREDITS turns. The size of the scratch is a power
    of 2, so the number of chunks is rounded up to a power of 2, and the bytes of a turn have to be a power of 2, too.
    Raises ValueError if they are not, or if turns are too large.
    """
    chunks = 1 << max(0, chunks - 1).bit_length()
    room = Limits.SCRATCH // chunks
    if turn & (turn - 1) or room < CREDITS * turn:
        raise ValueError(f"{program.name}: turns of {turn} bytes do not fit into {chunks} chunks of scratch; allowed "
                         f"are powers of 2 up to {room // CREDITS}")
    return chunks


def _batches(items, size):
    """Divides a list into lists of at most `size` items."""
    return [items[start:start + size] for start in range(0, len(items), size)]


class _Writer:
    """Writes one block of one instance, point by point."""

    def __init__(self, program, rank, choice, instance):
        self.rank, self.choice, self.instance = rank, choice, instance
        self.block, self.outer = rank.block(), None  # outer: the operations before the loop that is being written
        self.is_portable = program.portable
        self.channels = {}  # by agent: the type and the number of the channel
        self.releases, self.acquires = {}, {}  # by agent of this rank: the semaphore that is released, or acquired
        # By agent to which credits go, or from which they come: ("memory", "port" or "semaphore", number).
        self.credits_to, self.credits_from = {}, {}
        # For each place, the accesses since the threads last synchronised: (whether it was written, by which thread).
        # Empty: no operation was appended since then.
        self.accesses = {}
        self.open_op, self.open_key = None, None  # the last operation, if pairs can be added to it, and its key

    def _limit(self, limit):
        """Returns a limit of MSCCL++'s executor if the plan is portable, or else a number that is never exceeded."""
        return limit if self.is_portable else 1 << 30

    def write(self, point, sync):
        """Writes the operations of the block at one point.

        At a step, the block first waits, and signals at the end. At its begin and its end, it signals before it waits,
        because two blocks may wait for each other there.
        """
        if point.step and self.choice.turn and self.outer is None:
            # All steps are in one loop. It starts after the begin point, where the block has waited for other ranks.
            self.outer, self.block.ops = self.block.ops, []
        elif point.number and not point.step:
            self.end()
        signals = list(point.signals)
        self._flush(point.flush_before)
        if point.step:
            self._wait(point.waits)
            self._take_credits(point.credits_from)
            self._write_step(point, sync, signals)
        self._flush(point.flush_after)
        self._signal(signals)
        self._give_credits(point.credits_to)
        if not point.step:
            self._wait(point.waits)
            self._take_credits(point.credits_from)

    def end(self):
        """Ends the loop, if the block is in a loop. A block without operations gets a nop. May be called repeatedly."""
        if self.outer is not None:
            body, self.block.ops = self.block.ops, self.outer
            self._op("pipeline", iter_context={"unit_size": self.choice.turn, "num_chunks": 1}, ops=body)
            self.outer = None
        if not self.block.ops:
            self._op("nop")

    def _op(self, name, **keys):
        """Writes an operation with which later operations cannot be combined."""
        self.open_op = None
        self.block.op(name, **keys)

    def _sync_threads(self):
        """Synchronises all threads of the block, unless there was no operation since they last synchronised."""
        if self.accesses:
            self._op("nop")
        self.accesses = {}

    @staticmethod
    def _threads(division, spans):
        """Returns pairs of a place of the spans and the thread that accesses the place.

        Packets are left out, since a reader of packets waits for them. A thread is named by `division`, which is the
        way in which the operation assigns parts of chunks to threads, and by the chunk's position in its span. If two
        names are equal, the same threads access the same parts.
        """
        return [(place, (division, index)) for span in spans if span.buffer != "p"
                for index, place in enumerate(span.places())]

    def _sync_readers(self, division, sources):
        """Synchronises the threads if one of them reads a place that another one has written since the last nop."""
        for place, thread in self._threads(division, sources):
            if any(wrote and other != thread for wrote, other in self.accesses.get(place, ())):
                self._sync_threads()

    def _record(self, division, sources, targets):
        """Records the places that an operation accesses. If necessary, synchronises the threads before it."""
        self._sync_readers(division, sources)
        for place, thread in self._threads(division, targets):
            if any(other != thread for _, other in self.accesses.get(place, ())):
                self._sync_threads()
        for wrote, spans in ((False, sources), (True, targets)):
            for place, thread in self._threads(division, spans):
                self.accesses.setdefault(place, set()).add((wrote, thread))
        self.accesses.setdefault(None, set())  # so that `accesses` is not empty, even if only packets were accessed

    def _channel_op(self, name, agents):
        """Writes a signal, wait or flush on the channels to some agents, in several operations if limits require it."""
        for kind in ("memory", "port"):
            numbers = [self.channels[agent][1] for agent in agents if self.channels[agent][0] == kind]
            for batch in _batches(numbers, self._limit(Limits.IDS)):
                self.open_op = None
                self.block.sync(name, kind, batch)

    def _semaphores(self, name, numbers):
        """Writes an acquire or a release of semaphores, in several operations if limits require it."""
        for batch in _batches(numbers, self._limit(Limits.SEMAPHORES)):
            self._op(name, semaphore_ids=batch)

    def _wait(self, agents):
        """Waits for signals of agents. The threads synchronise afterwards."""
        if agents:
            self._channel_op("wait", sorted(agent for agent in agents if agent in self.channels))
            self._semaphores("sem_acquire",
                             [self.acquires[agent] for agent in sorted(agents) if agent in self.acquires])
            self._op("nop")
            self.accesses = {}

    def _signal(self, agents):
        """Signals agents, after all threads have synchronised."""
        if agents:
            self._sync_threads()
            self._channel_op("signal", sorted(agent for agent in agents if agent in self.channels))
            self._semaphores("sem_release",
                             [self.releases[agent] for agent in sorted(agents) if agent in self.releases])

    def _give_credits(self, agents):
        """Gives credits to agents, one for each entry, after all threads have synchronised."""
        if agents:
            self._sync_threads()
        for kind, number in map(self.credits_to.get, agents):
            self._credit("signal", "sem_release", kind, number)

    def _take_credits(self, agents):
        """Takes credits of agents, one for each entry. The threads synchronise afterwards."""
        for kind, number in map(self.credits_from.get, agents):
            self._credit("wait", "sem_acquire", kind, number)
        if agents:
            self._op("nop")
            self.accesses = {}

    def _credit(self, channel_op, semaphore_op, kind, number):
        """Gives or takes one credit, over a channel or by a semaphore."""
        if kind == "semaphore":
            self._op(semaphore_op, semaphore_ids=[number])
        else:
            self.open_op = None
            self.block.sync(channel_op, kind, [number])

    def _flush(self, agents):
        """Waits until all puts through the ports to agents are done. The threads synchronise before and afterwards."""
        if agents:
            self._sync_threads()
            self._channel_op("flush", sorted(set(agents)))
            self._op("nop")

    def _item(self, span, kind="memory"):
        """Returns a span of this instance as an operand. kind: the type of the channel to a peer's memory."""
        buffer, index = "s" if span.buffer == "p" else span.buffer, span.index * self.choice.instances + self.instance
        if span.rank == self.rank.number:
            return local(buffer, index, span.size)
        return self.block.remote(kind, span.rank, buffer, index, span.size)

    def _write_step(self, point, sync, signals):
        """Writes the operations of a step. If a put also sends a signal, the signal is removed from `signals`."""
        step = point.step
        if step.kind == "reduce":
            self._reduce(step)
        elif step.port:
            self._port(point, sync.far_agents[step], signals)
        elif step.kind in ("put", "send", "pass"):
            self._put(step)
        else:
            name = {"copy": "copy", "pack": "cpkt", "unpack": "upkt"}[step.kind]
            self._record("plain" if name == "copy" else "packets", step.sources, [step.target])
            self._move(name, step.sources, [step.target])

    def _move(self, name, sources, targets, **keys):
        """Writes an operation on spans, with which later operations cannot be combined."""
        self.open_op = None
        self.block.move(name, [self._item(span) for span in sources], [self._item(span) for span in targets], **keys)

    def _port(self, point, far_agent, signals):
        """Writes a put through the port to `far_agent`. If possible, the put also sends the signal to this agent.

        This is not possible if packets are forwarded, or if puts to other agents have to be flushed before the signals.
        """
        step = point.step
        kind, channel = self.channels[far_agent]
        name = "rppkt" if step.kind == "pass" else "put"
        if far_agent in signals and name == "put" and set(point.flush_after) <= {far_agent}:
            # The signal tells that all earlier work of the block is done, so its threads synchronise before the signal.
            signals.remove(far_agent)
            name = "pws"
            self._sync_threads()
        # A step that later writes the source flushes first, so this read is not recorded. The proxy is not one of the
        # threads, so the threads synchronise if any of them has written the source.
        self._sync_readers("proxy", step.sources)
        self.open_op = None
        self.block.move(name, [self._item(step.sources[0])], [self._item(step.target, kind)], kind, [channel])

    def _put(self, step):
        """Writes a put or an operation that sends packets. Consecutive operations of one kind are combined into one.

        They are combined if their sources are in the same buffer and have the same size; operations that forward
        packets must have the same source.
        """
        name = {"put": "put", "send": "ppkt", "pass": "rppkt"}[step.kind]
        self._record("plain" if name == "put" else "packets", step.sources, [step.target])
        source = self._item(step.sources[0])
        key = (name, source["size"], source["type"], source["index"] if name == "rppkt" else None)
        if self.open_op is None or self.open_key != key or len(self.open_op["dst_buff"]) >= self._limit(Limits.ITEMS):
            self.block.move(name, [source], [], "memory")
            self.open_op, self.open_key = self.block.ops[-1], key
        elif name != "rppkt":
            self.open_op["src_buff"].append(source)
        self.open_op["dst_buff"].append(self._item(step.target))

    def _reduce(self, step):
        """Combines the rank's own sources first, and then the sources of peers or from packets.

        The first source of a reduction belongs to the rank itself. An operation combines either sources of the rank
        itself or sources of peers, and the limits of a portable plan apply to their number. So there may be several
        rounds. Each round after the first one continues with the result in the target, and the last one also writes to
        `also`.
        """
        near = [span for span in step.sources if span.rank == step.rank and span.buffer != "p"]
        far = [span for span in step.sources if span.rank != step.rank or span.buffer == "p"]
        most = self._limit(Limits.ITEMS) - 1  # sources of an operation besides the accumulated result
        rounds = [(False, batch) for batch in _batches(near[1:], most)]
        rounds += [(True, batch) for batch in _batches(far, most)]
        accumulated = near[0]
        for index, (is_far, batch) in enumerate(rounds):
            also = step.also if index == len(rounds) - 1 else []
            self._combine(is_far, [accumulated, *batch], [step.target, *also])
            accumulated = step.target

    def _combine(self, is_far, sources, targets):
        """Writes one operation that combines. Its name depends on the places of the sources and of the result.

        is_far: the sources except for the first one belong to peers, or are packets.

        Without packets, re reads and writes own memory, rre reads peers, and res and rres also put the result to peers.
        With packets, recpkt also stores the result in a slot of this rank, respkt sends it to peers, and recspkt does
        both. Operations that reach peers also name the type of the channels. All other operations read packets in slots
        of the rank itself.
        """
        packets, also = any(span.buffer == "p" for span in sources), targets[1:]
        keys = {"reduce_op": "sum"}
        if packets:
            # The result also goes to a slot of this rank.
            has_own_slot = bool(also) and also[0].rank == self.rank.number
            if not has_own_slot:
                name = "respkt" if also else "repkt"
            else:
                name = "recpkt" if len(also) == 1 else "recspkt"
        else:
            name = ("rres" if also else "rre") if is_far else ("res" if also else "re")
        if name not in ("re", "repkt", "recpkt"):
            keys["kind"] = "memory"
        self._record("packets" if packets else "plain", sources, targets)
        self._move(name, sources, targets, **keys)
