#!/usr/bin/env python3
"""Compares two builds on this machine: runs mscclpp_bench of each in turn, and tells differences from noise.

Usage: alternate.py [--start COMMAND] [--turns N] [--tolerance FRACTION] OLD NEW [-- OPTION...]

OLD and NEW are build folders. COMMAND starts the ranks, by default "mpirun -n 2"; the options after -- go to
mscclpp_bench. Each turn runs both builds, and the order changes with each turn, so that a machine that becomes slower
or faster harms neither. A line for each row: the median of each build's turns, their ratio, and the spread, which is
the larger of the two builds' differences between the fastest and the slowest turn. A row differs if the medians do by
more than the spread and by more than the tolerance (default 0.02).

Exit status 0 if no row differs, 1 if one does, if results are wrong or if a build has no such row, 2 for wrong usage or
a run that fails.
"""
import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

from results import Unusable, collective_of, describe_row, load, size_text


def bench_command(build, start):
    """Returns the command up to mscclpp_bench's options, with the component of the build folder if there is one.

    The folder of Open MPI's own components comes after it in the search path, if ompi_info prints the folder.
    """
    components = os.path.join(build, "components")
    command = shlex.split(start)
    if os.path.isdir(components):
        answer = subprocess.run(["ompi_info", "--path", "pkglibdir", "--parsable"], check=False, text=True,
                                stdout=subprocess.PIPE).stdout.strip()
        path = components + (":" + answer.split(":", 2)[2] if answer.startswith("path:pkglibdir:") else "")
        command += ["--mca", "mca_base_component_path", path, "--mca", "coll", "mscclpp"]
    return command + [os.path.join(build, "mscclpp_bench")]


def measure(command, options, path):
    """Runs mscclpp_bench, with its JSON file at path. Returns microseconds by row, and the number of wrong elements.

    With --between the microseconds are the time that a call adds, which may be negative. Results that were not verified
    count as correct. Raises Unusable if the run fails or its file cannot be used.
    """
    process = subprocess.run(command + options + ["--json", path], check=False, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    if process.returncode:
        last_line = process.stdout.strip().split("\n")[-1]
        raise Unusable(f"{shlex.join(command + options)}: exit status {process.returncode}: {last_line}")
    data = load(path)
    if data["mode"] == "port":
        raise Unusable("--mode port has no times of calls; use another mode")
    key = "added_us" if "between" in data else "time_us"
    times = {(collective_of(row), row["type"], row["op"], row["bytes"], row["in_place"]): row[key]["median"]
             for row in data["results"]}
    return times, sum(row["wrong"] or 0 for row in data["results"])


def name(key):
    """Returns the name of a row of measure(), for a line of the output."""
    what = describe_row({"coll": key[0], "type": key[1], "op": key[2]})
    return f"{size_text(key[3])} {what}, {'in' if key[4] else 'out of'} place"


def judge(key, old, new, tolerance):
    """Returns the line of a row, and True if the builds differ in it. `old` and `new`: microseconds of each turn."""
    before, after = statistics.median(old), statistics.median(new)
    spread = max(max(old) - min(old), max(new) - min(new))
    differs = abs(after - before) > max(spread, tolerance * abs(before))
    ratio = f"{after / before:.3f}" if before > 0 else "-"
    verdict = "differs" if differs else "same"
    return f"{name(key):44} {before:10.2f} {after:10.2f} {ratio:>8} {spread:8.2f}  {verdict}", differs


def turns(text):
    """Returns the value of --turns. Raises ValueError, which argparse reports, if it is refused.

    At least two turns are necessary to compute a spread.
    """
    value = int(text)
    if not 2 <= value <= 1000:
        raise ValueError(text)
    return value


def fraction(text):
    """Returns the value of --tolerance. Raises ValueError, which argparse reports, if it is refused."""
    value = float(text)
    if not 0 <= value < 10:
        raise ValueError(text)
    return value


def compare(options):
    """Runs both builds, and prints a line for each row. Returns the exit status.

    Rows are printed in the order of the old build. A row that only one build has is not compared, and is named at the
    end.
    """
    commands = [bench_command(build, options.start) for build in (options.old, options.new)]
    times_of_side = [{}, {}]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(options.turns):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                times, wrong_now = measure(commands[side], options.bench, os.path.join(folder, "run.json"))
                wrong += wrong_now
                for key, microseconds in times.items():
                    times_of_side[side].setdefault(key, []).append(microseconds)
    missing = sorted(set(times_of_side[0]) ^ set(times_of_side[1]))
    print(f"{'':44} {'old, us':>10} {'new, us':>10} {'ratio':>8} {'spread':>8}")
    differing = 0
    for key in (key for key in times_of_side[0] if key in times_of_side[1]):
        line, differs = judge(key, times_of_side[0][key], times_of_side[1][key], options.tolerance)
        differing += differs
        print(line)
    for key in missing:
        print(f"missing: {name(key)}: only one of the builds measures it")
    print(f"{len(times_of_side[0])} rows, {options.turns} turns: {differing} differ, {wrong} wrong elements, "
          f"{len(missing)} missing")
    return 1 if differing or wrong or missing else 0


def main():
    """Reads the command line, and compares the builds. Returns the exit status."""
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--start", default="mpirun -n 2", metavar="COMMAND")
    parser.add_argument("--turns", type=turns, default=7, metavar="N")
    parser.add_argument("--tolerance", type=fraction, default=0.02, metavar="FRACTION")
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", metavar="NEW")
    options = parser.parse_args(words[:split])
    options.bench = words[split + 1:]
    for build in (options.old, options.new):
        if not os.access(os.path.join(build, "mscclpp_bench"), os.X_OK):
            parser.error(f"'{build}' is no build folder: it has no mscclpp_bench")
    try:
        return compare(options)
    except Unusable as error:
        print(f"alternate: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
