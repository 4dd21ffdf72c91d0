"""Random programs that are right: all-reduces by random trees, through scratch that is used again and again."""
from mscclpp_plans import Program


class _Scratch:
    """Chunks of scratch of each rank. What is given back is handed out again."""

    def __init__(self, ranks):
        self.free, self.used = [[] for _ in range(ranks)], [0] * ranks

    def take(self, random, rank, size):
        fitting = [index for index, room in self.free[rank] if room == size]
        if fitting and random.random() < 0.8:
            index = random.choice(fitting)
            self.free[rank].remove((index, size))
            return index
        self.used[rank] += size
        return self.used[rank] - size

    def give_back(self, chunk):
        if chunk.span.buffer == "s":
            self.free[chunk.span.rank].append((chunk.span.index, chunk.span.size))


def _copy(random, chunk, rank, buffer, index):
    """Copies chunks, now and then one by one."""
    size = chunk.span.size
    if size > 1 and random.random() < 0.3:
        for k in range(size):
            part = chunk.program.chunk(chunk.span.rank, chunk.span.buffer, chunk.span.index + k)
            part.copy(rank, buffer, index + k)
        return chunk.program.chunk(rank, buffer, index, size)
    return chunk.copy(rank, buffer, index)


def _combine(random, program, scratch, holders):
    """Combines two or three of the holders, and yields after each operation."""
    into = holders.pop(random.randrange(len(holders)))
    rank = into.span.rank
    if not program.inplace and into.span.buffer == "i":
        into = _copy(random, into, rank, "s", scratch.take(random, rank, into.span.size))
        yield
    others = []
    for _ in range(random.choice((1, 1, 2))):
        if holders:
            other = holders.pop(random.randrange(len(holders)))
            through_scratch = program.port(other.span.rank, rank) or random.random() < 0.3
            if other.span.rank != rank and through_scratch:
                bounced = _copy(random, other, rank, "s", scratch.take(random, rank, other.span.size))
                scratch.give_back(other)
                yield
                other = bounced
            others.append(other)
    into.reduce(*others)
    for other in others:
        scratch.give_back(other)
    holders.append(into)
    yield


def _allreduce(random, program, scratch, index, size):
    """All operations for some neighbouring chunks; yields where those for others may come between."""
    holders = [program.chunk(r, "i", index, size) for r in range(program.ranks)]
    while len(holders) > 1:
        yield from _combine(random, program, scratch, holders)
    have = holders[:]
    missing = [r for r in range(program.ranks) if not (program.inplace and have[0].span[:2] == (r, "i"))]
    random.shuffle(missing)
    for r in missing:
        source = random.choice(have)
        if random.random() < 0.2:
            source = _copy(random, source, r, "s", scratch.take(random, r, size))
            yield
        have.append(_copy(random, source, r, "o", index))
        yield


def random_program(random, **keys):
    """A random all-reduce; `keys` go to Program."""
    ranks, groups, node = random.randrange(1, 6), random.randrange(1, 4), random.randrange(1, 4)
    port = (lambda one, other: one // node != other // node) if random.random() < 0.4 else None
    program = Program("random", "allreduce", ranks, 2 * groups, random.random() < 0.5, port=port, **keys)
    scratch = _Scratch(ranks)
    running = [_allreduce(random, program, scratch, 2 * group, 2) for group in range(groups)]
    while running:
        one = random.choice(running)
        if next(one, running) is running:
            running.remove(one)
    return program
