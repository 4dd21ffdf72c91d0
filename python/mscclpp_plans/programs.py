"""The classic algorithms. Each function returns a Program; `keys` are further arguments of the Program."""
from .chunks import Program


def allreduce_oneshot(ranks, **keys):
    """Every rank combines all inputs in its own output.

    The output is not the input, because the other ranks still read this rank's input meanwhile.
    """
    program = Program("allreduce_oneshot", "allreduce", ranks, **keys)
    for rank in range(ranks):
        mine = program.chunk(rank, "i", 0).copy(rank, "o", 0)
        mine.reduce(*[program.chunk((rank + distance) % ranks, "i", 0) for distance in range(1, ranks)])
    return program


def allreduce_twophase(ranks, **keys):
    """Rank r combines chunk r of all ranks and sends the result to all ranks."""
    program = Program("allreduce_twophase", "allreduce", ranks, chunks=ranks, inplace=True, **keys)
    for rank in range(ranks):
        program.chunk(rank, "i", rank).reduce(*[program.chunk((rank + distance) % ranks, "i", rank)
                                                for distance in range(1, ranks)])
    for rank in range(ranks):
        for distance in range(1, ranks):
            program.chunk(rank, "i", rank).copy((rank + distance) % ranks, "i", rank)
    return program


def allreduce_ring(ranks, **keys):
    """Chunks travel around the ring once to be combined, and once more so that all ranks get the result.

    From P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009.
    """
    program = Program("allreduce_ring", "allreduce", ranks, chunks=ranks, inplace=True, **keys)
    # A chunk begins at the rank of its number. It is complete at the previous rank, where the second round begins.
    for step in range(1, ranks):
        for chunk in range(ranks):
            rank = (chunk + step) % ranks
            program.chunk(rank, "i", chunk).reduce(program.chunk((rank - 1) % ranks, "i", chunk))
    for step in range(ranks - 1):
        for chunk in range(ranks):
            rank = (chunk + ranks - 1 + step) % ranks
            program.chunk(rank, "i", chunk).copy((rank + 1) % ranks, "i", chunk)
    return program


def allreduce_halving(ranks, **keys):
    """Recursive halving, then recursive doubling, for 2, 4, 8, ... ranks. Raises ValueError for other numbers.

    From R. Rabenseifner, "Optimization of collective reduction operations", 2004.
    """
    if ranks & (ranks - 1):
        raise ValueError(f"{ranks} ranks; allowed are powers of 2")
    program = Program("allreduce_halving", "allreduce", ranks, chunks=ranks, inplace=True, **keys)
    # held: the chunks that each rank combines; in the second loop, the chunks that it has.
    distance, held = ranks // 2, {rank: range(ranks) for rank in range(ranks)}
    while distance > 0:
        for rank in range(ranks):
            half = len(held[rank]) // 2
            held[rank] = held[rank][half:] if rank & distance else held[rank][:half]
        for rank in range(ranks):
            for chunk in held[rank]:
                program.chunk(rank, "i", chunk).reduce(program.chunk(rank ^ distance, "i", chunk))
        distance //= 2
    distance = 1
    while distance < ranks:
        for rank in range(ranks):
            for chunk in held[rank]:
                program.chunk(rank, "i", chunk).copy(rank ^ distance, "i", chunk)
        held = {rank: sorted([*held[rank], *held[rank ^ distance]]) for rank in range(ranks)}
        distance *= 2
    return program


