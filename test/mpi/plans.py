#!/usr/bin/env python3
"""Execution plans for the mpi layer.

plans.py FOLDER RANKS writes some. Those that MPI calls are served by lie in FOLDER, those for two nodes in
FOLDER/nodes, one whose data move within a block in FOLDER/moved, those that no rank may use, or that hang, in
FOLDER/bad.

plans.py --usable FOLDER TOOL MOST [--nodes] prints, of each plan in a folder that has to serve MPI calls of 2 to MOST
ranks, the ranks, the collective, the operation, the name and the file; with --nodes, of those that can serve calls over
two nodes. TOOL is mscclpp_plan.
"""
import copy
import glob
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path[:0] = [os.path.join(TOP, "test", "plans"), os.path.join(TOP, "python")]
import plans  # noqa: E402
from mscclpp_plans import Program, programs  # noqa: E402
from mscclpp_plans.channels import Rank, assemble, local  # noqa: E402


# Two blocks a rank, joined by semaphores, or with a half of every chunk each.
SIGNALS = {"packets": False, "blocks": 2, "instances": 1, "pipeline": 0}
PACKETS = {"packets": True, "blocks": 1, "instances": 2}


def good(n):
    """All that the Python module writes, and plans by hand with packets, groups of blocks, barriers and ports."""
    for name, program in programs.FLAT.items():
        if name != "allreduce_halving" or n & (n - 1) == 0:
            yield name, program(n, **SIGNALS).plan()
    yield "allreduce_twophase_packets", programs.allreduce_twophase(n, **PACKETS).plan()
    yield "allreduce_packets", plans.allreduce_oneshot(n)
    yield "allreduce_lines", allreduce_lines(n)
    yield "allreduce_groups", plans.allreduce_rres(n, 3)
    yield "allreduce_switch", plans.allreduce_switch(n)
    yield "allreduce_max", plans.as_max(plans.allreduce_rres(n))
    yield "reducescatter_barrier", plans.reducescatter_barrier(n)
    yield "reducescatter_inplace", reducescatter_inplace(n)
    yield "alltoall_port", plans.alltoall_port(n)
    yield "allgather_crossing", allgather_crossing(n)
    yield "allgather_mixed", allgather_mixed(n)
    yield "allgather_ordered", plans.allgather_ordered(n)
    yield "custom_halo", custom_halo(n)
    yield "custom_halo_packets", custom_halo_packets(n)


def moved(n):
    """An all-reduce whose data wait in another chunk of the output, which is shorter for most sizes."""
    program = Program("moved", "allreduce", n, 3, **SIGNALS)
    for rank in range(n):
        for index in (0, 1, 2):
            waits = program.chunk(rank, "i", index).copy(rank, "o", 2)
            waits.reduce(*[program.chunk((rank + distance) % n, "i", index) for distance in range(1, n)])
            if index < 2:
                waits.copy(rank, "o", index)
    yield "allreduce_moved", program.plan()


def neighbours(rank, r, n):
    """Channels to the rank after this one, and to the one before it."""
    kinds = [rank.channel("memory", (r + 1) % n), rank.channel("memory", (r - 1) % n)]
    return kinds if n > 2 or r == 0 else kinds[::-1]


def custom_halo(n):
    """Each rank gives its first chunk to the rank before it, and its second one to the rank after it. Rank 0 adds up
    its own two as well."""
    ranks = [Rank(r, 2, 3 if r == 0 else 2, 0) for r in range(n)]
    for r, rank in enumerate(ranks):
        channels = neighbours(rank, r, n)
        block = rank.block()
        plans.handshake(block, channels)
        block.move("put", [local("i", 1), local("i", 0)], [block.remote("memory", (r + 1) % n, "o", 0),
                                                           block.remote("memory", (r - 1) % n, "o", 1)], "memory")
        if r == 0:
            block.move("re", [local("i", 0), local("i", 1)], [local("o", 2)], reduce_op="sum")
        plans.finish(block, channels)
    return assemble("custom_halo", "custom", ranks)


def custom_halo_packets(n):
    """The same as packets."""
    ranks = [Rank(r, 2, 3 if r == 0 else 2, 2) for r in range(n)]
    for r, rank in enumerate(ranks):
        neighbours(rank, r, n)
        block = rank.block()
        block.move("ppkt", [local("i", 1), local("i", 0)], [block.remote("memory", (r + 1) % n, "s", 0),
                                                            block.remote("memory", (r - 1) % n, "s", 1)], "memory")
        if r == 0:
            block.move("re", [local("i", 0), local("i", 1)], [local("o", 2)], reduce_op="sum")
        for side in (0, 1):
            block.move("upkt", [local("s", side)], [local("o", side)])
    return assemble("custom_halo_packets", "custom", ranks, "LL", use_double_scratch_buffer=True)


