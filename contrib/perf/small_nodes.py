#!/usr/bin/env python3
"""Measures small collectives between many imitated nodes of one rank, beside the component that served before.

Usage: small_nodes.py [--nodes LIST] [--coll LIST] [--iterations N] [--turns N] [--most RATIO] BUILD

BUILD is a build folder. Starts as many ranks on the host twin as there are nodes, by default 64 and then 128, which
share this machine's processors. Each turn runs mscclpp_bench with the component and without it, and the order changes
with each turn. A line for each collective and size from 8 bytes to 4 KiB: the median of each side's turns in
microseconds, and their ratio; below 1 the component is faster. In a broadcast, reduce, gather, scatter or scan of Open
MPI some ranks wait for nobody. So these are called after a barrier each, whose time is subtracted: a loop of calls
alone would show how closely they follow one another, not how long one takes.

Exit status 0; 1 if --most is given and a ratio is above it; 2 for wrong usage or a run that fails.
"""
import argparse
import os
import statistics
import sys
import tempfile

from alternate import bench_command, measure, turns
from results import Unusable, size_text

COLLECTIVES = "allreduce,allgather,alltoall,reduce_scatter_block,scan,bcast,reduce,gather,scatter"

# In these each rank waits for all others.
SYNCHRONISING = {"allreduce", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw", "reduce_scatter_block",
                 "reduce_scatter"}


def nodes(text):
    """Returns the values of --nodes. Raises ValueError, which argparse reports, if one is refused."""
    values = [int(word) for word in text.split(",")]
    if not all(2 <= value <= 4096 for value in values):
        raise ValueError(text)
    return values


def positive(text):
    """Returns the value of --most. Raises ValueError, which argparse reports, if it is refused."""
    value = float(text)
    if not value > 0:
        raise ValueError(text)
    return value


def commands_of(build, count):
    """Returns the commands with the component and without it, up to mscclpp_bench's options."""
    start = f"mpirun --oversubscribe --mca mpi_yield_when_idle 1 -n {count}"
    if os.geteuid() == 0:
        start += " --allow-run-as-root"
    ours = bench_command(build, start)
    program = ours.pop()
    chosen = ours.index("coll") + 1
    other = ours[:chosen] + ["^mscclpp", program]
    ours = ours[:chosen] + ["mscclpp", "--mca", "coll_mscclpp_device", "host", "--mca", "coll_mscclpp_ranks_per_node",
                            "1", program]
    return ours, other


def compare(options, count):
    """Measures with `count` nodes, and prints a line for each row. Returns the largest ratio.

    What a call adds to a barrier may be nothing on a busy machine. Then there is no ratio, which counts as too large.
    """
    collectives = options.coll.split(",")
    groups = ([coll for coll in collectives if coll in SYNCHRONISING], []), \
             ([coll for coll in collectives if coll not in SYNCHRONISING], ["--between", "barrier"])
    bench = ["--device", "host", "-b", "8", "-e", "4k", "-f", "8", "-n",
             str(options.iterations), "-w", "4", "--rounds", "3", "--check", "0", "--out-of-place"]
    commands = commands_of(options.build, count)
    times_of_side = [{}, {}]
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.turns):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                for group, between in groups:
                    times = measure(commands[side], [*bench, "--coll", ",".join(group), *between],
                                    os.path.join(folder, "run.json"))[0] if group else {}
                    for key, microseconds in times.items():
                        times_of_side[side].setdefault(key, []).append(microseconds)
    largest = 0
    print(f"{f'{count} nodes of one rank':44} {'ours, us':>10} {'other, us':>10} {'ratio':>8}")
    for key, ours in times_of_side[0].items():
        after, before = statistics.median(ours), statistics.median(times_of_side[1][key])
        ratio = after / before if before > 0 and after > 0 else float("inf")
        largest = max(largest, ratio)
        print(f"{f'{size_text(key[3])} {key[0]}':44} {after:10.1f} {before:10.1f} {ratio:8.2f}")
    return largest


def main():
    """Reads the command line, and compares. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=nodes, default=[64, 128], metavar="LIST")
    parser.add_argument("--coll", default=COLLECTIVES, metavar="LIST")
    parser.add_argument("--iterations", type=int, default=40, metavar="N")
    parser.add_argument("--turns", type=turns, default=3, metavar="N")
    parser.add_argument("--most", type=positive, metavar="RATIO")
    parser.add_argument("build", metavar="BUILD")
    options = parser.parse_args()
    if not os.access(os.path.join(options.build, "mscclpp_bench"), os.X_OK):
        parser.error(f"'{options.build}' is no build folder: it has no mscclpp_bench")
    try:
        largest = max(compare(options, count) for count in options.nodes)
    except Unusable as error:
        print(f"small_nodes: {error}", file=sys.stderr)
        return 2
    return 1 if options.most is not None and largest > options.most else 0


if __name__ == "__main__":
    sys.exit(main())
