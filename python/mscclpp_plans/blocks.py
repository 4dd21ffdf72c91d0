"""Assigns steps to blocks of threads, with the cost model that `mscclpp_plan show` also uses."""
import collections
import math
from typing import NamedTuple

# Microseconds, and bytes a microsecond. The values are those of mca/common/plan/trace.c. They predict no real machine.
OPERATION = 0.1  # time of each operation of a block, without its data
LATENCY = 1.0  # time of a signal or a packet to a peer
PORT = 3.0  # time of one request to a proxy, without its data
BLOCK_LOCAL, BLOCK_LINK = 60e3, 25e3  # rate of one block within its GPU, and to peers
GPU_LOCAL, GPU_LINK, GPU_PORT = 2000e3, 400e3, 40e3  # total rate of all blocks of a GPU, and of its ports
BLOCK = 0.02  # time that each block adds to a choice, since it takes threads from the application


class Choice(NamedTuple):
    """The values that the compiler chooses for a plan."""

    packets: bool
    blocks: int  # how many blocks share the steps of a rank
    instances: int  # how many copies of these blocks there are, each with its part of every chunk
    turn: int = 0  # bytes of a chunk in one turn of a pipeline; 0: there is no pipeline

    def __str__(self):
        return (f"{'packets' if self.packets else 'signals'}, {self.blocks} block{'s' if self.blocks > 1 else ''} a "
                f"rank, {self.instances} instance{'s' if self.instances > 1 else ''}"
                + (f", turns of {self.turn} bytes" if self.turn else ""))


