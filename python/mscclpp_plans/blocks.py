"""Gives steps to blocks of threads, by a cost model that `mscclpp_plan show` uses, too."""
import collections
import math
from typing import NamedTuple

# Microseconds, and bytes a microsecond. They are those of mca/common/plan/trace.c, and no forecast of a machine.
OPERATION = 0.1  # time of each operation of a block, besides its data
LATENCY = 1.0  # time of a signal or a packet to a peer
PORT = 3.0  # time of one request to a proxy, besides its data
BLOCK_LOCAL, BLOCK_LINK = 60e3, 25e3  # what one block moves within its GPU, and to peers
GPU_LOCAL, GPU_LINK, GPU_PORT = 2000e3, 400e3, 40e3  # what all blocks of a GPU move together
BLOCK = 0.02  # time that each block adds to a choice, since it takes threads from the application


class Choice(NamedTuple):
    """What the compiler chooses for a plan."""

    packets: bool
    blocks: int  # how many share the steps of a rank
    instances: int  # how many times these blocks are there, each time with a part of every chunk
    turn: int = 0  # bytes of a chunk in one turn of a pipeline; 0: there is no pipeline

    def __str__(self):
        return (f"{'packets' if self.packets else 'signals'}, {self.blocks} block{'s' if self.blocks > 1 else ''} a "
                f"rank, {self.instances} instance{'s' if self.instances > 1 else ''}"
                + (f", turns of {self.turn} bytes" if self.turn else ""))


def durations(step, chunk, blocks):
    """Returns how many microseconds a step keeps its block busy, and how many bytes it moves to or from peers.

    chunk: bytes of a chunk. blocks: how many blocks of a GPU share what it can move.
    """
    near_bytes = far_bytes = 0
    for span in [*step.sources, step.target, *step.also]:
        size = span.size * chunk * (2 if span.buffer == "p" else 1)  # packets are twice as large as their data
        if span.rank == step.rank:
            near_bytes += size
        else:
            far_bytes += size
    if step.port:  # the block only asks the proxy, whose own time _Clock.run adds
        return OPERATION, far_bytes
    return (OPERATION + near_bytes / min(BLOCK_LOCAL, GPU_LOCAL / blocks)
            + far_bytes / min(BLOCK_LINK, GPU_LINK / blocks), far_bytes)


def _count_ports(steps, choice):
    """Returns about how many port channels a GPU has, at least 1: those of the rank that has the most.

    A rank has no more than one for each put, and no more than one for each block and peer, in each instance.
    """
    entries = collections.Counter(step.rank for step in steps if step.port)
    peers = collections.Counter(rank for rank, _ in {(step.rank, step.target.rank) for step in steps if step.port})
    return choice.instances * max((min(entries[rank], choice.blocks * peers[rank]) for rank in peers), default=1)


