#!/usr/bin/env python3
"""Compares mscclpp_sim with all-reduces between imitated nodes on this machine, and prints the error.

Usage: simulate.py BUILD [--transport shm|network] [--nodes LIST] [--bytes LIST]

For each number of nodes of one rank, measures the patterns nodes, nodes_split and nodes_ring with mscclpp_bench. Finds
the figures (latency, overhead, bandwidth) with which the simulation of the first pattern is closest, and prints how far
the simulation of all three is off with them. So the first pattern says how well the figures fit, and the other two say
how well the model predicts patterns from which no figure was taken. Ranks that share processors are slower than ranks
of a cluster. So the figures hold for this machine with so many ranks only, and they say little if others use it.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

# The component's name of each pattern, and mscclpp_sim's.
PATTERNS = {"nodes": "direct", "nodes_split": "split", "nodes_ring": "ring"}
EXCHANGE_BYTES = 16 << 20  # the default of coll_mscclpp_exchange_size
BLOCKS, SETS = 16, 5  # as in device/types/nodes.h


def measure(build, transport, nodes, algorithm, sizes):
    """Measures a pattern in place. Returns, by size, the average seconds of the slowest rank in the best round.

    Each size in `sizes` has to be four times the size before, because mscclpp_bench uses this factor. Each rank is a
    separate node, on the host twin. Raises CalledProcessError or TimeoutExpired if the run fails, which end the
    program.
    """
    info = subprocess.run(["ompi_info", "--path", "pkglibdir", "--parsable"], capture_output=True, text=True,
                          check=True)
    folder = info.stdout.strip().removeprefix("path:pkglibdir:")
    launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(nodes)]
    launch += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    settings = {"mca_base_component_path": f"{build}/components:{folder}", "coll": "mscclpp",
                "coll_mscclpp_device": "host", "coll_mscclpp_ranks_per_node": "1",
                "coll_mscclpp_transport": transport, "coll_mscclpp_algorithm": algorithm}
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "times.json")
        for name, value in settings.items():
            launch += ["--mca", name, value]
        subprocess.run(launch + [f"{build}/mscclpp_bench", "--device", "host", "--in-place", "--check", "0", "--rounds",
                                 "7", "-b", str(min(sizes)), "-e", str(max(sizes)), "-f", "4", "--json", path],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=build, timeout=300)
        with open(path, encoding="utf-8") as file:
            return times_of(json.load(file))


def times_of(answer):
    """Returns the seconds of the best round by size, from the contents of a JSON file of mscclpp_bench."""
    return {row["bytes"]: row["time_us"]["min"] * 1e-6 for row in answer["results"]}


def simulate(build, nodes, kind, sizes, figures):
    """Simulates the pattern that mscclpp_sim calls `kind`, with figures of fit(). Returns seconds by size."""
    # mca/common/fabric/setup.c divides the exchange area in this way: an eighth is for packets, the rest for slots.
    slot_bytes = EXCHANGE_BYTES * 7 // 8 // (BLOCKS * SETS * (nodes + 1)) // 16 * 16
    tile_bytes = (nodes + 1) * slot_bytes // 2 if kind in ("ring", "split") else slot_bytes
    process = subprocess.run([f"{build}/mscclpp_sim", "--json", "--nodes", str(nodes), "--ranks-per-node", "1",
                              "--bytes", ",".join(str(size) for size in sizes), "--algorithm", kind, "--tile",
                              str(tile_bytes), "--lanes", "3", "--gap", "0", "--latency", f"{figures[0]:.6g}",
                              "--overhead", f"{figures[1]:.6g}", "--bandwidth", f"{figures[2]:.6g}"],
                             capture_output=True, text=True, check=True)
    return {row["bytes"]: row["seconds"] for row in json.loads(process.stdout)}


def error(measured, simulated):
    """Returns the error of the simulation: the mean square of log(simulated / measured).

    With the logarithm, too slow by a factor counts as much as too fast by the same factor. Each measured size has to be
    simulated.
    """
    return statistics.mean(math.log(simulated[size] / measured[size]) ** 2 for size in measured)


def fit(build, nodes, measured):
    """Returns the figures with which the simulation of pattern nodes is closest: latency and overhead in us, GB/s.

    Tries to multiply and to divide each figure by a factor, and reduces the factor when no such step is better. Each
    figure has bounds, because a figure without influence could otherwise grow or shrink for ever.
    """
    sizes = sorted(measured)
    figures, step = [5.0, 5.0, 2.0], 4.0  # the initial figures only have to be of the right magnitude
    least_error = error(measured, simulate(build, nodes, "direct", sizes, figures))
    while step > 1.02:
        is_better = False
        for i in range(3):
            for factor in (step, 1 / step):
                trial = list(figures)
                trial[i] = min(max(trial[i] * factor, 0.01), 1e5)
                trial_error = error(measured, simulate(build, nodes, "direct", sizes, trial))
                if trial_error < least_error:
                    least_error, figures, is_better = trial_error, trial, True
        step = step if is_better else math.sqrt(step)
    return figures


def main():
    """Measures, fits and simulates for each number of nodes, and prints a line for each size of each pattern.

    Returns the exit status, 0. If one of the programs that it runs fails, the exception ends this program.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--transport", default="shm", choices=("shm", "network"))
    parser.add_argument("--nodes", default="2,4")
    parser.add_argument("--bytes", default="16384,65536,262144,1048576,4194304")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each pattern, by turns; the best time counts")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    sizes = [int(size) for size in arguments.bytes.split(",")]
    for nodes in (int(n) for n in arguments.nodes.split(",")):
        times = {name: dict.fromkeys(sizes, math.inf) for name in PATTERNS}
        for name in list(PATTERNS) * arguments.repeats:
            for size, seconds in measure(build, arguments.transport, nodes, name, sizes).items():
                times[name][size] = min(times[name][size], seconds)
        figures = fit(build, nodes, times["nodes"])
        print(f"{nodes} nodes over {arguments.transport}: latency {figures[0]:.2f} us, overhead {figures[1]:.2f} us, "
              f"{figures[2]:.3f} GB/s")
        for name, kind in PATTERNS.items():
            simulated = simulate(build, nodes, kind, sizes, figures)
            for size in sizes:
                print(f"  {name:12} {size:9} bytes: measured {times[name][size] * 1e6:9.1f} us, simulated "
                      f"{simulated[size] * 1e6:9.1f} us, {100 * (simulated[size] / times[name][size] - 1):+5.0f} %")
            print(f"  {name:12} off by a factor of {math.exp(math.sqrt(error(times[name], simulated))):.2f} on average")
    return 0


if __name__ == "__main__":
    sys.exit(main())