def durations(step, chunk, blocks):
    """Returns how many microseconds a step keeps its block busy, and how many bytes it moves to or from peers.

    chunk: bytes of a chunk. blocks: how many blocks of a GPU share its rates.
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
    """Returns an estimate of the largest number of port channels of a rank, at least 1.

    In each instance, a rank has at most one port channel for each put, and at most one for each block and peer.
    """
    entries = collections.Counter(step.rank for step in steps if step.port)
    peers = collections.Counter(rank for rank, _ in {(step.rank, step.target.rank) for step in steps if step.port})
    return choice.instances * max((min(entries[rank], choice.blocks * peers[rank]) for rank in peers), default=1)


class _Clock:
    """Simulates blocks and ports: when each of them is free again, and when each step has ended. In microseconds."""

    def __init__(self, steps, choice, chunk):
        self.choice, self.chunk = choice, chunk
        self.blocks, self.ports = choice.blocks * choice.instances, _count_ports(steps, choice)
        # When ranks can begin: without packets they first receive signals that their peers have begun.
        self.begin = 0 if choice.packets else LATENCY + 4 * OPERATION
        self.free_at = {}  # by agent or port: when it is free again
        self.busy_us = collections.Counter()  # by agent or port: how long it works in all
        self.first_start = {}  # by agent: when its first step began
        # By step: when it ended for its block, when its data arrived, and which block carried it out.
        self.ended, self.arrived, self.block = {}, {}, {}
        self.signalling = {other for step in steps for other, reason in step.before.items()
                     if other.rank != step.rank and not (choice.packets and reason == "RAW")}  # steps that signal

    def start(self, step, block):
        """Returns when a block could begin a step, and how many of the steps before it the block carries out itself.

        For a step of another rank, the block needs a signal and a wait, or only the latency of a packet. For a step of
        another block of its rank, it needs a semaphore. The data of a port have arrived when the proxy is done, so no
        LATENCY is added. The steps before this one have been run, so `arrived`, `ended` and `block` contain them.
        """
        # Without packets, a peer behind a port signals through this port that it has begun.
        ready, waits, own_before = PORT + 2 * OPERATION if step.port and self.begin else self.begin, False, 0
        for other, reason in step.before.items():
            if other.rank != step.rank:
                by_packet = self.choice.packets and reason == "RAW"
                ready = max(ready, self.arrived[other] + (0 if other.port else LATENCY)
                            + (0 if by_packet else 2 * OPERATION))
                waits = waits or not by_packet
            elif self.block[other] != block:
                ready, waits = max(ready, self.ended[other] + 2 * OPERATION), True
            else:
                ready, own_before = max(ready, self.ended[other]), own_before + 1
        start = max(ready, self.free_at.get((step.rank, block), self.begin))
        return start + (2 * OPERATION if waits else 0), own_before

    def run(self, step, block, start):
        """Lets a block carry out a step that begins at `start`.

        For a put through a port, the block continues after its request to the proxy. The proxy carries out the puts of
        a port one after another, and all ports of a GPU share the rate GPU_PORT.
        """
        busy, far_bytes = durations(step, self.chunk, self.blocks)
        busy += 2 * OPERATION if step in self.signalling and not step.port else 0
        agent = step.rank, block
        self.first_start.setdefault(agent, start)
        self.block[step], self.ended[step], self.arrived[step] = block, start + busy, start + busy
        self.free_at[agent] = start + busy
        self.busy_us[agent] += busy + (2 * OPERATION if step.before else 0)
        if step.port:
            port = agent, step.target.rank
            entry = PORT + far_bytes * self.ports / GPU_PORT
            self.free_at[port] = self.arrived[step] = max(start + busy, self.free_at.get(port, 0)) + entry
            self.busy_us[port] += entry

    def busiest(self):
        """Returns the longest time that a block or a port needs for one turn.

        A block begins a turn when it has ended the previous turn, while a port continues without a pause.
        """
        return max([self.free_at[agent] - start for agent, start in self.first_start.items()]
                   + [work for owner, work in self.busy_us.items() if owner not in self.first_start], default=0)

    def load(self, step, block):
        """Returns how much work a block has so far, together with its port if the step goes through one."""
        port = (step.rank, block), step.target.rank
        return self.busy_us[step.rank, block] + (self.busy_us[port] if step.port else 0)


def place(steps, choice, chunk, assign=True):
    """Chooses a block for each step, and stores it in the step unless `assign` is false.

    Returns two times, in microseconds: of all steps, and of the busiest block or port. In the list, each step has to
    come after the steps for which it waits.

    Without a pipeline, a step is assigned to the block that can begin it first. If several blocks can, it is the block
    that has carried out most of the steps for which this step waits, and then the block with the least work. With a
    pipeline, blocks get equal work, since blocks may be in different turns at the same time. chunk: bytes of one chunk
    of an instance, in one turn.
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
    """Returns how many microseconds a plan takes, and assigns blocks to its steps unless `assign` is false.

    chunk: bytes of a chunk, of all instances together. In a pipeline, each turn after the first one adds the time of
    the busiest block or port.
    """
    chunk = max(1, chunk // choice.instances)
    if not choice.turn:
        return place(steps, choice, chunk, assign)[0]
    first, busiest = place(steps, choice, choice.turn, assign)
    return first + (math.ceil(chunk / choice.turn) - 1) * busiest


def choices(program, chunk, packets):
    """Yields all choices that the program allows, for chunks of `chunk` bytes.

    Choices with more blocks than `most_blocks` are left out, unless the program sets both `blocks` and `instances`.
    """
    for blocks in program.blocks or (1, 2, 3, 4, 8, 16):
        for instances in program.instances or (1, 2, 4, 8, 16, 32):
            if blocks * instances > program.most_blocks and not (program.blocks and program.instances):
                continue
            turns = [program.pipeline] if program.pipeline is not None else [0]
            if program.pipeline is None and not packets:
                # About eight turns. In turns of less than 16 KiB, some of a block's threads would have no work.
                turn = 1 << max(14, (chunk // instances // 8).bit_length() - 1)
                turns += [turn] if 2 * turn <= chunk // instances else []
            for turn in turns:
                yield Choice(packets, blocks, instances, turn)