class _Clock:
    """Simulates blocks and ports: when each of them is free again, and when each step has ended. In microseconds."""

    def __init__(self, steps, choice, chunk):
        self.choice, self.chunk = choice, chunk
        self.blocks, self.ports = choice.blocks * choice.instances, _count_ports(steps, choice)
        # When ranks can begin: without packets they first hear that their peers have begun.
        self.begin = 0 if choice.packets else LATENCY + 4 * OPERATION
        self.free, self.work = {}, collections.Counter()  # by agent or port: when it is free again, how long it works
        self.first = {}  # by agent: when its first step began
        # By step: when it ended for its block, when its data were there, and which block did it.
        self.ended, self.arrived, self.block = {}, {}, {}
        self.told = {other for step in steps for other, why in step.before.items()
                     if other.rank != step.rank and not (choice.packets and why == "RAW")}  # steps that signal

    def start(self, step, block):
        """Returns when a block could begin a step, and how many of the steps before it the block does itself.

        What another rank did takes a signal and a wait, or only the way of a packet; what another block of the rank did
        takes a semaphore. What a port did has arrived when the proxy was done, so it takes no LATENCY on top. The steps
        before this one have been run, so `arrived`, `ended` and `block` have them.
        """
        # Without packets the peer behind a port says through that port that it has begun.
        ready, waits, own_before = PORT + 2 * OPERATION if step.port and self.begin else self.begin, False, 0
        for other, why in step.before.items():
            if other.rank != step.rank:
                by_packet = self.choice.packets and why == "RAW"
                ready = max(ready, self.arrived[other] + (0 if other.port else LATENCY)
                            + (0 if by_packet else 2 * OPERATION))
                waits = waits or not by_packet
            elif self.block[other] != block:
                ready, waits = max(ready, self.ended[other] + 2 * OPERATION), True
            else:
                ready, own_before = max(ready, self.ended[other]), own_before + 1
        return max(ready, self.free.get((step.rank, block), self.begin)) + (2 * OPERATION if waits else 0), own_before

    def run(self, step, block, start):
        """Lets a block do a step that begins at `start`.

        The block goes on once it has asked the proxy for a put. The proxy carries out the puts of a port one after
        another, and all ports of a GPU share GPU_PORT.
        """
        busy, far_bytes = durations(step, self.chunk, self.blocks)
        busy += 2 * OPERATION if step in self.told and not step.port else 0
        agent = step.rank, block
        self.first.setdefault(agent, start)
        self.block[step], self.ended[step], self.arrived[step] = block, start + busy, start + busy
        self.free[agent] = start + busy
        self.work[agent] += busy + (2 * OPERATION if step.before else 0)
        if step.port:
            port = agent, step.target.rank
            entry = PORT + far_bytes * self.ports / GPU_PORT
            self.free[port] = self.arrived[step] = max(start + busy, self.free.get(port, 0)) + entry
            self.work[port] += entry

    def busiest(self):
        """Returns the longest time that a block or a port needs for one turn.

        A block begins a turn when it has ended the one before, while a port works on without a pause.
        """
        return max([self.free[agent] - start for agent, start in self.first.items()]
                   + [work for owner, work in self.work.items() if owner not in self.first], default=0)

    def load(self, step, block):
        """Returns how much work a block has so far, together with its port if the step goes through one."""
        port = (step.rank, block), step.target.rank
        return self.work[step.rank, block] + (self.work[port] if step.port else 0)


def place(steps, choice, chunk, assign=True):
    """Gives each step a block, unless `assign` is false.

    Returns two times, in microseconds: of all steps, and of the busiest block or port. Each step has to stand behind
    those that come before it, since it begins after them.

    Without a pipeline a step goes to the block that can begin it first; of several, to the one that has itself done
    most of what the step waits for, then to the one with the least work. With a pipeline, blocks get equal work, since
    blocks may be in different turns at one time. chunk: bytes of one chunk of an instance, in one turn.
    """
    clock = _Clock(steps, choice, chunk)
    for step in steps:
        best = None
        for block in range(choice.blocks):
            start, own_before = clock.start(step, block)
            load = clock.load(step, block)
            # Times are rounded, so that the last digits of sums do not decide between equal ones.
            preference = (load, block) if choice.turn else (round(start, 3), -own_before, load, block)
            if best is None or preference < best[0]:
                best = preference, block, start
        clock.run(step, *best[1:])
    if assign:
        for step in steps:
            step.block = clock.block[step]
    return max(clock.arrived.values(), default=0) + clock.begin, clock.busiest()


def estimate(steps, choice, chunk, assign=True):
    """Returns how many microseconds a plan takes, and gives its steps blocks unless `assign` is false.

    chunk: bytes of a chunk, of all instances together. In a pipeline, each turn after the first adds the time of the
    busiest block or port.
    """
    chunk = max(1, chunk // choice.instances)
    if not choice.turn:
        return place(steps, choice, chunk, assign)[0]
    first, busiest = place(steps, choice, choice.turn, assign)
    return first + (math.ceil(chunk / choice.turn) - 1) * busiest


def choices(program, chunk, packets):
    """Yields all choices that the program leaves open, for chunks of `chunk` bytes.

    Those with more blocks than `most_blocks` are left out, unless the program gives both `blocks` and `instances`.
    """
    for blocks in program.blocks or (1, 2, 3, 4, 8, 16):
        for instances in program.instances or (1, 2, 4, 8, 16, 32):
            if blocks * instances > program.most_blocks and not (program.blocks and program.instances):
                continue
            turns = [program.pipeline] if program.pipeline is not None else [0]
            if program.pipeline is None and not packets:
                # About eight turns. Below 16 KiB some of a block's threads have nothing to do.
                turn = 1 << max(14, (chunk // instances // 8).bit_length() - 1)
                turns += [turn] if 2 * turn <= chunk // instances else []
            for turn in turns:
                yield Choice(packets, blocks, instances, turn)