def allreduce_hierarchical(nodes, gpus, **keys):
    """GPU g of each node combines chunk g of its node, then of all nodes, and sends the result to the GPUs of its node.

    Between nodes the chunks are first copied to the scratch, since a reduction without packets cannot read through a
    port.
    """
    program = Program("allreduce_hierarchical", "allreduce", nodes * gpus, chunks=gpus, inplace=True,
                      port=lambda one, other: one // gpus != other // gpus, **keys)
    for rank in range(nodes * gpus):
        node, gpu = divmod(rank, gpus)
        program.chunk(rank, "i", gpu).reduce(*[program.chunk(node * gpus + (gpu + distance) % gpus, "i", gpu)
                                               for distance in range(1, gpus)])
    for rank in range(nodes * gpus):
        node, gpu = divmod(rank, gpus)
        for distance in range(1, nodes):
            program.chunk(rank, "i", gpu).copy((node + distance) % nodes * gpus + gpu, "s", node)
    for rank in range(nodes * gpus):
        node, gpu = divmod(rank, gpus)
        program.chunk(rank, "i", gpu).reduce(*[program.chunk(rank, "s", (node + distance) % nodes)
                                               for distance in range(1, nodes)])
        for distance in range(1, gpus):
            program.chunk(rank, "i", gpu).copy(node * gpus + (gpu + distance) % gpus, "i", gpu)
    return program


def allgather_direct(ranks, **keys):
    """Every rank puts its block into the outputs of all ranks."""
    program = Program("allgather_direct", "allgather", ranks, **keys)
    for rank in range(ranks):
        for distance in range(ranks):
            program.chunk(rank, "i", 0).copy((rank + distance) % ranks, "o", rank)
    return program


def allgather_ring(ranks, **keys):
    """Blocks travel around the ring. In each step, each rank sends the block that it received last to the next rank."""
    program = Program("allgather_ring", "allgather", ranks, **keys)
    for rank in range(ranks):
        program.chunk(rank, "i", 0).copy(rank, "o", rank)
    for step in range(ranks - 1):
        for rank in range(ranks):
            block = (rank - step) % ranks
            program.chunk(rank, "o", block).copy((rank + 1) % ranks, "o", block)
    return program


def allgather_bruck(ranks, **keys):
    """In each step each rank sends its blocks to another rank, so that all ranks have twice as many blocks.

    The last step only sends the blocks that are still missing, so the algorithm serves any number of ranks. From
    J. Bruck et al., "Efficient algorithms for all-to-all communications in multiport message-passing systems", 1997.
    """
    program = Program("allgather_bruck", "allgather", ranks, **keys)
    for rank in range(ranks):
        program.chunk(rank, "i", 0).copy(rank, "o", rank)
    distance = 1
    while distance < ranks:
        for rank in range(ranks):
            for offset in range(min(distance, ranks - distance)):
                block = (rank + offset) % ranks
                program.chunk(rank, "o", block).copy((rank - distance) % ranks, "o", block)
        distance *= 2
    return program


def reducescatter_direct(ranks, **keys):
    """Every rank combines its own block, which it reads from the inputs of all ranks."""
    program = Program("reducescatter_direct", "reducescatter", ranks, **keys)
    for rank in range(ranks):
        mine = program.chunk(rank, "i", rank).copy(rank, "o", 0)
        mine.reduce(*[program.chunk((rank + distance) % ranks, "i", rank) for distance in range(1, ranks)])
    return program


def alltoall_direct(ranks, **keys):
    """Every rank puts each of its blocks into the output of the rank for which the block is."""
    program = Program("alltoall_direct", "alltoall", ranks, **keys)
    for rank in range(ranks):
        for distance in range(ranks):
            other = (rank + distance) % ranks
            program.chunk(rank, "i", other).copy(other, "o", rank)
    return program


def alltoall_twostep(nodes, gpus, **keys):
    """An all-to-all in two steps. Only GPUs with the same number exchange data between nodes.

    A rank first sends a block for another node to the GPU of its own node that has the receiver's number. That GPU then
    sends the block to the receiver.
    """
    ranks = nodes * gpus
    program = Program("alltoall_twostep", "alltoall", ranks,
                      port=lambda one, other: one // gpus != other // gpus, **keys)
    for rank in range(ranks):
        node, sender_gpu = divmod(rank, gpus)
        for other in range(ranks):
            other_node, receiver_gpu = divmod(other, gpus)
            if other_node == node:
                program.chunk(rank, "i", other).copy(other, "o", rank)
            elif receiver_gpu == sender_gpu:
                program.chunk(rank, "i", other).copy(other, "o", rank)
            else:
                program.chunk(rank, "i", other).copy(node * gpus + receiver_gpu, "s", other_node * gpus + sender_gpu)
    for rank in range(ranks):
        node, receiver_gpu = divmod(rank, gpus)
        for other_node in range(nodes):
            for sender_gpu in range(gpus):
                if other_node != node and sender_gpu != receiver_gpu:
                    program.chunk(rank, "s", other_node * gpus + sender_gpu).copy(other_node * gpus + receiver_gpu, "o",
                                                                                  node * gpus + sender_gpu)
    return program


def defaults(nodes, gpus):
    """Yields all-reduces for `nodes` nodes of `gpus` GPUs, one for each range of sizes.

    MSCCL++ installs similar plans for 2 and 4 nodes of 8 GPUs.
    """
    for name, least, most, size in (("64K", 0, 1 << 16, 1 << 13), ("2M", (1 << 16) + 1, 2 << 20, 1 << 20)):
        program = allreduce_hierarchical(nodes, gpus, size=size, min_message_size=least, max_message_size=most)
        program.name = f"allreduce_{nodes}x{gpus}_{name}"
        yield program


# By name: the algorithms of one node, and the algorithms of several nodes.
FLAT = {f.__name__: f for f in (allreduce_oneshot, allreduce_twophase, allreduce_ring, allreduce_halving,
                                allgather_direct, allgather_ring, allgather_bruck, reducescatter_direct,
                                alltoall_direct)}
NODES = {f.__name__: f for f in (allreduce_hierarchical, alltoall_twostep)}