def allreduce_lines(n):
    """Two phases of packets through one scratch without halves, which only holds while chunks have one size."""
    ranks = [Rank(r, n, n, 2 * n) for r in range(n)]
    for r, rank in enumerate(ranks):
        peers = plans.peers_of(r, n)
        block = rank.block()
        for p in peers:
            rank.channel("memory", p)
        block.move("ppkt", [local("i", p) for p in peers], [block.remote("memory", p, "s", r) for p in peers], "memory")
        block.move("respkt", [local("i", r)] + [local("s", p) for p in peers],
                   [local("i", r)] + [block.remote("memory", p, "s", n + r) for p in peers], "memory", reduce_op="sum")
        for p in peers:
            block.move("upkt", [local("s", n + p)], [local("i", p)])
    return assemble("allreduce_lines", "allreduce", ranks, "LL", True)


def reducescatter_inplace(n):
    """Each rank adds up its block where its own part of it is."""
    ranks = [Rank(r, n, 1, 0) for r in range(n)]
    for r, rank in enumerate(ranks):
        channels = [rank.channel("memory", p) for p in plans.peers_of(r, n)]
        block = rank.block()
        plans.handshake(block, channels)
        remote = [block.remote("memory", p, "i", r) for p in plans.peers_of(r, n)]
        block.move("rre", [local("i", r)] + remote, [local("i", r)], "memory", reduce_op="sum")
        plans.finish(block, channels)
    return assemble("reducescatter_inplace", "reducescatter", ranks, inplace=True)


def allgather_crossing(n):
    """Each rank gets two thirds of the output of rank 0, once that has all: operations go over the ends of blocks."""
    ranks = [Rank(r, 3, 3 * n, 0) for r in range(n)]
    for r, rank in enumerate(ranks):
        peers = plans.peers_of(r, n)
        channels = [rank.channel("memory", p) for p in peers]
        block = rank.block()
        plans.handshake(block, channels)
        block.move("copy", [local("i", 0, 3)], [local("o", 3 * r, 3)])
        if r != 0:
            block.move("put", [local("i", 0, 3)], [block.remote("memory", 0, "o", 3 * r, 3)], "memory")
        plans.finish(block, channels)
        if r != 0:
            half = 3 * n // 2
            block.move("get", [block.remote("memory", 0, "o", 0, half)], [local("o", 0, half)], "memory")
            block.move("get", [block.remote("memory", 0, "o", half, 3 * n - half)], [local("o", half, 3 * n - half)],
                       "memory")
        plans.finish(block, channels)
    return assemble("allgather_crossing", "allgather", ranks)


def allgather_mixed(n):
    """Half of each block goes as packets and half as it is, through one scratch."""
    ranks = [Rank(r, 2, 2 * n, 6 * n) for r in range(n)]
    for r, rank in enumerate(ranks):
        peers = plans.peers_of(r, n)
        channels = [rank.channel("memory", p) for p in peers]
        block = rank.block()
        plans.handshake(block, channels)
        block.move("copy", [local("i", 0, 2)], [local("o", 2 * r, 2)])
        block.move("ppkt", [local("i", 0)] * (n - 1), [block.remote("memory", p, "s", r) for p in peers], "memory")
        block.move("put", [local("i", 1)] * (n - 1), [block.remote("memory", p, "s", 4 * n + r) for p in peers],
                   "memory")
        # Packets are awaited by their flags alone.
        for p in peers:
            block.move("upkt", [local("s", p)], [local("o", 2 * p)])
        plans.finish(block, channels)
        for p in peers:
            block.move("copy", [local("s", 4 * n + p)], [local("o", 2 * p + 1)])
        plans.finish(block, channels)
    return assemble("allgather_mixed", "allgather", ranks, "LL", use_double_scratch_buffer=True)


