"""Small execution plans, written out by hand for the tests: one for each way of moving data."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
from mscclpp_plans.channels import Rank, assemble, local  # noqa: E402


def peers_of(r, n):
    """The other ranks."""
    return [p for p in range(n) if p != r]


def handshake(block, channels):
    """Tells the peers that this rank has come, and waits until they have."""
    block.sync("rlxsignal", "memory", channels)
    block.sync("rlxwait", "memory", channels)
    block.nop()


def finish(block, channels):
    """Tells the peers that this rank has done its work, and waits until they have."""
    block.nop()
    block.sync("signal", "memory", channels)
    block.sync("wait", "memory", channels)
    block.nop()


def allgather_put(n=2):
    ranks = [Rank(r, 1, n, 0) for r in range(n)]
    for r, rank in enumerate(ranks):
        channels = [rank.channel("memory", p) for p in peers_of(r, n)]
        block = rank.block()
        handshake(block, channels)
        block.move("put", [local("i", 0)] * (n - 1), [block.remote("memory", p, "o", r) for p in peers_of(r, n)],
                   "memory")
        block.move("copy", [local("i", 0)], [local("o", r)])
        finish(block, channels)
    return assemble("allgather_put", "allgather", ranks)


def allreduce_rres(n=2, group=1):
    """Each rank sums its chunk over all ranks and stores it to all of them, in place."""
    ranks = [Rank(r, n, n, 0) for r in range(n)]
    for r, rank in enumerate(ranks):
        blocks = [rank.block() for _ in range(group)]
        for part, block in enumerate(blocks):
            channels = [rank.channel("memory", p) for p in peers_of(r, n)]
            handshake(block, channels)
            remote = [block.remote("memory", p, "i", r) for p in peers_of(r, n)]
            keys = {"tbg_info": {"tb_id": part, "tbg_size": group}} if group > 1 else {}
            block.move("rres", [local("i", r)] + remote, [local("i", r)] + remote, "memory", reduce_op="sum", **keys)
            finish(block, channels)
    return assemble("allreduce_rres", "allreduce", ranks, inplace=True)


def allreduce_oneshot(n=2, halves=True):
    """Each rank sends all of its input as packets to every peer, and sums what comes."""
    ranks = [Rank(r, n, n, n * n) for r in range(n)]
    for r, rank in enumerate(ranks):
        block = rank.block()
        for p in peers_of(r, n):
            rank.channel("memory", p)
        block.move("ppkt", [local("i", 0, n)] * (n - 1),
                   [block.remote("memory", p, "s", r * n, n) for p in peers_of(r, n)], "memory")
        block.move("repkt", [local("i", 0, n)] + [local("s", p * n, n) for p in peers_of(r, n)],
                   [local("i", 0, n)], reduce_op="sum")
    return assemble("allreduce_oneshot", "allreduce", ranks, "LL", True, use_double_scratch_buffer=halves)


def allreduce_copied(n=2, turned=False):
    """
    The same out of place: a rank first copies its input to the output. With `turned`, it sums two parts of other sizes
    than it copies, so that threads need what others have copied.
    """
    ranks = [Rank(r, 2, 2, 2 * n) for r in range(n)]
    for r, rank in enumerate(ranks):
        block = rank.block()
        for p in peers_of(r, n):
            rank.channel("memory", p)
        block.move("copy", [local("i", 0, 2)], [local("o", 0, 2)])
        block.move("ppkt", [local("i", 0, 2)] * (n - 1),
                   [block.remote("memory", p, "s", 2 * r, 2) for p in peers_of(r, n)], "memory")
        block.nop()
        for first, size in ((0, 1), (1, 1)) if turned else ((0, 2),):
            block.move("repkt", [local("o", first, size)] + [local("s", 2 * p + first, size) for p in peers_of(r, n)],
                       [local("o", first, size)], reduce_op="sum")
            if turned and first == 0:
                block.nop()
    return assemble("allreduce_copied", "allreduce", ranks, "LL", False, use_double_scratch_buffer=True)


def allreduce_oneshot_uneven():
    """The same with scratches of different sizes: a rank must not look for a peer's half where its own lies."""
    plan_ = allreduce_oneshot(4)
    plan_["gpus"][0]["scratch_chunks"] += 3
    plan_["gpus"][3]["scratch_chunks"] -= 4
    return plan_


def allreduce_mixed():
    """A scratch with packets and with a plain chunk, of an odd number of chunks: its second half begins anywhere."""
    ranks = [Rank(r, 1, 1, 3) for r in range(2)]
    for r, rank in enumerate(ranks):
        block = rank.block()
        rank.channel("memory", 1 - r)
        block.move("copy", [local("i", 0)], [local("s", 2)])
        block.move("ppkt", [local("i", 0)], [block.remote("memory", 1 - r, "s", 0)], "memory")
        block.nop()
        block.move("repkt", [local("s", 2), local("s", 0)], [local("o", 0)], reduce_op="sum")
    return assemble("allreduce_mixed", "allreduce", ranks, use_double_scratch_buffer=True)


