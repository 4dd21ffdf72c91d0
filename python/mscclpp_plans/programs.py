"""The classic algorithms. Each function returns a Program; `instances` and other keys go to it."""
from .chunks import Program


def allreduce_oneshot(ranks, **keys):
    """Every rank combines all inputs by itself."""
    p = Program("allreduce_oneshot", "allreduce", ranks, **keys)
    for r in range(ranks):
        mine = p.chunk(r, "i", 0).copy(r, "o", 0)
        mine.reduce(*[p.chunk((r + distance) % ranks, "i", 0) for distance in range(1, ranks)])
    return p


def allreduce_twophase(ranks, **keys):
    """Rank r combines chunk r and gives it to all."""
    p = Program("allreduce_twophase", "allreduce", ranks, chunks=ranks, inplace=True, **keys)
    for r in range(ranks):
        p.chunk(r, "i", r).reduce(*[p.chunk((r + distance) % ranks, "i", r) for distance in range(1, ranks)])
    for r in range(ranks):
        for distance in range(1, ranks):
            p.chunk(r, "i", r).copy((r + distance) % ranks, "i", r)
    return p


def allreduce_ring(ranks, **keys):
    """Chunks go around the ring once to be combined, and once more to be given to all."""
    p = Program("allreduce_ring", "allreduce", ranks, chunks=ranks, inplace=True, **keys)
    for step in range(1, ranks):
        for chunk in range(ranks):
            r = (chunk + step) % ranks
            p.chunk(r, "i", chunk).reduce(p.chunk((r - 1) % ranks, "i", chunk))
    for step in range(ranks - 1):
        for chunk in range(ranks):
            r = (chunk + ranks - 1 + step) % ranks
            p.chunk(r, "i", chunk).copy((r + 1) % ranks, "i", chunk)
    return p


def allreduce_halving(ranks, **keys):
    """Recursive halving, then doubling, of 2, 4, 8, ... ranks."""
    if ranks & (ranks - 1):
        raise ValueError(f"{ranks} ranks; allowed are powers of 2")
    p = Program("allreduce_halving", "allreduce", ranks, chunks=ranks, inplace=True, **keys)
    # held: the chunks that each rank combines, later those that it has combined.
    distance, held = ranks // 2, {r: range(ranks) for r in range(ranks)}
    while distance > 0:
        for r in range(ranks):
            half = len(held[r]) // 2
            held[r] = held[r][half:] if r & distance else held[r][:half]
        for r in range(ranks):
            for chunk in held[r]:
                p.chunk(r, "i", chunk).reduce(p.chunk(r ^ distance, "i", chunk))
        distance //= 2
    distance = 1
    while distance < ranks:
        for r in range(ranks):
            for chunk in held[r]:
                p.chunk(r, "i", chunk).copy(r ^ distance, "i", chunk)
        held = {r: sorted([*held[r], *held[r ^ distance]]) for r in range(ranks)}
        distance *= 2
    return p