def between(n):
    """Plans for nodes of n / 2 ranks, or of n ranks of which each is a node: ports between these, or between all."""
    for name, program in programs.NODES.items():
        yield name, program(2, n // 2, **SIGNALS).plan()
        yield name + "_packets", program(2, n // 2, **PACKETS).plan()
    yield "alltoall_port", plans.alltoall_port(n)
    yield "allgather_portpackets", allgather_portpackets(n)


def allgather_portpackets(n):
    """Ports move packets, and pass on in a ring what has come."""
    ranks = [Rank(r, 1, n, n) for r in range(n)]
    for r, rank in enumerate(ranks):
        channel, back = rank.channel("port", (r + 1) % n), rank.channel("port", (r - 1) % n)
        if n == 2 and r == 1:
            channel, back = back, channel
        block = rank.block()
        block.move("cpkt", [local("i", 0)], [local("s", r)])
        block.nop()
        block.move("ppkt", [local("s", r)], [block.remote("port", (r + 1) % n, "s", r)], "port", [channel])
        for k in range(1, n - 1):
            c = (r - k) % n
            block.move("rppkt", [local("s", c)], [block.remote("port", (r + 1) % n, "s", c)], "port", [channel])
        block.move("copy", [local("i", 0)], [local("o", r)])
        for k in range(1, n):
            block.move("upkt", [local("s", (r - k) % n)], [local("o", (r - k) % n)])
        block.sync("flush", "port", [channel])
        block.nop()
        block.sync("signal", "port", [back])
        block.sync("wait", "port", [channel])
    return assemble("allgather_portpackets", "allgather", ranks, "LL", use_double_scratch_buffer=True)


def bad(n):
    """Refused without a simulation; refused by a simulation alone; and some that hang and say so to nobody."""
    plan = plans.allreduce_rres(n)
    plan["gpus"][0]["threadblocks"][0]["ops"][0]["channel_ids"] = [99]
    yield "channel_id", plan
    yield "half", json.dumps(plans.allreduce_rres(n))[:300]
    plan = copy.deepcopy(plans.allreduce_rres(n))
    for gpu in plan["gpus"]:
        ops = gpu["threadblocks"][0]["ops"]
        signal, wait = (next(i for i, op in enumerate(ops) if op["name"] == name) for name in ("rlxsignal", "rlxwait"))
        ops[signal], ops[wait] = ops[wait], ops[signal]
    yield "hangs", plan
    plan = plans.alltoall_port(n)
    for gpu in plan["gpus"]:
        ops = gpu["threadblocks"][0]["ops"]
        ops[0], ops[1] = ops[1], ops[0]
    yield "hangs_port", plan
    other = plans.allreduce_rres(n)
    other["name"] = "allreduce_other"
    yield "other", other


def joins_nodes(plan):
    """Whether ports alone lead from the first half of the ranks to the second one, and some do."""
    half, ports = len(plan["gpus"]) // 2, 0
    for r, gpu in enumerate(plan["gpus"]):
        for channel in gpu["channels"]:
            far = [p for p in channel.get("connected_to", ()) if (p < half) != (r < half)]
            far += [p for group in channel.get("rank_groups", ()) for p in group["ranks"] if (p < half) != (r < half)]
            if far and channel["channel_type"] != "port":
                return False
            ports += len(far)
    return ports > 0


def usable(folder, tool, most, nodes):
    """Plans that are right. With `nodes`, those that join two nodes."""
    paths = sorted(glob.glob(os.path.join(folder, "**", "*.json"), recursive=True))
    done = subprocess.run([tool, "check", "--json", *paths], capture_output=True, text=True, errors="replace",
                          check=False)
    for entry in json.loads(done.stdout):
        if entry["verdict"] != "ok":
            continue
        with open(entry["file"], encoding="utf-8") as file:
            plan = json.load(file)
        if 2 <= len(plan["gpus"]) <= most and (not nodes or joins_nodes(plan)) and plan["collective"] in (
                "allreduce", "allgather", "reducescatter", "alltoall"):
            op = next((word for word in ("max", "min") if f'"reduce_op": "{word}"' in json.dumps(plan)), "any")
            print(len(plan["gpus"]), plan["collective"], op, plan["name"], entry["file"])


def main():
    if sys.argv[1] == "--usable":
        usable(sys.argv[2], sys.argv[3], int(sys.argv[4]), "--nodes" in sys.argv)
        return
    folder, n = sys.argv[1], int(sys.argv[2])
    os.makedirs(os.path.join(folder, "bad"))
    os.makedirs(os.path.join(folder, "nodes"))
    os.makedirs(os.path.join(folder, "moved"))
    for sub, kind in (("", good), ("moved", moved), ("nodes", between), ("bad", bad)):
        for name, plan in kind(n) if kind is not between or n % 2 == 0 else ():
            if kind is not bad:
                plan["name"] = name
            with open(os.path.join(folder, sub, name + ".json"), "w", encoding="utf-8") as file:
                file.write(plan if isinstance(plan, str) else json.dumps(plan))


main()