def allreduce_shifted(n=2):
    """
    Out of place: two of three sums first lie one chunk too low, and move up through the scratch. A step that read them
    from the output again, in place of the scratch, would read what it has already overwritten.
    """
    ranks = [Rank(r, 3, 3, 3 * n + 2) for r in range(n)]
    for r, rank in enumerate(ranks):
        channels = [rank.channel("memory", p) for p in peers_of(r, n)]
        block = rank.block()
        handshake(block, channels)
        for p in peers_of(r, n):
            block.move("get", [block.remote("memory", p, "i", 0, 3)], [local("s", 3 * p, 3)], "memory")
        block.nop()
        block.move("re", [local("i", 1, 2)] + [local("s", 3 * p + 1, 2) for p in peers_of(r, n)], [local("o", 0, 2)],
                   reduce_op="sum")
        block.move("copy", [local("o", 0, 2)], [local("s", 3 * n, 2)])
        block.nop()
        block.move("copy", [local("s", 3 * n, 2)], [local("o", 1, 2)])
        block.nop()
        block.move("re", [local("i", 0)] + [local("s", 3 * p) for p in peers_of(r, n)], [local("o", 0)],
                   reduce_op="sum")
        finish(block, channels)
    return assemble("allreduce_shifted", "allreduce", ranks)


def reducescatter_barrier(n=2):
    """Two blocks copy the peers' parts to the scratch, meet, and each sums one half of what all of them hold."""
    ranks = [Rank(r, n, 1, n) for r in range(n)]
    for r, rank in enumerate(ranks):
        for part in range(2):
            block = rank.block()
            channels = [rank.channel("memory", p) for p in peers_of(r, n)]
            handshake(block, channels)
            group = {"tbg_info": {"tb_id": part, "tbg_size": 2}}
            for p in peers_of(r, n):
                block.move("get", [block.remote("memory", p, "i", r)], [local("s", p)], "memory", **group)
            block.op("barrier", barrier_id=0, num_threadblocks=2)
            block.move("re", [local("i", r)] + [local("s", p) for p in peers_of(r, n)], [local("o", 0)],
                       reduce_op="sum", **group)
            finish(block, channels)
    return assemble("reducescatter_barrier", "reducescatter", ranks)


def alltoall_port(n=2):
    ranks = [Rank(r, n, n, 0) for r in range(n)]
    for r, rank in enumerate(ranks):
        peers = peers_of(r, n)
        channels = [rank.channel("port", p) for p in peers]
        block = rank.block()
        block.sync("signal", "port", channels)
        block.sync("wait", "port", channels)
        block.nop()
        block.move("put", [local("i", p) for p in peers], [block.remote("port", p, "o", r) for p in peers], "port",
                   channels)
        block.sync("signal", "port", channels)
        block.sync("flush", "port", channels)
        block.move("copy", [local("i", r)], [local("o", r)])
        block.sync("wait", "port", channels)
        block.nop()
    return assemble("alltoall_port", "alltoall", ranks)


def allreduce_pipeline(credits=2):
    """Within one rank: a block fills the scratch, another one empties it, and credits say how far ahead it may be."""
    rank = Rank(0, 1, 1, 1)
    rank.semaphores = [credits, 0]
    turns = {"unit_size": 64, "num_chunks": 1}
    fill, drain = rank.block(), rank.block()
    fill.op("pipeline", iter_context=turns, ops=[
        {"name": "sem_acquire", "semaphore_ids": [0]}, {"name": "nop"},
        {"name": "copy", "src_buff": [local("i", 0)], "dst_buff": [local("s", 0)]},
        {"name": "nop"}, {"name": "sem_release", "semaphore_ids": [1]}])
    drain.op("pipeline", iter_context=turns, ops=[
        {"name": "sem_acquire", "semaphore_ids": [1]}, {"name": "nop"},
        {"name": "copy", "src_buff": [local("s", 0)], "dst_buff": [local("o", 0)]},
        {"name": "nop"}, {"name": "sem_release", "semaphore_ids": [0]}])
    return assemble("allreduce_pipeline", "allreduce", [rank])


def allreduce_switch(n=2):
    ranks = [Rank(r, n, n, 0) for r in range(n)]
    for r, rank in enumerate(ranks):
        rank.switch("i", range(n))
        channels = [rank.channel("memory", p) for p in peers_of(r, n)]
        block = rank.block()
        handshake(block, channels)
        block.move("glres", [block.multicast(0, r)], [block.multicast(0, r)], "switch", reduce_op="sum")
        finish(block, channels)
    return assemble("allreduce_switch", "allreduce", ranks, inplace=True)


