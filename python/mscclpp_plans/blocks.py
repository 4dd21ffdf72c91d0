"""Which block of threads does which step, by a cost model that `mscclpp_plan show` uses, too."""
import math
from typing import NamedTuple

# Microseconds, and bytes a microsecond. They are those of mca/common/plan/trace.c, and no forecast of a machine.
OPERATION = 0.1  # each operation of a block
LATENCY = 1.0  # of a signal or a packet to a peer
PORT = 3.0  # of one entry of a proxy
BLOCK_LOCAL, BLOCK_LINK = 60e3, 25e3  # what one block moves within its GPU, and to peers
GPU_LOCAL, GPU_LINK, GPU_PORT = 2000e3, 400e3, 40e3  # what all blocks of a GPU move together
BLOCK = 0.02  # what a block takes from the application


class Choice(NamedTuple):
    """What is free to choose for a plan."""

    packets: bool
    blocks: int  # that share the steps of a rank
    instances: int  # how often these blocks are there, each time with a part of every chunk
    turn: int = 0  # bytes of a chunk in one turn of a pipeline; 0: there is no pipeline

    def __str__(self):
        return (f"{'packets' if self.packets else 'signals'}, {self.blocks} block{'s' if self.blocks > 1 else ''} a "
                f"rank, {self.instances} instance{'s' if self.instances > 1 else ''}"
                + (f", turns of {self.turn} bytes" if self.turn else ""))


def durations(step, chunk, blocks):
    """How long a step takes its block, and after how long its results are at their places.

    chunk: bytes. blocks: of one GPU, which share what it can move.
    """
    near = far = 0
    for span in [*step.sources, step.target, *step.also]:
        size = span.size * chunk * (2 if span.buffer == "p" else 1)
        if span.rank == step.rank:
            near += size
        else:
            far += size
    if step.port:
        return OPERATION, PORT + far * blocks / GPU_PORT
    busy = (OPERATION + near / min(BLOCK_LOCAL, GPU_LOCAL / blocks) + far / min(BLOCK_LINK, GPU_LINK / blocks))
    return busy, busy


def place(steps, choice, chunk, assign=True):
    """Gives each step a block. Returns how long all takes, and how long the busiest block works.

    Without a pipeline a step goes where it can begin first. With one, blocks get equal work: while one is busy with
    this turn, another one is with the next. chunk: bytes of one chunk of an instance, in one turn.
    """
    blocks = choice.blocks * choice.instances
    handshake = LATENCY + 4 * OPERATION
    begin = 0 if choice.packets else handshake
    free, work, ended, where = {}, {}, {}, {}
    for step in steps:
        busy, arrival = durations(step, chunk, blocks)
        best = None
        for block in range(choice.blocks):
            ready, waits, near = begin, 0, 0
            for other, why in step.before.items():
                other_end, other_arrival = ended[other]
                if other.rank != step.rank:
                    by_packet = choice.packets and why == "RAW"
                    ready = max(ready, other_arrival + LATENCY + (0 if by_packet else 2 * OPERATION))
                    waits += not by_packet
                elif where[other] != block:
                    ready = max(ready, other_end + 2 * OPERATION)
                    waits += 1
                else:
                    ready, near = max(ready, other_end), near + 1
            start = max(ready, free.get((step.rank, block), begin)) + (2 * OPERATION if waits else 0)
            load = work.get((step.rank, block), 0)
            rank = (load, block) if choice.turn else (round(start, 3), -near, load, block)
            if best is None or rank < best[0]:
                best = rank, block, start
        _, block, start = best
        agent = step.rank, block
        where[step], ended[step] = block, (start + busy, start + arrival)
        free[agent] = start + busy
        work[agent] = work.get(agent, 0) + busy + (2 * OPERATION if step.before else 0)
    if assign:
        for step in steps:
            step.block = where[step]
    return max([arrival for _, arrival in ended.values()], default=0) + begin, max(work.values(), default=0)


def estimate(steps, choice, chunk, assign=True):
    """How many microseconds a plan takes whose chunks have so many bytes, those of all instances together."""
    chunk = max(1, chunk // choice.instances)
    if not choice.turn:
        return place(steps, choice, chunk, assign)[0]
    first, busiest = place(steps, choice, choice.turn, assign)
    return first + (math.ceil(chunk / choice.turn) - 1) * busiest


def choices(program, chunk, packets):
    """All choices that the program leaves open, for chunks of so many bytes."""
    for blocks in program.blocks or (1, 2, 4, 8, 16):
        for instances in program.instances or (1, 2, 4, 8, 16, 32):
            if blocks * instances > program.most_blocks and not (program.blocks and program.instances):
                continue
            turns = [program.pipeline] if program.pipeline is not None else [0]
            if program.pipeline is None and not packets:
                # About eight turns, of 4 KiB at least.
                turn = 1 << max(12, (chunk // instances // 8).bit_length() - 1)
                turns += [turn] if 2 * turn <= chunk // instances else []
            for turn in turns:
                yield Choice(packets, blocks, instances, turn)