def allreduce_hierarchical(nodes, gpus, **keys):
    """GPU g of each node combines chunk g of the node, then that of all nodes' GPUs g, and gives it to its node."""
    p = Program("allreduce_hierarchical", "allreduce", nodes * gpus, chunks=gpus, inplace=True,
                port=lambda a, b: a // gpus != b // gpus, **keys)
    for r in range(nodes * gpus):
        node, gpu = divmod(r, gpus)
        p.chunk(r, "i", gpu).reduce(*[p.chunk(node * gpus + (gpu + distance) % gpus, "i", gpu)
                                      for distance in range(1, gpus)])
    for r in range(nodes * gpus):
        node, gpu = divmod(r, gpus)
        for distance in range(1, nodes):
            p.chunk(r, "i", gpu).copy((node + distance) % nodes * gpus + gpu, "s", node)
    for r in range(nodes * gpus):
        node, gpu = divmod(r, gpus)
        p.chunk(r, "i", gpu).reduce(*[p.chunk(r, "s", (node + distance) % nodes) for distance in range(1, nodes)])
        for distance in range(1, gpus):
            p.chunk(r, "i", gpu).copy(node * gpus + (gpu + distance) % gpus, "i", gpu)
    return p


def allgather_direct(ranks, **keys):
    """Every rank puts its block into the outputs of all."""
    p = Program("allgather_direct", "allgather", ranks, **keys)
    for r in range(ranks):
        for distance in range(ranks):
            p.chunk(r, "i", 0).copy((r + distance) % ranks, "o", r)
    return p


def allgather_ring(ranks, **keys):
    """Blocks go around the ring; each rank passes on what it has got last."""
    p = Program("allgather_ring", "allgather", ranks, **keys)
    for r in range(ranks):
        p.chunk(r, "i", 0).copy(r, "o", r)
    for step in range(ranks - 1):
        for r in range(ranks):
            block = (r - step) % ranks
            p.chunk(r, "o", block).copy((r + 1) % ranks, "o", block)
    return p


def allgather_bruck(ranks, **keys):
    """Each rank gives what it has to another one, so that doubles with each step. For any number of ranks."""
    p = Program("allgather_bruck", "allgather", ranks, **keys)
    for r in range(ranks):
        p.chunk(r, "i", 0).copy(r, "o", r)
    distance = 1
    while distance < ranks:
        for r in range(ranks):
            for i in range(min(distance, ranks - distance)):
                block = (r + i) % ranks
                p.chunk(r, "o", block).copy((r - distance) % ranks, "o", block)
        distance *= 2
    return p


def reducescatter_direct(ranks, **keys):
    """Every rank combines its block, which it reads from the inputs of all."""
    p = Program("reducescatter_direct", "reducescatter", ranks, **keys)
    for r in range(ranks):
        mine = p.chunk(r, "i", r).copy(r, "o", 0)
        mine.reduce(*[p.chunk((r + distance) % ranks, "i", r) for distance in range(1, ranks)])
    return p


def alltoall_direct(ranks, **keys):
    """Every rank puts each of its blocks into the output of the rank that it is for."""
    p = Program("alltoall_direct", "alltoall", ranks, **keys)
    for r in range(ranks):
        for distance in range(ranks):
            other = (r + distance) % ranks
            p.chunk(r, "i", other).copy(other, "o", r)
    return p


def alltoall_twostep(nodes, gpus, **keys):
    """A block for another node goes to the GPU of its own node that has the receiver's number, and from there to the
    receiver. So only GPUs with the same number exchange data between nodes.
    """
    ranks = nodes * gpus
    p = Program("alltoall_twostep", "alltoall", ranks, port=lambda a, b: a // gpus != b // gpus, **keys)
    for r in range(ranks):
        node, sender_gpu = divmod(r, gpus)
        for other in range(ranks):
            other_node, receiver_gpu = divmod(other, gpus)
            if other_node == node:
                p.chunk(r, "i", other).copy(other, "o", r)
            elif receiver_gpu == sender_gpu:
                p.chunk(r, "i", other).copy(other, "o", r)
            else:
                p.chunk(r, "i", other).copy(node * gpus + receiver_gpu, "s", other_node * gpus + sender_gpu)
    for r in range(ranks):
        node, receiver_gpu = divmod(r, gpus)
        for other_node in range(nodes):
            for sender_gpu in range(gpus):
                if other_node != node and sender_gpu != receiver_gpu:
                    p.chunk(r, "s", other_node * gpus + sender_gpu).copy(other_node * gpus + receiver_gpu, "o",
                                                                         node * gpus + sender_gpu)
    return p


def defaults(nodes, gpus):
    """Yields all-reduces for `nodes` nodes of `gpus` GPUs, one for each range of sizes.

    MSCCL++ installs such plans for 2 and 4 nodes of 8 GPUs.
    """
    for name, least, most, size in (("64K", 0, 1 << 16, 1 << 13), ("2M", (1 << 16) + 1, 2 << 20, 1 << 20)):
        p = allreduce_hierarchical(nodes, gpus, size=size, min_message_size=least, max_message_size=most)
        p.name = f"allreduce_{nodes}x{gpus}_{name}"
        yield p


# By name: the algorithms of one node, and those of several.
FLAT = {f.__name__: f for f in (allreduce_oneshot, allreduce_twophase, allreduce_ring, allreduce_halving,
                                allgather_direct, allgather_ring, allgather_bruck, reducescatter_direct,
                                alltoall_direct)}
NODES = {f.__name__: f for f in (allreduce_hierarchical, alltoall_twostep)}