def allgather_get(n=2):
    """Each rank fetches the inputs of its peers. What is fetched lies elsewhere on the two sides."""
    ranks = [Rank(r, 1, n, 0) for r in range(n)]
    for r, rank in enumerate(ranks):
        channels = [rank.channel("memory", p) for p in peers_of(r, n)]
        block = rank.block()
        handshake(block, channels)
        block.move("get", [block.remote("memory", p, "i", 0) for p in peers_of(r, n)],
                   [local("o", p) for p in peers_of(r, n)], "memory")
        block.move("copy", [local("i", 0)], [local("o", r)])
        finish(block, channels)
    return assemble("allgather_get", "allgather", ranks)


def allgather_two_sources(n=2):
    """One put has a chunk of the input and one of the scratch, so that it must not take both from one buffer."""
    ranks = [Rank(r, 2, 2 * n, 1) for r in range(n)]
    for r, rank in enumerate(ranks):
        channels = [rank.channel("memory", p) for p in peers_of(r, n)]
        block = rank.block()
        handshake(block, channels)
        block.move("copy", [local("i", 1)], [local("s", 0)])
        block.nop()
        for p in peers_of(r, n):
            block.move("put", [local("i", 0), local("s", 0)],
                       [block.remote("memory", p, "o", 2 * r), block.remote("memory", p, "o", 2 * r + 1)], "memory")
        block.move("copy", [local("i", 0, 2)], [local("o", 2 * r, 2)])
        finish(block, channels)
    return assemble("allgather_two_sources", "allgather", ranks)


def as_max(plan_):
    for gpu in plan_["gpus"]:
        for block in gpu["threadblocks"]:
            for op in block["ops"]:
                if "reduce_op" in op:
                    op["reduce_op"] = "max"
    return plan_


def allreduce_relayed():
    """In place on two ranks: a block sends a chunk as packets, and another one stores there what comes back for it."""
    ranks = [Rank(r, 2, 2, 2) for r in range(2)]
    for r, rank in enumerate(ranks):
        peer = 1 - r
        rank.channel("memory", peer)
        first, second, third = rank.block(), rank.block(), rank.block()
        first.move("ppkt", [local("i", peer)], [first.remote("memory", peer, "s", 0)], "memory")
        second.move("respkt", [local("i", r), local("s", 0)],
                    [local("i", r), second.remote("memory", peer, "s", 1)], "memory", reduce_op="sum")
        third.move("upkt", [local("s", 1)], [local("i", peer)])
    return assemble("allreduce_relayed", "allreduce", ranks, "LL", True, use_double_scratch_buffer=True)


def allgather_ordered(n):
    """A block stores to the output, and packets alone tell another one, which stores there, too."""
    ranks = [Rank(r, 1, n, 1) for r in range(n)]
    for r, rank in enumerate(ranks):
        peers = peers_of(r, n)
        channels = [rank.channel("memory", p) for p in peers]
        block, other = rank.block(), rank.block()
        handshake(block, channels)
        block.move("put", [local("i", 0)] * (n - 1), [block.remote("memory", p, "o", r) for p in peers], "memory")
        block.move("copy", [local("i", 0)], [local("o", r)])
        block.nop()
        block.move("cpkt", [local("i", 0)], [local("s", 0)])
        finish(block, channels)
        other.move("upkt", [local("s", 0)], [local("o", r)])
    return assemble("allgather_ordered", "allgather", ranks, "LL", use_double_scratch_buffer=True)


def all_plans():
    """All of them, by name."""
    return {"allgather_put_2": allgather_put(2), "allgather_put_3": allgather_put(3),
            "allreduce_rres_2": allreduce_rres(2), "allreduce_rres_4": allreduce_rres(4),
            "allreduce_rres_2_groups": allreduce_rres(2, 3), "allreduce_oneshot_2": allreduce_oneshot(2),
            "allreduce_oneshot_4": allreduce_oneshot(4),
            "allreduce_oneshot_uneven": allreduce_oneshot_uneven(),
            "allreduce_copied_2": allreduce_copied(2), "allreduce_copied_4_turned": allreduce_copied(4, True),
            "allreduce_shifted_2": allreduce_shifted(2), "allreduce_mixed_2": allreduce_mixed(),
            "reducescatter_barrier_3": reducescatter_barrier(3), "allreduce_relayed_2": allreduce_relayed(),
            "allgather_get_3": allgather_get(3), "allgather_two_sources_3": allgather_two_sources(3),
            "alltoall_port_3": alltoall_port(3), "allreduce_pipeline": allreduce_pipeline(),
            "allreduce_switch_4": allreduce_switch(4),
            "allreduce_max_3": as_max(allreduce_rres(3)), "allgather_ordered_3": allgather_ordered(3)}
